"""Brokers that lie, flood or say nothing: every client says what is wrong, in time, and stays small."""

from __future__ import annotations

import re
import socket
import struct
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from interop.hostile import (
    CHUNK,
    Behaviour,
    HostileBroker,
    HostileConnection,
    after_versions,
    serving,
)
from klamm import Admin, Consumer, Producer, TopicPartition
from klamm.errors import KlammError, KlammTimeoutError, ProtocolError
from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from klamm.protocol.messages.init_producer_id import InitProducerIdResponse
from klamm.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from klamm.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from klamm.records.compression import Codec
from klamm.records.record import MAX_DECOMPRESSED_BYTES, Record, encode_batch

pytestmark = pytest.mark.timeout(60)

LIMIT_S: Final = 0.4
SLACK_S: Final = 3.0  # a busy machine
TOPIC_ID: Final = bytes(range(16))
PATIENCE: Final = {
    "request.timeout.ms": 150,
    "retry.backoff.ms": 20,
    "retry.backoff.max.ms": 50,
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 50,
}


def ask_the_admin(bootstrap: str) -> None:
    with Admin({"bootstrap.servers": bootstrap, **PATIENCE}) as admin:
        admin.describe_topics(["t"], timeout=LIMIT_S)


def ask_the_producer(bootstrap: str) -> None:
    limit_ms = round(LIMIT_S * 1000)
    with Producer({"bootstrap.servers": bootstrap, "max.block.ms": limit_ms, **PATIENCE}) as producer:
        producer.send("t", b"v")


def ask_the_consumer(bootstrap: str) -> None:
    with Consumer({"bootstrap.servers": bootstrap, "fetch.max.wait.ms": 50, **PATIENCE}) as consumer:
        partition = TopicPartition("t", 0)
        consumer.assign([partition])
        assert not consumer.poll(LIMIT_S / 4)
        consumer.end_offsets([partition], timeout=LIMIT_S)


def ask_a_member(bootstrap: str) -> None:
    with Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "g", "fetch.max.wait.ms": 50, **PATIENCE}
    ) as consumer:
        consumer.subscribe(["t"])
        assert not consumer.poll(LIMIT_S / 4)
        assert not consumer.health().is_healthy
        consumer.committed([TopicPartition("t", 0)], timeout=LIMIT_S)


ASKING = {
    "admin": ask_the_admin,
    "producer": ask_the_producer,
    "consumer": ask_the_consumer,
    "member": ask_a_member,
}


def frame(data: bytes) -> Behaviour:
    """Answer whatever is asked with these bytes."""

    def behave(connection: HostileConnection) -> None:
        connection.request()
        connection.socket.sendall(data)
        connection.fall_silent()

    return behave


def flood_of_answers(connection: HostileConnection) -> None:
    connection.request()
    connection.send_for_ever(struct.pack(">iiih", 10, 1, 0, 0) * 10_000)


def one_endless_answer(announced: int) -> Behaviour:
    def behave(connection: HostileConnection) -> None:
        _, _, correlation_id, _ = connection.request()
        connection.socket.sendall(struct.pack(">ii", announced, correlation_id))
        connection.send_for_ever()

    return behave


def wrong_correlation_id(connection: HostileConnection) -> None:
    connection.request()
    connection.socket.sendall(struct.pack(">iihi", 10, 4711, 0, 0))
    connection.fall_silent()


def huge_array(connection: HostileConnection) -> None:
    """An answer of ten bytes that claims to hold two thousand million entries."""
    _, _, correlation_id, _ = connection.request()
    body = b"\x00" * 6 + b"\xff\xff\xff\xff\x07" * 4
    connection.socket.sendall(struct.pack(">ii", 4 + len(body), correlation_id) + body)
    connection.fall_silent()


def hang_up(connection: HostileConnection) -> None:
    connection.request()


def reset(connection: HostileConnection) -> None:
    connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def a_byte_at_a_time(connection: HostileConnection) -> None:
    """The connection is never quiet for long, and the answer never whole."""
    _, _, correlation_id, _ = connection.request()
    answer = struct.pack(">ii", 900, correlation_id) + bytes(896)
    connection.socket.settimeout(0.03)
    for at in range(len(answer)):
        try:
            if not connection.socket.recv(65536):
                return
        except TimeoutError:
            connection.socket.sendall(answer[at : at + 1])


def silence(connection: HostileConnection) -> None:
    connection.fall_silent()


WICKED: Final[dict[str, tuple[Behaviour, str]]] = {
    "silence": (silence, "no response"),
    "silence after the versions": (after_versions(silence), "no response"),
    "a byte at a time": (a_byte_at_a_time, "no response"),
    "a byte at a time after the versions": (after_versions(a_byte_at_a_time), "no response"),
    "hanging up": (hang_up, "clos"),
    "a reset": (reset, "reset|clos|pipe"),
    "a negative length": (frame(struct.pack(">i", -1)), "-1 bytes"),
    "a length of nothing": (frame(bytes(4)), "0 bytes"),
    "two gigabytes announced": (frame(struct.pack(">i", 2**31 - 1) + b"more"), "2147483647 bytes"),
    "a web server": (frame(b"HTTP/1.1 400 Bad Request\r\n\r\n"), "web server"),
    "a TLS alert": (frame(bytes.fromhex("15030300020246")), "TLS"),
    "noise": (frame(b"\x00\x00\x00\x20" + bytes(range(32))), "expected|malformed"),
    "a wrong correlation id": (wrong_correlation_id, "4711"),
    "a wrong correlation id after the versions": (after_versions(wrong_correlation_id), "4711"),
    "an array of thousands of millions": (huge_array, "malformed"),
    "the same after the versions": (after_versions(huge_array), "malformed"),
    "answers without end": (flood_of_answers, "expected|malformed|not asked"),
    "answers without end after the versions": (after_versions(flood_of_answers), "expected|malformed"),
    "one answer without end": (one_endless_answer(2**30), "1073741824 bytes"),
    "a smaller answer without end": (one_endless_answer(900_000), "malformed|expected|not asked"),
    "one answer without end after the versions": (after_versions(one_endless_answer(2**30)), "bytes"),
}


@contextmanager
def staying_small(limit_bytes: int = 64 * 1024 * 1024) -> Iterator[None]:
    """The process must not grow by more than this, not even for a moment."""
    Path("/proc/self/clear_refs").write_text("5")  # forgets the highest size so far
    before = _memory("VmRSS")
    yield
    grown = _memory("VmHWM") - before
    assert grown < limit_bytes, f"grew by {grown >> 20} MiB"


def _memory(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) * 1024
    raise KeyError(name)


def complaints(bootstrap: str) -> dict[str, str]:
    """What each client says when it is asked something, all at the same time."""

    def complaint(ask: Callable[[str], None]) -> str:
        with pytest.raises(KlammError) as caught:
            ask(bootstrap)
        return str(caught.value)

    with ThreadPoolExecutor(len(ASKING)) as pool:
        return dict(zip(ASKING, pool.map(complaint, ASKING.values()), strict=True))


@pytest.mark.parametrize("wickedness", WICKED)
def test_every_client_says_what_is_wrong_in_time_and_stays_small(wickedness: str) -> None:
    behaviour, expected = WICKED[wickedness]
    with HostileBroker(behaviour) as broker, staying_small():
        began = time.monotonic()
        said = complaints(broker.bootstrap)
        assert time.monotonic() - began < LIMIT_S * 2 + SLACK_S
        for client, complaint in said.items():
            assert re.search(expected, complaint), (client, complaint)
            assert broker.bootstrap in complaint
        assert broker.connections < 200, "they back off"


def test_a_port_behind_which_nobody_accepts_is_given_up() -> None:
    """The kernel takes the connection, and nobody is there to answer."""
    with socket.create_server(("127.0.0.1", 0), backlog=10) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        for client, complaint in complaints(address).items():
            assert f"{address}: connected, but got no response" in complaint, client


def test_a_port_that_is_closed_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
    for client, complaint in complaints(address).items():
        assert re.search(rf"{address}: .*refused", complaint), (client, complaint)


def a_cluster(port: int) -> MetadataResponse:
    return MetadataResponse(
        brokers=[MetadataResponseBroker(0, "127.0.0.1", port)],
        cluster_id="c",
        controller_id=0,
        topics=[
            MetadataResponseTopic(
                name="t",
                topic_id=TOPIC_ID,
                partitions=[MetadataResponsePartition(leader_id=0, replica_nodes=[0], isr_nodes=[0])],
            )
        ],
    )


@contextmanager
def a_broker(answers: dict[ApiKey, Callable[[Any], Any]], then: Behaviour) -> Iterator[HostileBroker]:
    """One that knows its cluster, and answers these; then it does something else."""
    known: dict[ApiKey, Callable[[Any], Any]] = dict(answers)
    with HostileBroker(serving(known, then)) as broker:
        known[ApiKey.METADATA] = lambda _request: a_cluster(broker.port)
        yield broker


def fetched(records: bytes) -> FetchResponse:
    partition = PartitionData(partition_index=0, high_watermark=10, last_stable_offset=10, records=records)
    return FetchResponse(
        responses=[FetchableTopicResponse(topic="t", topic_id=TOPIC_ID, partitions=[partition])]
    )


def broken(batch: bytes) -> bytes:
    damaged = bytearray(batch)
    damaged[-1] ^= 1
    return bytes(damaged)


def bomb(codec: Codec) -> bytes:
    """A few hundred kilobytes that hold more than one batch may."""
    return encode_batch([Record(0, 0, None, bytes(MAX_DECOMPRESSED_BYTES), ())], codec=codec)


GOOD = encode_batch([Record(n, 0, None, b"v%d" % n, ()) for n in range(3)])


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        (lambda: broken(GOOD), "damaged"),
        (lambda: GOOD[:8] + struct.pack(">i", 2**31 - 1) + GOOD[12:], "damaged|does not fit"),
        (lambda: GOOD[:8] + struct.pack(">i", -5) + GOOD[12:], "damaged"),
        (lambda: bomb(Codec.GZIP), "hold more than"),
        (lambda: bomb(Codec.ZSTD), "hold more than"),
    ],
    ids=["a wrong checksum", "a batch of two gigabytes", "a negative batch", "a gzip bomb", "a zstd bomb"],
)
def test_records_that_make_no_sense_are_told_and_stay_where_they_are(
    records: Callable[[], bytes], expected: str
) -> None:
    payload = records()
    with (
        a_broker({ApiKey.FETCH: lambda _request: fetched(payload)}, silence) as broker,
        # One batch may unfold to 128 MiB before it is enough.
        staying_small(400 * 1024 * 1024),
        Consumer({"bootstrap.servers": broker.bootstrap, "fetch.max.wait.ms": 50, **PATIENCE}) as consumer,
    ):
        partition = TopicPartition("t", 0)
        consumer.assign([partition])
        consumer.seek(partition, 0)
        for _ in range(2):
            with pytest.raises(KlammError, match=expected):
                consumer.poll(20)
            assert consumer.position(partition) == 0


def test_records_after_good_ones_come_after_them() -> None:
    with (
        a_broker({ApiKey.FETCH: lambda _request: fetched(GOOD + broken(GOOD))}, silence) as broker,
        Consumer({"bootstrap.servers": broker.bootstrap, "fetch.max.wait.ms": 50, **PATIENCE}) as consumer,
    ):
        consumer.assign([TopicPartition("t", 0)])
        consumer.seek(TopicPartition("t", 0), 0)
        assert [record.value for record in consumer.poll(20)] == [b"v0", b"v1", b"v2"]
        with pytest.raises(ProtocolError, match="damaged"):
            consumer.poll(20)


def test_a_fetch_without_end_is_given_up_again_and_again_without_growing() -> None:
    with (
        a_broker({}, one_endless_answer(2**31 - 1)) as broker,
        staying_small(),
        Consumer({"bootstrap.servers": broker.bootstrap, "fetch.max.wait.ms": 50, **PATIENCE}) as consumer,
    ):
        consumer.assign([TopicPartition("t", 0)])
        consumer.seek(TopicPartition("t", 0), 0)
        for _ in range(5):
            assert not consumer.poll(0.2)
        assert broker.connections > 2, "it tries again"


@pytest.mark.parametrize("client", ["dripping", "wrong partition", "never"])
def test_a_produce_that_is_answered_wrongly_fails_at_its_delivery_timeout(client: str) -> None:
    def dripping(connection: HostileConnection) -> None:
        _, _, correlation_id, _ = connection.request()
        connection.socket.sendall(struct.pack(">ii", 50_000_000, correlation_id))
        while connection.broker.connections:  # a byte at a time, so that something always comes
            connection.socket.sendall(CHUNK[:1])
            time.sleep(0.005)

    def other_partition(_request: Any) -> ProduceResponse:
        answer = PartitionProduceResponse(index=99, error_code=ErrorCode.none, base_offset=0)
        return ProduceResponse(
            responses=[TopicProduceResponse(name="t", topic_id=TOPIC_ID, partition_responses=[answer])]
        )

    answers: dict[ApiKey, Callable[[Any], Any]] = {
        ApiKey.INIT_PRODUCER_ID: lambda _request: InitProducerIdResponse(producer_id=7, producer_epoch=0)
    }
    if client == "wrong partition":
        answers[ApiKey.PRODUCE] = other_partition
    with (
        a_broker(answers, dripping if client == "dripping" else silence) as broker,
        Producer({"bootstrap.servers": broker.bootstrap, "delivery.timeout.ms": 700, **PATIENCE}) as producer,
    ):
        began = time.monotonic()
        delivery = producer.send("t", b"v")
        with pytest.raises(KlammTimeoutError, match=r"delivery\.timeout\.ms=700"):
            delivery.result(20)
        assert 0.5 < time.monotonic() - began < 0.7 + SLACK_S
