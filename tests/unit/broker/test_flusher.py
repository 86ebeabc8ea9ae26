"""The shared flush: who comes along, what is cut back, who goes offline."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from klamm.broker.partitions import Partition
from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode
from klamm.storage.engines.simulated_disk import Fault
from support.jar import Jar, JarClient
from support.requests import a_batch, a_produce


@pytest.fixture
def jar() -> Iterator[Jar]:
    jar = Jar(disk_delay_ms=0)
    jar.create_topic("t", partitions=3)
    jar.disk.delay_ms = 10
    yield jar
    jar.close()


def partition_of(jar: Jar, index: int = 0) -> Partition:
    partition = jar.services.partitions.get("t", index)
    assert partition is not None
    return partition


def errors(client: JarClient) -> list[int]:
    return [
        partition.error_code
        for answer in client.new_answers()
        for topic in answer.responses
        for partition in topic.partition_responses
    ]


def test_all_partitions_share_a_round_and_the_next_one_gathers_meanwhile(jar: Jar) -> None:
    client = jar.connect()

    def burst() -> bytes:
        return b"".join(
            client.request(ApiKey.PRODUCE, 9, a_produce(jar, partition=index)) for index in range(3)
        )

    client.send_bytes(burst())
    jar.pass_ms(5)
    client.send_bytes(burst())
    jar.loop.settle()
    client.send_bytes(burst())
    jar.pass_ms(6)
    assert errors(client) == [0] * 3
    jar.pass_ms(10)
    assert errors(client) == [0] * 6
    assert jar.services.flusher.rounds == 2


def test_a_partition_that_cannot_be_flushed_harms_no_other(jar: Jar) -> None:
    client = jar.connect()
    client.send(ApiKey.PRODUCE, 9, a_produce(jar, batches={("t", index): a_batch(jar) for index in range(3)}))
    jar.files.faults.append(Fault("sync"))
    jar.pass_ms(20)
    codes = errors(client)
    assert sorted(codes) == [0, 0, 56]
    failed = codes.index(56)
    assert [partition_of(jar, index).log.log_end_offset for index in range(3)] == [
        0 if index == failed else 1 for index in range(3)
    ]


def test_everything_that_waited_for_a_failed_flush_is_lost_and_what_follows_is_not(jar: Jar) -> None:
    client = jar.connect()
    client.send(ApiKey.PRODUCE, 9, a_produce(jar))
    jar.files.faults.append(Fault("sync"))
    jar.pass_ms(5)
    client.send(ApiKey.PRODUCE, 9, a_produce(jar))  # behind the first, and cut off with it
    jar.pass_ms(30)
    assert errors(client) == [56, 56]
    assert partition_of(jar).log.log_end_offset == 0
    client.send(ApiKey.PRODUCE, 9, a_produce(jar))
    jar.pass_ms(30)
    assert errors(client) == [0]


def test_a_log_that_cannot_even_be_cut_back_is_offline(jar: Jar, monkeypatch: pytest.MonkeyPatch) -> None:
    client = jar.connect()
    client.send(ApiKey.PRODUCE, 9, a_produce(jar))

    def refuse(ticket: object) -> None:
        raise OSError("the disk is gone")

    monkeypatch.setattr(partition_of(jar).log, "fail_sync", refuse)
    jar.files.faults.append(Fault("sync"))
    jar.pass_ms(30)
    assert errors(client) == [56]
    assert partition_of(jar).error_code is ErrorCode.kafka_storage_error
    client.send(ApiKey.PRODUCE, 9, a_produce(jar))
    client.send(ApiKey.PRODUCE, 9, a_produce(jar, partition=1))
    jar.pass_ms(30)
    assert errors(client) == [56, 0]


def test_draining_waits_for_every_round(jar: Jar) -> None:
    client = jar.connect()
    client.send(ApiKey.PRODUCE, 9, a_produce(jar, acks=1))
    jar.loop.run(jar.services.flusher.drain())
    assert not partition_of(jar).log.is_dirty


def test_in_the_operating_systems_hands_appends_are_readable_at_once_and_flushed_by_count_and_time() -> None:
    jar = Jar({"klamm.flush": "os"})
    jar.create_topic("count", flush_messages=3)
    jar.create_topic("time", flush_ms=5000)
    jar.create_topic("never")
    client = jar.connect()
    for _ in range(2):
        for topic in ("count", "time", "never"):
            client.send(ApiKey.PRODUCE, 9, a_produce(jar, topic=topic))
    jar.loop.settle()
    assert errors(client) == [0] * 6
    by_topic = {partition.topic: partition.log for partition in jar.services.partitions}
    assert all(log.high_watermark == 2 and log.is_dirty for log in by_topic.values())
    client.send(ApiKey.PRODUCE, 9, a_produce(jar, topic="count"))
    jar.loop.settle()
    assert not by_topic["count"].is_dirty
    jar.pass_ms(7000)
    assert not by_topic["time"].is_dirty
    assert by_topic["never"].is_dirty
    jar.close()


def test_internal_topics_wait_for_the_disk_also_then() -> None:
    jar = Jar({"klamm.flush": "os"})
    jar.loop.run(jar.services.topics.ensure(["__consumer_offsets"]))
    jar.disk.delay_ms = 50
    client = jar.connect(client_id="__admin_client")
    client.send(ApiKey.PRODUCE, 9, a_produce(jar, topic="__consumer_offsets"))
    jar.pass_ms(40)
    assert client.frames() == []
    jar.pass_ms(20)
    assert errors(client) == [0]
    jar.close()
