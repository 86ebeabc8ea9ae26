"""Admin programs for kafka-python and aiokafka: the same with them and with `klamm.compat`."""

from __future__ import annotations

import asyncio
import importlib
from typing import Any

import pytest

pytestmark = [pytest.mark.timeout(120), pytest.mark.filterwarnings("ignore::DeprecationWarning")]


@pytest.fixture(params=["kafka", "klamm.compat.kafka"], ids=["theirs", "ours"])
def kafka(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=["aiokafka", "klamm.compat.aiokafka"], ids=["theirs", "ours"])
def aiokafka(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_kafka_python_manages_topics_and_settings(kafka: str, bootstrap: str, topic: str) -> None:
    lib = importlib.import_module(f"{kafka}.admin")
    errors = importlib.import_module(f"{kafka}.errors")
    admin = lib.KafkaAdminClient(bootstrap_servers=bootstrap)
    (created,) = admin.create_topics([lib.NewTopic(topic, 2, 1)], wait_for_metadata=True)["topics"]
    assert (created["name"], created["error_code"], created["num_partitions"]) == (topic, 0, 2)
    with pytest.raises(errors.TopicAlreadyExistsError):
        admin.create_topics({topic: {"num_partitions": 2}})
    (again,) = admin.create_topics([topic], raise_errors=False)["topics"]
    assert again["error_code"] == 36
    admin.create_partitions({topic: lib.NewPartitions(total_count=3)})
    assert topic in admin.list_topics()
    found, missing = admin.describe_topics([topic, f"{topic}-nowhere"])
    assert [item["partition_index"] for item in found["partitions"]] == [0, 1, 2]
    assert found["topic_id"] == created["topic_id"]
    assert (missing["error_code"], missing["partitions"]) == (3, [])
    assert admin.describe_cluster()["brokers"][0]["port"] > 0

    change = lib.ConfigResource(lib.ConfigResourceType.TOPIC, topic, {"retention.ms": "60000"})
    assert admin.alter_configs([change]) == {"topic": {topic: "OK"}}
    described = admin.describe_configs([lib.ConfigResource("TOPIC", topic)])["topic"][topic]
    assert described["retention.ms"]["value"] == "60000"
    assert described["retention.ms"]["config_source"] == "DYNAMIC_TOPIC_CONFIG"
    assert admin.reset_configs([change]) == {"topic": {topic: "OK"}}
    assert admin.describe_configs([lib.ConfigResource("TOPIC", topic)]) == {"topic": {topic: {}}}
    with pytest.raises(ValueError, match="flavour"):
        admin.alter_configs([lib.ConfigResource("TOPIC", topic, {"flavour": "salty"})])
    assert admin.delete_topics([topic])["topics"][0]["error_code"] == 0
    with pytest.raises(errors.UnknownTopicOrPartitionError):
        admin.delete_topics([f"{topic}-nowhere"])
    admin.close()


def test_kafka_python_manages_groups_and_offsets(kafka: str, bootstrap: str, topic: str) -> None:
    top, lib = importlib.import_module(kafka), importlib.import_module(f"{kafka}.admin")
    errors = importlib.import_module(f"{kafka}.errors")
    admin = top.KafkaAdminClient(bootstrap_servers=bootstrap)
    group, place = f"group-{topic}", top.TopicPartition(topic, 0)
    producer = top.KafkaProducer(bootstrap_servers=bootstrap)
    for number in range(3):
        producer.send(topic, str(number).encode(), partition=0).get(timeout=20)
    producer.close()
    specs = top.OffsetSpec
    assert admin.list_partition_offsets({place: specs.LATEST})[place].offset == 3
    assert admin.delete_records({place: 1})[place]["low_watermark"] == 1
    assert admin.list_partition_offsets({place: specs.EARLIEST})[place].offset == 1

    consumer = top.KafkaConsumer(
        topic, group_id=group, bootstrap_servers=bootstrap, auto_offset_reset="earliest"
    )
    assert next(consumer).value == b"1"
    assert group in {item["group_id"] for item in admin.list_groups()}
    described = admin.describe_groups([group])[group]
    assert (described["group_state"], described["error"]) == ("Stable", None)
    assert described["members"][0]["member_metadata"]["topics"] == [topic]
    assert described["members"][0]["member_assignment"]["assigned_partitions"][0]["topic"] == topic
    assert admin.delete_groups([group]) == {group: "NonEmptyGroupError"}
    consumer.commit({place: top.OffsetAndMetadata(2, "m", -1)})
    consumer.close(autocommit=False)

    assert admin.list_group_offsets(group)[group][place][:2] == (2, "m")
    assert admin.reset_group_offsets(group, {place: specs.LATEST})[place]["offset"] == 3
    altered = admin.alter_group_offsets(group, {place: top.OffsetAndMetadata(1, "", -1)})
    assert altered == {place: errors.NoError}
    assert admin.list_group_offsets({group: [place]})[group][place].offset == 1
    assert admin.delete_group_offsets(group, [place]) == {place: errors.NoError}
    admin.delete_groups([group])
    assert admin.describe_groups([group])[group]["group_state"] == "Dead"
    admin.close()
    assert lib.OffsetSpec is specs


def test_aiokafka_manages_topics_settings_and_groups(aiokafka: str, bootstrap: str, topic: str) -> None:
    top, lib = importlib.import_module(aiokafka), importlib.import_module(f"{aiokafka}.admin")
    config = importlib.import_module(f"{aiokafka}.admin.config_resource")
    errors = importlib.import_module(f"{aiokafka}.errors")
    group, place = f"group-{topic}", top.TopicPartition(topic, 0)

    async def program() -> None:
        admin = lib.AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        await admin.start()
        created = await admin.create_topics([lib.NewTopic(topic, 2, 1)])
        assert created.topic_errors[0][:2] == (topic, 0)
        again = await admin.create_topics([lib.NewTopic(topic, 2, 1)])
        assert again.topic_errors[0][:2] == (topic, 36)
        await admin.create_partitions({topic: lib.NewPartitions(3)})
        with pytest.raises(errors.UnknownTopicOrPartitionError):
            await admin.create_partitions({f"{topic}-nowhere": lib.NewPartitions(3)})
        assert topic in await admin.list_topics()
        (found,) = await admin.describe_topics([topic])
        assert [item["partition"] for item in found["partitions"]] == [0, 1, 2]
        assert (await admin.describe_cluster())["brokers"][0]["port"] > 0

        resource = config.ConfigResource(config.ConfigResourceType.TOPIC, topic, {"retention.ms": "60000"})
        (answer,) = await admin.alter_configs([resource])
        assert answer.resources[0][0] == 0
        (answer,) = await admin.describe_configs([resource])
        assert answer.resources[0][:4] == (0, "", 2, topic)
        assert answer.resources[0][4][0][:4] == ("retention.ms", "60000", False, 1)

        consumer = top.AIOKafkaConsumer(
            topic, group_id=group, bootstrap_servers=bootstrap, enable_auto_commit=False
        )
        await consumer.start()
        assert (group, "consumer") in await admin.list_consumer_groups()
        (answer,) = await admin.describe_consumer_groups([group])
        assert answer.groups[0][:4] == (0, group, "Stable", "consumer")
        assert await admin.find_coordinator(group) in {
            item["node_id"] for item in (await admin.describe_cluster())["brokers"]
        }
        await consumer.commit({place: top.structs.OffsetAndMetadata(0, "m")})
        await consumer.stop()
        assert await admin.list_consumer_group_offsets(group) == {place: (0, "m")}
        unread = top.TopicPartition(topic, 1)
        offsets = await admin.list_consumer_group_offsets(group, partitions=[unread])
        assert offsets[unread].offset == -1
        assert await admin.delete_records({place: lib.RecordsToDelete(0)}) == {place: 0}
        deleted = await admin.delete_topics([topic])
        assert deleted.topic_error_codes == [(topic, 0)]
        await admin.close()

    asyncio.run(program())


def test_an_assignor_is_given_by_its_class(aiokafka: str, kafka: str, bootstrap: str, topic: str) -> None:
    module = importlib.import_module(f"{kafka}.coordinator.assignors.sticky.sticky_assignor")
    consumer: Any = importlib.import_module(kafka).KafkaConsumer(
        topic,
        group_id=f"group-{topic}",
        bootstrap_servers=bootstrap,
        partition_assignment_strategy=[module.StickyPartitionAssignor],
    )
    consumer.poll(timeout_ms=100)
    consumer.close()
    range_ = importlib.import_module(f"{aiokafka}.coordinator.assignors.range").RangePartitionAssignor
    assert range_.name == "range"
