"""Load on a broker from plain sockets, the same for every broker: no client library in the way.

A request is built once and its bytes are sent again and again; brokers echo the correlation id and look no
further. Answers to equal requests are equally long, so counting bytes counts answers, and the load generator
costs far less than what it measures.
"""

from __future__ import annotations

import selectors
import socket
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass

from klamm.records.record import Record, encode_batch

PRODUCE_VERSION = 7
FETCH_VERSION = 11
CLIENT_ID = b"bench"
_RECORDS_AT = 62  # a Fetch v11 answer for one partition, without the topic's name, up to the records' length


@dataclass(frozen=True, slots=True)
class Latencies:
    """Round trips in milliseconds."""

    median_ms: float
    p99_ms: float


def _string(text: bytes) -> bytes:
    return struct.pack(">h", len(text)) + text


def _frame(api_key: int, version: int, body: bytes) -> bytes:
    header = struct.pack(">hhi", api_key, version, 7) + _string(CLIENT_ID)
    return struct.pack(">i", len(header) + len(body)) + header + body


def produce_request(topic: str, partition: int, *, value_bytes: int, now_ms: int) -> bytes:
    """One acks=all Produce of one record."""
    record = Record(offset=0, timestamp_ms=now_ms, key=None, value=bytes(value_bytes), headers=())
    return produce_batch_request(topic, partition, encode_batch([record]))


def produce_batch_request(topic: str, partition: int, batch: bytes) -> bytes:
    """One acks=all Produce of one batch."""
    body = struct.pack(">hhi", -1, -1, 30_000)  # no transactional id, acks=all, timeout
    body += struct.pack(">i", 1) + _string(topic.encode())
    body += struct.pack(">iii", 1, partition, len(batch)) + batch
    return _frame(0, PRODUCE_VERSION, body)


def fetch_request(topic: str, partition: int, offset: int, *, max_bytes: int) -> bytes:
    """One Fetch of one partition, outside any session."""
    body = struct.pack(">iiiibii", -1, 500, 1, max_bytes, 0, 0, -1)
    body += struct.pack(">i", 1) + _string(topic.encode())
    body += struct.pack(">iiiqqi", 1, partition, -1, offset, -1, max_bytes)
    body += struct.pack(">i", 0) + _string(b"")
    return _frame(1, FETCH_VERSION, body)


def _read_exactly(connection: socket.socket, size: int) -> bytearray:
    buffer = bytearray(size)
    view = memoryview(buffer)
    while view:
        received = connection.recv_into(view)
        if received == 0:
            raise ConnectionError("the broker closed the connection")
        view = view[received:]
    return buffer


def answer_on(connection: socket.socket) -> bytearray:
    """The next answer, without its size."""
    (size,) = struct.unpack(">i", _read_exactly(connection, 4))
    return _read_exactly(connection, size)


def _error_code(answer: bytes | bytearray, topic: str) -> int:
    (error_code,) = struct.unpack_from(">h", answer, 4 + 4 + 2 + len(topic.encode()) + 4 + 4)
    return int(error_code)


def check_produced(answer: bytes | bytearray, topic: str) -> None:
    """Raise RuntimeError if a Produce of one batch was refused."""
    if error_code := _error_code(answer, topic):
        raise RuntimeError(f"the broker answered error {error_code}")


def connect(address: tuple[str, int]) -> socket.socket:
    """A connection whose small requests leave at once."""
    connection = socket.create_connection(address, timeout=30)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def wait_until_writable(address: tuple[str, int], topic: str, partitions: int) -> None:
    """Write one record to each partition, as often as it takes: a new topic may need a moment."""
    with connect(address) as connection:
        for partition in range(partitions):
            request = produce_request(topic, partition, value_bytes=1, now_ms=int(time.time() * 1000))
            deadline = time.monotonic() + 30
            while True:
                connection.sendall(request)
                error_code = _error_code(answer_on(connection), topic)
                if not error_code:
                    break
                if time.monotonic() > deadline:
                    raise RuntimeError(f"{topic}-{partition} is not writable: error {error_code}")
                time.sleep(0.02)


def pipelined_produce(
    address: tuple[str, int],
    topic: str,
    *,
    connections: int,
    in_flight: int,
    warm_up_s: float,
    measure_s: float,
    value_bytes: int = 100,
) -> float:
    """Requests/s with so many connections (one partition each) and so many requests in flight on each."""
    selector = selectors.DefaultSelector()
    answer_bytes = 0
    for partition in range(connections):
        connection = connect(address)
        now_ms = int(time.time() * 1000)
        request = produce_request(topic, partition, value_bytes=value_bytes, now_ms=now_ms)
        connection.sendall(request)
        first = answer_on(connection)
        check_produced(first, topic)
        answer_bytes = 4 + len(first)
        connection.sendall(request * in_flight)
        selector.register(connection, selectors.EVENT_READ, [request, bytearray()])
    started_at = time.perf_counter() + warm_up_s
    ends_at = started_at + measure_s
    answered = 0
    try:
        while (now := time.perf_counter()) < ends_at:
            for key, _ in selector.select(1):
                request, pending = key.data
                sock = key.fileobj
                assert isinstance(sock, socket.socket)
                chunk = sock.recv(1 << 20)
                if not chunk:
                    raise ConnectionError("the broker closed the connection")
                pending += chunk
                whole = len(pending) // answer_bytes
                if not whole:
                    continue
                check_produced(memoryview(pending)[4:answer_bytes].tobytes(), topic)
                del pending[: whole * answer_bytes]
                sock.sendall(request * whole)
                if now >= started_at:
                    answered += whole
    finally:
        for key in list(selector.get_map().values()):
            sock = key.fileobj
            assert isinstance(sock, socket.socket)
            sock.close()
        selector.close()
    return answered / measure_s


def paced_produce(address: tuple[str, int], topic: str, *, per_second: int, count: int) -> Latencies:
    """Round trips of single Produce requests at a fixed low rate, measured from when each was due."""
    request = produce_request(topic, 0, value_bytes=100, now_ms=int(time.time() * 1000))
    with connect(address) as connection:

        def produce() -> None:
            connection.sendall(request)
            check_produced(answer_on(connection), topic)

        return paced(produce, per_second=per_second, count=count)


def paced(action: Callable[[], object], *, per_second: int, count: int) -> Latencies:
    """How long something takes that happens at a fixed low rate, measured from when it was due."""
    took_ms: list[float] = []
    first_due = time.perf_counter() + 0.1
    for number in range(count):
        due = first_due + number / per_second
        time.sleep(max(0.0, due - time.perf_counter()))
        began_at = time.perf_counter()
        action()
        took_ms.append((time.perf_counter() - min(due, began_at)) * 1000)
    took_ms.sort()
    return Latencies(took_ms[len(took_ms) // 2], took_ms[len(took_ms) * 99 // 100])


def fetched_after(address: tuple[str, int], topic: str, *, count: int) -> Latencies:
    """How long after the response to a Produce a Fetch is answered that waited for its record."""
    request = produce_request(topic, 0, value_bytes=100, now_ms=int(time.time() * 1000))
    took_ms: list[float] = []
    with connect(address) as producer, connect(address) as consumer:
        for number in range(count + 1):
            producer.sendall(request)
            answer = answer_on(producer)
            answered_at = time.perf_counter()
            check_produced(answer, topic)
            if number:
                answer_on(consumer)
                took_ms.append((time.perf_counter() - answered_at) * 1000)
            (base_offset,) = struct.unpack_from(">q", answer, 4 + 4 + 2 + len(topic.encode()) + 4 + 4 + 2)
            consumer.sendall(fetch_request(topic, 0, base_offset + 1, max_bytes=1 << 20))
            time.sleep(0.01)  # it waits for the next record by then
        answer_on(consumer)
    took_ms.sort()
    return Latencies(took_ms[len(took_ms) // 2], took_ms[len(took_ms) * 99 // 100])


def read_partition(address: tuple[str, int], topic: str, partition: int, end_offset: int) -> float:
    """MB/s of one connection that fetches a partition from its start to an offset, a megabyte at a time."""
    connection = connect(address)
    next_offset, total_bytes = 0, 0
    started_at = time.perf_counter()
    with connection:
        while next_offset < end_offset:
            connection.sendall(fetch_request(topic, partition, next_offset, max_bytes=1 << 20))
            answer = answer_on(connection)
            records_bytes, next_offset = records_in(answer, topic, next_offset)
            total_bytes += records_bytes
    return total_bytes / 1e6 / (time.perf_counter() - started_at)


def records_in(answer: bytearray | memoryview, topic: str, next_offset: int) -> tuple[int, int]:
    """How many bytes of records a Fetch's answer has, and the offset after its last whole batch."""
    position = _RECORDS_AT + len(topic.encode())
    (records_bytes,) = struct.unpack_from(">i", answer, position)
    position += 4
    while position + 61 <= len(answer):
        base_offset, length = struct.unpack_from(">qi", answer, position)
        if position + 12 + length > len(answer):
            break
        (last_offset_delta,) = struct.unpack_from(">i", answer, position + 23)
        next_offset = base_offset + last_offset_delta + 1
        position += 12 + length
    return int(records_bytes), next_offset
