"""A broker's start: what it takes over, what it leaves alone, what it serves all the same."""

from __future__ import annotations

from internals.jar import Jar
from klamm.broker.partitions.registry import Partition
from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.metadata import MetadataRequest
from klamm.storage.cluster import ConfigResourceType
from klamm.storage.engines.segments.files import remove_tree
from klamm.storage.engines.segments.names import PARTITION_CHECKPOINT
from klamm.testing.requests import a_batch, a_produce


def again(jar: Jar) -> Jar:
    """The same broker after a clean stop."""
    jar.loop.run(jar.broker.stop())
    return Jar(clock=jar.clock, files=jar.files, cluster=jar.cluster)


def produce(jar: Jar, topic: str = "t") -> int:
    answer = jar.connect().ask(ApiKey.PRODUCE, 9, a_produce(jar, topic=topic))
    code: int = answer.responses[0].partition_responses[0].error_code
    return code


def partition_of(jar: Jar, topic: str = "t") -> Partition:
    partition = jar.services.partitions.get(topic, 0)
    assert partition is not None
    return partition


def test_each_start_takes_its_partitions_at_the_next_epoch_and_keeps_their_records() -> None:
    jar = Jar()
    jar.create_topic("t")
    for epoch in range(3):
        assert partition_of(jar).leader_epoch == epoch
        assert partition_of(jar).log.log_end_offset == epoch
        assert produce(jar) == 0
        jar = again(jar)
    jar.close()


def test_settings_made_while_running_hold_after_a_restart() -> None:
    jar = Jar()
    jar.create_topic("t")
    jar.cluster.replace_configs(ConfigResourceType.BROKER, "", {"message.max.bytes": "1000"})
    jar = again(jar)
    assert jar.services.config.topic_config({}).max_message_bytes == 1000
    batch = a_batch(jar, value=bytes(2000))
    answer = jar.connect().ask(ApiKey.PRODUCE, 9, a_produce(jar, batch))
    assert answer.responses[0].partition_responses[0].error_code == 10
    jar.close()


def test_a_log_that_cannot_be_read_is_offline_and_the_rest_serve() -> None:
    jar = Jar()
    for topic in ("good", "bad"):
        jar.create_topic(topic)
        assert produce(jar, topic) == 0
    jar.loop.run(jar.broker.stop())
    remove_tree(jar.files, "/logs/bad-0")
    jar.files.write_file("/logs/bad-0", b"a file in the place of a directory", sync=True)
    jar = Jar(clock=jar.clock, files=jar.files, cluster=jar.cluster)
    (bad,) = jar.services.partitions.of_topic("bad")
    assert bad.error_code is ErrorCode.kafka_storage_error
    assert produce(jar, "bad") == 56
    assert produce(jar, "good") == 0
    jar.close()


def test_a_log_of_another_topic_is_set_aside_and_not_lost() -> None:
    jar = Jar()
    jar.create_topic("t")
    assert produce(jar) == 0
    topic = jar.services.image.topic("t")
    assert topic is not None
    # The power goes after the cluster forgot the topic and before its files were moved
    jar.loop.run(jar.broker.stop())
    jar.cluster.delete_topic("t", topic.topic_id)
    jar = Jar(clock=jar.clock, files=jar.files, cluster=jar.cluster)
    kept = [entry.name for entry in jar.files.scan("/logs") if entry.name.endswith("-stray")]
    assert kept == [f"t-0.{topic.topic_id.hex()}-stray"]
    jar.create_topic("t")
    assert produce(jar) == 0
    assert partition_of(jar).log.log_end_offset == 1
    jar = again(jar)
    assert partition_of(jar).log.log_end_offset == 1
    assert [entry.name for entry in jar.files.scan("/logs") if entry.name.endswith("-stray")] == kept
    jar.close()


def test_partitions_that_were_never_told_to_the_cluster_are_set_aside() -> None:
    jar = Jar()
    jar.create_topic("t")
    jar.files.make_directory("/logs/t-1")
    jar.files.make_directory("/logs/u-0")
    jar = again(jar)
    names = {
        entry.name.partition(".")[0] for entry in jar.files.scan("/logs") if entry.name.endswith("-stray")
    }
    assert names == {"t-1", "u-0"}
    answer = jar.connect().ask(ApiKey.METADATA, 12, MetadataRequest(None))
    assert [(topic.name, len(topic.partitions)) for topic in answer.topics] == [("t", 1)]
    jar.close()


def test_a_flipped_bit_in_a_topic_id_hides_no_records() -> None:
    jar = Jar()
    jar.create_topic("t")
    assert produce(jar) == 0
    jar.loop.run(jar.broker.stop())
    path = "/logs/t-0/partition.metadata"
    data = bytearray(jar.files.read_file(path))
    data[-5] ^= 1
    jar.files.write_file(path, bytes(data), sync=True)
    jar = Jar(clock=jar.clock, files=jar.files, cluster=jar.cluster)
    assert partition_of(jar).log.log_end_offset == 1
    jar.loop.run(jar.broker.stop())
    # Without a checkpoint it is not known whose log it is: it is neither served nor replaced
    jar.files.write_file(path, bytes(data), sync=True)
    jar.files.remove(f"/logs/t-0/{PARTITION_CHECKPOINT}")
    jar = Jar(clock=jar.clock, files=jar.files, cluster=jar.cluster)
    assert produce(jar) == 56
    assert not [entry.name for entry in jar.files.scan("/logs") if entry.name.endswith("-stray")]
    jar.close()
