"""Produce and the disk: when the answer comes, what it waits for, and what is kept in memory meanwhile."""

from __future__ import annotations

import gc
import struct
from collections.abc import Iterator
from typing import Any

import pytest

from internals.jar import Jar, JarClient
from klamm.broker.partitions.registry import Partition
from klamm.protocol.api import ApiKey
from klamm.protocol.messages.produce import PartitionProduceResponse, ProduceRequest
from klamm.records.record import decode_records
from klamm.storage.engines.simulated_disk import FailingOperation
from klamm.testing.requests import a_batch, a_fetch, a_produce


@pytest.fixture
def jar() -> Iterator[Jar]:
    jar = Jar()
    jar.create_topic("t")
    yield jar
    jar.close()


@pytest.fixture
def client(jar: Jar) -> JarClient:
    return jar.connect()


def produce_one(client: JarClient, request: Any, version: int = 9) -> PartitionProduceResponse:
    response = client.ask(ApiKey.PRODUCE, version, request)
    answer: PartitionProduceResponse = response.responses[0].partition_responses[0]
    return answer


def partition_of(jar: Jar, topic: str = "t") -> Partition:
    partition = jar.services.partitions.get(topic, 0)
    assert partition is not None
    return partition


def test_a_client_reads_what_it_has_written_itself_whatever_its_acks(jar: Jar, client: JarClient) -> None:
    jar.disk.delay_ms = 50
    client.send(ApiKey.PRODUCE, 9, a_produce(jar, acks=0))
    assert produce_one(client, a_produce(jar, acks=1)).error_code == 0
    client.send(ApiKey.FETCH, 12, a_fetch(jar))
    other = jar.connect().ask(ApiKey.FETCH, 12, a_fetch(jar))
    assert other.responses[0].partitions[0].high_watermark == 0  # others read what is durable, at once
    assert client.new_answers() == []
    jar.pass_ms(120)
    (answer,) = client.new_answers()
    assert answer.responses[0].partitions[0].high_watermark == 2


def test_what_is_durable_is_not_waited_for_again(jar: Jar, client: JarClient) -> None:
    assert produce_one(client, a_produce(jar, acks=1)).error_code == 0
    jar.pass_ms(60)
    jar.disk.delay_ms = 50
    assert client.ask(ApiKey.FETCH, 12, a_fetch(jar)).responses[0].partitions[0].high_watermark == 1


def test_acks_1_do_not_wait_for_the_disk_and_nobody_reads_what_is_not_on_it(
    jar: Jar, client: JarClient
) -> None:
    jar.disk.delay_ms = 100
    assert produce_one(client, a_produce(jar, acks=1)).error_code == 0
    assert partition_of(jar).log.high_watermark == 0
    jar.pass_ms(100)
    assert partition_of(jar).log.high_watermark == 1


def test_a_duplicate_is_answered_when_its_original_is_durable(jar: Jar, client: JarClient) -> None:
    # scenario 20 of transactions: durable means flushed, where Kafka waits for its replicas
    jar.disk.delay_ms = 500
    batch = a_batch(jar, producer_id=7)
    other = jar.connect()  # the first connection broke, as its producer believes
    client.send(ApiKey.PRODUCE, 9, a_produce(jar, batch))
    jar.pass_ms(100)
    other.send(ApiKey.PRODUCE, 9, a_produce(jar, batch))
    jar.pass_ms(300)
    assert (client.new_answers(), other.new_answers()) == ([], [])
    jar.pass_ms(200)
    for connection in (client, other):
        (answer,) = connection.new_answers()
        line = answer.responses[0].partition_responses[0]
        assert (line.error_code, line.base_offset) == (0, 0)
    assert partition_of(jar).log.log_end_offset == 1


def test_a_flush_slower_than_the_timeout_is_late_and_the_retry_a_duplicate(
    jar: Jar, client: JarClient
) -> None:
    jar.disk.delay_ms = 500
    batch = a_batch(jar, producer_id=7)
    client.send(ApiKey.PRODUCE, 9, a_produce(jar, batch, timeout_ms=100))
    jar.pass_ms(110)
    (answer,) = client.new_answers()
    late = answer.responses[0].partition_responses[0]
    assert (late.error_code, late.base_offset) == (7, -1)
    client.send(ApiKey.PRODUCE, 9, a_produce(jar, batch, timeout_ms=10_000))
    jar.pass_ms(300)
    assert client.new_answers() == []  # the duplicate waits for its original
    jar.pass_ms(200)
    (answer,) = client.new_answers()
    retried = answer.responses[0].partition_responses[0]
    assert (retried.error_code, retried.base_offset) == (0, 0)
    assert partition_of(jar).log.log_end_offset == 1


@pytest.mark.parametrize("timeout_ms", [0, -1])
@pytest.mark.parametrize("batches", [1, 2])
def test_a_timeout_of_zero_does_not_limit_the_wait_for_the_disk(
    jar: Jar, client: JarClient, timeout_ms: int, batches: int
) -> None:
    jar.create_topic("u", partitions=2)
    jar.disk.delay_ms = 1000
    request = a_produce(
        jar, batches={("u", index): a_batch(jar) for index in range(batches)}, timeout_ms=timeout_ms
    )
    client.send(ApiKey.PRODUCE, 9, request)
    jar.pass_ms(900)
    assert client.frames() == []
    jar.pass_ms(200)
    (answer,) = client.new_answers()
    lines = [line for topic in answer.responses for line in topic.partition_responses]
    assert [line.error_code for line in lines] == [0] * batches


def test_a_timeout_of_zero_ends_when_the_disk_is_stuck(jar: Jar, client: JarClient) -> None:
    jar.disk.delay_ms = 100_000
    client.send(ApiKey.PRODUCE, 9, a_produce(jar, timeout_ms=0))
    jar.pass_ms(60_000)
    (answer,) = client.new_answers()
    assert answer.responses[0].partition_responses[0].error_code == 7


def test_a_disk_that_refuses_a_flush_costs_the_batch_and_nothing_else(jar: Jar, client: JarClient) -> None:
    assert produce_one(client, a_produce(jar)).error_code == 0
    jar.files.faults.append(FailingOperation("sync"))
    answer = produce_one(client, a_produce(jar))
    assert (answer.error_code, answer.base_offset) == (56, -1)
    log = partition_of(jar).log
    assert (log.log_end_offset, log.high_watermark) == (1, 1)
    answer = produce_one(client, a_produce(jar))
    assert (answer.error_code, answer.base_offset) == (0, 1)


def lines_of(answer: Any) -> list[tuple[int, int]]:
    """Error code and base offset of each partition."""
    return [
        (line.error_code, line.base_offset)
        for topic in answer.responses
        for line in topic.partition_responses
    ]


def test_several_batches_are_late_together_and_stay(jar: Jar, client: JarClient) -> None:
    jar.create_topic("u", partitions=2)
    jar.disk.delay_ms = 500
    batches = {("u", index): a_batch(jar, producer_id=7) for index in range(2)}
    client.send(ApiKey.PRODUCE, 9, a_produce(jar, batches=batches, timeout_ms=100))
    jar.pass_ms(110)
    (answer,) = client.new_answers()
    assert lines_of(answer) == [(7, -1), (7, -1)]
    jar.pass_ms(2000)
    assert client.new_answers() == []  # it was answered once
    assert list(jar.services.deadlines) == []
    jar.disk.delay_ms = 0
    assert lines_of(client.ask(ApiKey.PRODUCE, 9, a_produce(jar, batches=batches))) == [(0, 0), (0, 0)]


def test_several_batches_share_the_fate_of_their_flush(jar: Jar, client: JarClient) -> None:
    jar.create_topic("u", partitions=2)
    batches = {("u", index): a_batch(jar) for index in range(2)}
    assert lines_of(client.ask(ApiKey.PRODUCE, 9, a_produce(jar, batches=batches))) == [(0, 0), (0, 0)]
    jar.files.faults.append(FailingOperation("sync"))
    refused = client.ask(ApiKey.PRODUCE, 9, a_produce(jar, batches=batches))
    assert (56, -1) in lines_of(refused)
    assert list(jar.services.deadlines) == []


def test_of_several_batches_a_refused_one_does_not_delay_the_others(jar: Jar, client: JarClient) -> None:
    batches = {("t", 0): a_batch(jar), ("t", 1): a_batch(jar)}  # there is no second partition
    assert lines_of(client.ask(ApiKey.PRODUCE, 9, a_produce(jar, batches=batches))) == [(0, 0), (3, -1)]


def test_a_client_that_leaves_does_not_keep_its_batches_waiting(jar: Jar, client: JarClient) -> None:
    jar.create_topic("u", partitions=2)
    jar.disk.delay_ms = 500
    batches = {("u", index): a_batch(jar) for index in range(2)}
    client.send(ApiKey.PRODUCE, 9, a_produce(jar, batches=batches))
    client.close()
    jar.pass_ms(2000)
    assert list(jar.services.deadlines) == []


def test_what_was_answered_survives_a_loss_of_power() -> None:
    jar = Jar()
    jar.create_topic("t")
    client = jar.connect()
    assert produce_one(client, a_produce(jar, a_batch(jar, value=b"kept"))).error_code == 0
    jar.disk.delay_ms = 1000
    assert produce_one(client, a_produce(jar, acks=1)).error_code == 0
    jar.files.crash()
    again = Jar(clock=jar.clock, files=jar.files, cluster=jar.cluster)
    log = partition_of(again).log
    records = decode_records(log.read(0, until_offset=1, max_bytes=10**9, at_least_one=True))
    assert records[0].value == b"kept"
    assert partition_of(again).leader_epoch == 1
    again.close()


def requests_in_memory() -> list[ProduceRequest]:
    """Every one that something refers to; other tests of this process may have left some."""
    gc.collect()
    return [each for each in gc.get_objects() if isinstance(each, ProduceRequest)]


def test_a_held_answer_does_not_keep_its_request(jar: Jar, client: JarClient) -> None:
    before = requests_in_memory()
    jar.disk.delay_ms = 1000
    for _ in range(5):
        client.send(ApiKey.PRODUCE, 9, a_produce(jar, a_batch(jar, value=bytes(100_000))))
    assert client.protocol.is_busy
    assert len(requests_in_memory()) == len(before)
    jar.pass_ms(3000)
    assert [each.responses[0].partition_responses[0].error_code for each in client.new_answers()] == [0] * 5


def test_a_small_batch_in_a_large_request_does_not_keep_it_until_the_flush(
    jar: Jar, client: JarClient
) -> None:
    before = requests_in_memory()
    jar.disk.delay_ms = 1000
    client.send(ApiKey.PRODUCE, 9, a_produce(jar))  # while it is flushed, what follows gathers
    request = client.request(ApiKey.PRODUCE, 9, a_produce(jar)) + bytes(1_000_000)  # bytes that nobody reads
    padded = struct.pack(">i", len(request) - 4) + request[4:]
    client.send_bytes(padded)
    assert len(requests_in_memory()) == len(before)
    assert not partition_of(jar).log.segments[-1].has_pending_writes  # type: ignore[attr-defined]  # of this engine
    jar.pass_ms(3000)
    assert [each.responses[0].partition_responses[0].error_code for each in client.new_answers()] == [0] * 2
