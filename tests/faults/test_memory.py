"""Clients that request much and read or finish little: memory stays bounded, others are served."""

from __future__ import annotations

import selectors
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Final, cast

import pytest

from interop.processes import KlammProcess
from klamm.clock import SystemClock
from klamm.protocol.api import ApiKey
from klamm.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from klamm.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from klamm.protocol.messages.heartbeat import HeartbeatRequest
from klamm.protocol.messages.metadata import MetadataRequest
from klamm.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from klamm.records.record import Record, encode_batch
from klamm.testing.wire import WireClient, request_bytes

CLIENTS: Final = 100
PIPELINED: Final = 20
MAX_BYTES: Final = 50_000_000
TOPIC_BYTES: Final = 60_000_000
MAX_GROWTH_MB: Final = 100
PATIENCE_S: Final = 60.0


def resident_mb(pid: int) -> float:
    (line,) = [
        line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS:")
    ]
    return int(line.split()[1]) / 1024


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[KlammProcess]:
    broker = KlammProcess(tmp_path / "data", stderr_path=tmp_path / "klamm.log")
    yield broker
    broker.kill()


def create_topic(client: WireClient, name: str, partitions: int = 1) -> None:
    request = CreateTopicsRequest([CreatableTopic(name, partitions, 1)])
    assert client.ask(ApiKey.CREATE_TOPICS, 7, request).topics[0].error_code == 0


def a_produce(topic: str, partition: int, value: bytes, acks: int = -1) -> ProduceRequest:
    batch = encode_batch([Record(0, SystemClock().timestamp_ms(), None, value)])
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(partition, batch)])
    return ProduceRequest(None, acks, 60_000, [data])


def a_fetch(topic: str) -> FetchRequest:
    wanted = FetchPartition(0, fetch_offset=0, partition_max_bytes=MAX_BYTES)
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=MAX_BYTES,
        session_epoch=-1,
        topics=[FetchTopic(topic=topic, partitions=[wanted])],
    )


def address_of(broker: KlammProcess) -> tuple[str, int]:
    host, _, port = broker.bootstrap.rpartition(":")
    return host, int(port)


def seconds_for_metadata(client: WireClient) -> float:
    started_at = time.perf_counter()
    client.ask(ApiKey.METADATA, 12, MetadataRequest(None))
    return time.perf_counter() - started_at


def read_exactly(connection: socket.socket, size: int) -> bytes:
    """So many bytes; only their beginning is kept when they are many."""
    start = b""
    while size:
        data = connection.recv(min(size, 1 << 20))
        assert data, "the broker closed the connection"
        start = (start + data)[:16] if len(start) < 16 else start
        size -= len(data)
    return start


def test_clients_that_do_not_read_what_they_fetch_cost_little_memory_and_nobody_waits(
    broker: KlammProcess,
) -> None:
    with WireClient(broker.bootstrap) as client, ExitStack() as stack:
        create_topic(client, "t")
        value = Random(1).randbytes(1_000_000)
        for _ in range(TOPIC_BYTES // len(value)):
            assert client.ask(ApiKey.PRODUCE, 9, a_produce("t", 0, value)).responses
        with socket.create_connection(address_of(broker), timeout=PATIENCE_S) as warm_up:
            warm_up.sendall(request_bytes(ApiKey.FETCH, 12, a_fetch("t")))
            read_exactly(warm_up, struct.unpack(">i", warm_up.recv(4, socket.MSG_WAITALL))[0])
        alone_s = max(seconds_for_metadata(client) for _ in range(20))
        before_mb = resident_mb(broker.pid)

        # When a hundred clients each request twenty times 50 MB, and read nothing
        burst = b"".join(
            request_bytes(ApiKey.FETCH, 12, a_fetch("t"), correlation_id=number)
            for number in range(PIPELINED)
        )
        strangers = []
        for _ in range(CLIENTS):
            connection = stack.enter_context(socket.create_connection(address_of(broker), timeout=PATIENCE_S))
            connection.sendall(burst)
            strangers.append(connection)

        # Then memory hardly grows, and another client is served as before
        largest_mb, slowest_s = before_mb, 0.0
        for _ in range(100):
            slowest_s = max(slowest_s, seconds_for_metadata(client))
            largest_mb = max(largest_mb, resident_mb(broker.pid))
        assert largest_mb - before_mb < MAX_GROWTH_MB
        assert slowest_s < max(1.0, 100 * alone_s)

        # And one that starts to read gets every byte, in order
        for number in range(PIPELINED):
            (size,) = struct.unpack(">i", strangers[0].recv(4, socket.MSG_WAITALL))
            assert size > MAX_BYTES * 0.9
            assert struct.unpack(">i", read_exactly(strangers[0], size)[:4]) == (number,)
        assert resident_mb(broker.pid) - before_mb < MAX_GROWTH_MB
    assert broker.stop() == 0


def test_long_group_ids_cost_little_memory_however_many_there_are(broker: KlammProcess) -> None:
    with WireClient(broker.bootstrap, timeout_s=PATIENCE_S) as client:

        def heartbeats(first: int, count: int) -> None:
            for number in range(first, first + count):
                request = HeartbeatRequest(f"{number}-".ljust(32_000, "g"), 1, "member")
                client.socket.sendall(request_bytes(ApiKey.HEARTBEAT, 3, request, correlation_id=number))
                if number % 10 == 9:
                    for _ in range(10):
                        client.receive_frame()

        heartbeats(0, 300)  # what is remembered for speed is remembered now
        before_mb = resident_mb(broker.pid)
        heartbeats(1_000, 500)
        assert resident_mb(broker.pid) - before_mb < 10
    assert broker.stop() == 0


def test_large_requests_that_wait_for_a_slow_disk_are_bounded_and_small_ones_are_answered_meanwhile(
    tmp_path: Path,
) -> None:
    limit_mb, clients, batches = 32, 100, 1
    slow = tmp_path / "slow"
    broker = KlammProcess(
        tmp_path / "data",
        stderr_path=tmp_path / "klamm.log",
        module="faults.slow_disk",
        settings={"queued.max.request.bytes": str(limit_mb << 20)},
        environment={"SLOW_DISK_WHILE": str(slow)},
    )
    try:
        with (
            WireClient(broker.bootstrap, timeout_s=PATIENCE_S) as client,
            WireClient(broker.bootstrap, timeout_s=PATIENCE_S) as producer,
            ExitStack() as stack,
        ):
            create_topic(client, "t")
            request = a_produce("t", 0, bytes(1_000_000))
            assert (
                producer.ask(ApiKey.PRODUCE, 9, request).responses[0].partition_responses[0].error_code == 0
            )
            before_mb = resident_mb(broker.pid)
            slow.touch()

            # When a hundred clients send batches of a megabyte faster than the disk writes
            selector = stack.enter_context(selectors.DefaultSelector())
            sending: dict[socket.socket, memoryview] = {}
            data = request_bytes(ApiKey.PRODUCE, 9, request) * batches
            for _ in range(clients):
                connection = stack.enter_context(socket.create_connection(address_of(broker)))
                connection.setblocking(False)
                selector.register(connection, selectors.EVENT_WRITE | selectors.EVENT_READ)
                sending[connection] = memoryview(data)
            answers_bytes = dict.fromkeys(sending, 0)
            largest_mb, slowest_s, next_look_at = before_mb, 0.0, 0.0
            ends_at = time.perf_counter() + PATIENCE_S
            while min(answers_bytes.values()) < batches * 40:
                assert time.perf_counter() < ends_at, "not every batch was answered"
                for key, events in selector.select(0.1):
                    connection = cast("socket.socket", key.fileobj)
                    if events & selectors.EVENT_READ:
                        answers_bytes[connection] += len(connection.recv(65_536))
                    if events & selectors.EVENT_WRITE:
                        sending[connection] = sending[connection][connection.send(sending[connection]) :]
                        if not sending[connection]:
                            selector.modify(connection, selectors.EVENT_READ)
                if time.perf_counter() >= next_look_at:
                    next_look_at = time.perf_counter() + 0.05
                    slowest_s = max(slowest_s, seconds_for_metadata(client))
                    largest_mb = max(largest_mb, resident_mb(broker.pid))

            # Then memory stays near the limit and what connections read at once, and others wait for a flush
            assert largest_mb - before_mb < limit_mb + clients * 0.25 + 10
            assert slowest_s < 5.0
            slow.unlink()
        assert broker.stop() == 0
    finally:
        broker.kill()
