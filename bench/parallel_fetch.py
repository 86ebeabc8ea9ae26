"""Large compressed batches, read as fast as a broker sends them: a process for each connection.

A reader does no more than a client must: it receives an answer into one buffer, in one call, and looks at the
headers of its batches for the next offset.
"""

from __future__ import annotations

import random
import socket
import struct
import time
from multiprocessing import get_context
from multiprocessing.synchronize import Barrier

from bench.raw_load import (
    answer_on,
    check_produced,
    connect,
    fetch_request,
    produce_batch_request,
    records_in,
)
from klamm.records.compression import Codec
from klamm.records.record import Record, encode_batch

BATCH_BYTES = 256 * 1024  # compressed, about
_RECORD_BYTES = 1024
_BUFFER_BYTES = 64 << 20


def fill(address: tuple[str, int], topic: str, partition: int, *, total_bytes: int) -> int:
    """Write lz4 batches of records that do not compress well; the offset after the last."""
    chance = random.Random(partition)
    now_ms = int(time.time() * 1000)
    records = [
        Record(i, now_ms, None, chance.randbytes(_RECORD_BYTES)) for i in range(BATCH_BYTES // _RECORD_BYTES)
    ]
    batch = encode_batch(records, codec=Codec.LZ4)
    request = produce_batch_request(topic, partition, batch)
    batches = total_bytes // len(batch)
    with connect(address) as connection:
        for _ in range(batches):
            connection.sendall(request)
            check_produced(answer_on(connection), topic)
    return batches * len(records)


def parallel_fetch(
    address: tuple[str, int], topic: str, *, end_offset: int, connections: int, seconds: float, max_bytes: int
) -> float:
    """MB/s of so many connections together, with a partition each, from its start to an offset and again."""
    context = get_context("fork")
    together = context.Barrier(connections + 1)
    results = context.SimpleQueue()
    readers = [
        context.Process(
            target=lambda partition=partition: results.put(
                _read(address, topic, partition, end_offset, seconds, max_bytes, together)
            )
        )
        for partition in range(connections)
    ]
    for reader in readers:
        reader.start()
    together.wait(30)
    rates: list[float] = [results.get() for _ in readers]
    for reader in readers:
        reader.join()
    return sum(rates)


def _read(
    address: tuple[str, int],
    topic: str,
    partition: int,
    end_offset: int,
    seconds: float,
    max_bytes: int,
    together: Barrier,
) -> float:
    buffer = memoryview(bytearray(_BUFFER_BYTES))
    total_bytes, next_offset = 0, 0
    with connect(address) as connection:
        connection.settimeout(None)
        together.wait(30)
        started_at = time.perf_counter()
        while (now := time.perf_counter()) < started_at + seconds:
            connection.sendall(fetch_request(topic, partition, next_offset, max_bytes=max_bytes))
            (size,) = struct.unpack(">i", _receive(connection, buffer[:4]))
            records_bytes, next_offset = records_in(_receive(connection, buffer[:size]), topic, next_offset)
            total_bytes += records_bytes
            if next_offset >= end_offset:
                next_offset = 0
    return total_bytes / 1e6 / (now - started_at)


def _receive(connection: socket.socket, into: memoryview) -> memoryview:
    if connection.recv_into(into, len(into), socket.MSG_WAITALL) != len(into):
        raise ConnectionError("the broker closed the connection")
    return into
