"""Records survive the way from any client through the broker to any other client."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping

import pytest

from interop.harness import (
    CLIENTS,
    COMPRESSIONS,
    MESSAGE_TOO_LARGE,
    START_MS,
    WRITES_NULL_HEADERS,
    ClientError,
    ClientProcess,
    Record,
)

ClientFactory = Callable[[str], ClientProcess]
Shelf = Mapping[tuple[str, str], tuple[str, int, list[Record]]]


def some_records(count: int, *, null_headers: bool = False) -> list[Record]:
    """Records of every shape: keys, values and headers present, empty and absent."""
    now_ms = int(time.time() * 1000)
    keys = (b"key", b"", None, "schlüssel-☃".encode())
    values = (None, b"value", b"", bytes(range(256)) * 2)  # aiokafka refuses a record without both
    headers: tuple[tuple[tuple[str, bytes | None], ...], ...] = (
        (),
        (("trace", b"\x00\xff"),),
        (("a", b"1"), ("b", b""), ("ü", b"3")),
        (("none", None),) if null_headers else (("some", b"4"),),
    )
    return [
        Record(
            timestamp_ms=now_ms - count + position,
            key=keys[position % len(keys)],
            value=values[position % len(values)],
            headers=headers[position // 4 % len(headers)],
        )
        for position in range(count)
    ]


@pytest.fixture(scope="module")
def shelf(client: ClientFactory, topic_numbers: Iterator[int]) -> Shelf:
    """What every client wrote with every compression, one partition each."""
    name = f"shelf-{next(topic_numbers):x}"
    pairs = [(writer, compression) for writer in CLIENTS for compression in COMPRESSIONS]
    client("confluent").create_topic(name, len(pairs))
    written = {}
    for partition, (writer, compression) in enumerate(pairs):
        records = some_records(40, null_headers=writer in WRITES_NULL_HEADERS)
        offsets = client(writer).produce(name, records, partition=partition, compression=compression)
        assert offsets == list(range(40)), f"{writer} with {compression}"
        written[writer, compression] = (name, partition, records)
    return written


@pytest.mark.parametrize("reader", CLIENTS)
@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_what_every_client_wrote_reads_the_same_in_every_other(
    client: ClientFactory, shelf: Shelf, reader: str, compression: str
) -> None:
    for writer in CLIENTS:
        topic, partition, records = shelf[writer, compression]
        assert client(reader).consume(topic, len(records), partition=partition) == records, (
            f"written by {writer}"
        )


@pytest.mark.parametrize("name", CLIENTS)
def test_a_reader_can_start_in_the_middle_of_a_batch(client: ClientFactory, shelf: Shelf, name: str) -> None:
    topic, partition, records = shelf["java", "lz4"]
    assert client(name).consume(topic, 7, partition=partition, offset=33) == records[33:]


@pytest.mark.parametrize("name", CLIENTS)
def test_a_reader_at_the_end_gets_the_next_record_when_it_is_written(
    client: ClientFactory, topic: str, name: str
) -> None:
    writer = client("java" if name == "confluent" else "confluent")
    writer.create_topic(topic)
    first, second = some_records(2)
    writer.produce(topic, [first])
    client(name).begin("consume", topic=topic, partition=0, offset=1, count=1)
    writer.produce(topic, [second])
    (read,) = client(name).finish("consume")["records"]
    assert Record.from_wire(read) == second


@pytest.mark.parametrize("name", CLIENTS)
@pytest.mark.parametrize("acks", [1, "all"])
def test_acknowledged_records_have_the_next_offsets(
    client: ClientFactory, topic: str, name: str, acks: str | int
) -> None:
    client("confluent").create_topic(topic)
    assert client(name).produce(topic, some_records(3), acks=acks) == [0, 1, 2]
    assert client(name).produce(topic, some_records(2), acks=acks) == [3, 4]


@pytest.mark.parametrize("name", CLIENTS)
def test_records_sent_without_asking_for_an_acknowledgement_arrive(
    client: ClientFactory, topic: str, name: str
) -> None:
    records = some_records(5)
    client("confluent").create_topic(topic)
    client(name).produce(topic, records, acks=0)
    assert client("confluent").consume(topic, 5) == records


@pytest.mark.parametrize("name", CLIENTS)
def test_an_idempotent_producer_writes_many_batches_in_order(
    client: ClientFactory, topic: str, name: str
) -> None:
    client("confluent").create_topic(topic, 2)
    records = [
        Record(timestamp_ms=START_MS + n, key=None, value=n.to_bytes(4) + bytes(200)) for n in range(600)
    ]
    offsets = client(name).produce(
        topic, records, partition=1, idempotent=True, batch_records=50, batch_bytes=8_000
    )
    assert offsets == list(range(600))
    assert client("java").consume(topic, 600, partition=1) == records
    assert client("java").offset_at(topic, "latest", partition=1) == 600


@pytest.mark.parametrize("name", CLIENTS)
def test_big_messages_pass_when_the_topic_allows_them(client: ClientFactory, topic: str, name: str) -> None:
    client("confluent").create_topic(topic, max_message_bytes="6000000")
    noise = random.Random(name).randbytes(2_500_000)
    record = Record(timestamp_ms=START_MS, key=b"big", value=noise + noise)
    assert client(name).produce(topic, [record], max_bytes=6_000_000) == [0]
    assert client(name).consume(topic, 1, max_bytes=6_000_000) == [record]
    # The first batch of an answer is sent whole, whatever the reader's limit.
    assert client("franz-go").consume(topic, 1, max_bytes=1_000) == [record]


@pytest.mark.parametrize("name", CLIENTS)
def test_a_message_above_the_limit_is_refused(client: ClientFactory, topic: str, name: str) -> None:
    client("confluent").create_topic(topic, max_message_bytes="50000")
    noise = random.Random(name).randbytes(60_000)
    with pytest.raises(ClientError) as refused:
        client(name).produce(topic, [Record(timestamp_ms=START_MS, key=None, value=noise)])
    assert refused.value.code == MESSAGE_TOO_LARGE
    assert client(name).offset_at(topic, "latest") == 0


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_a_topic_that_wants_gzip_gives_back_what_was_written(
    client: ClientFactory, topic: str, compression: str
) -> None:
    records = some_records(20)
    client("confluent").create_topic(topic, compression_type="gzip")
    assert client("java").produce(topic, records, compression=compression) == list(range(20))
    assert client("confluent").consume(topic, 20) == records
