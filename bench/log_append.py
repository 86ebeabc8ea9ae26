"""How long do an append to and a read from a partition log take, and how fast do clean logs open?

Run: PYTHONPATH=src python bench/log_append.py [--directory DIR] [--seconds S]
Appends go to the page cache (one pwritev each); flushes are timed apart. `python` is the time of the same
calls over a disk that does nothing: what klamm itself adds.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

from klamm.clock import SystemClock
from klamm.records.record import Record, encode_batch
from klamm.storage.engines.segments import SegmentStore
from klamm.storage.engines.segments.files import OsFiles
from klamm.storage.log import EngineLog
from klamm.storage.topic_config import TopicConfig

TOPIC_ID = bytes(15) + b"\1"

now: Callable[[], float] = time.perf_counter


class NoDisk(OsFiles):
    """Real files that take no bytes, to see what the calls around them cost."""

    @staticmethod
    def pwritev(handle: int, chunks: Any, position: int, flags: int = 0, /) -> int:
        return sum(map(len, chunks))


def a_batch(size_bytes: int, records: int = 1, **producer: Any) -> bytes:
    value = bytes(max(size_bytes // records - 80 // records - 8, 1))
    return encode_batch([Record(n, 1_700_000_000_000 + n, None, value) for n in range(records)], **producer)


def open_log(
    directory: str, files: OsFiles | None = None, *, commit: bool = True
) -> tuple[SegmentStore, EngineLog]:
    store = SegmentStore(
        directory, cluster_id="bench", node_id=1, clock=SystemClock(), flush_on_commit=commit, files=files
    )
    return store, store.open("bench", TOPIC_ID, 0, leader_epoch=0, config=TopicConfig())


def timed(call: Callable[[], object], seconds: float) -> float:
    """Microseconds for one call: the median of the means of blocks."""
    blocks = []
    end = now() + seconds
    while now() < end:
        begin = now()
        for _ in range(200):
            call()
        blocks.append((now() - begin) / 200)
    return median(blocks) * 1e6


def appends(base: str, seconds: float) -> None:
    print(f"{'append':28}{'us/call':>9}{'python':>9}{'MB/s':>9}")
    for name, size_bytes, records in [
        ("small, 1 record", 100, 1),
        ("1 KB, 10 records", 1024, 10),
        ("16 KB, 100 records", 16384, 100),
    ]:
        for commit in (True, False):
            batch = a_batch(size_bytes, records)
            figures = []
            for files in (OsFiles(), NoDisk()):
                directory = tempfile.mkdtemp(dir=base)
                _, log = open_log(directory, files, commit=commit)
                append = partial(log.append, batch, now_ms=0, timestamp_ms=0)
                figures.append(timed(append, seconds))
                shutil.rmtree(directory)
            label = f"{name}, {'commit' if commit else 'os'}"
            print(f"{label:28}{figures[0]:9.1f}{figures[1]:9.1f}{len(batch) / figures[0]:9.0f}")


def idempotent_appends(base: str, seconds: float) -> None:
    for transactional in (0, 1):
        directory = tempfile.mkdtemp(dir=base)
        _, log = open_log(directory, NoDisk())
        batches = [
            a_batch(100, producer_id=7, producer_epoch=0, base_sequence=n, transactional=transactional)
            for n in range(200_000)
        ]
        begin = now()
        for batch in batches:
            log.append(batch, now_ms=0, timestamp_ms=0)
        each = (now() - begin) / len(batches) * 1e6
        label = "small, transactional" if transactional else "small, idempotent"
        print(f"{label:28}{'':9}{each:9.1f}")
        shutil.rmtree(directory)


def flushes(base: str) -> None:
    directory = tempfile.mkdtemp(dir=base)
    _, log = open_log(directory)
    batch = a_batch(1024)
    times, python = [], []
    for _ in range(200):
        log.append(batch, now_ms=0, timestamp_ms=0)
        begin = now()
        ticket = log.start_sync()
        assert ticket is not None
        before = now()
        ticket.run()
        after = now()
        log.finish_sync(ticket)
        python.append(before - begin + now() - after)
        times.append(after - before)
    print(f"{'flush of 1 KB':28}{median(times) * 1e6:9.1f}{median(python) * 1e6:9.1f}")
    shutil.rmtree(directory)


def reads(base: str, seconds: float) -> None:
    print(f"\n{'read':28}{'us/call':>9}{'MB/s':>9}")
    directory = tempfile.mkdtemp(dir=base)
    _, log = open_log(directory, commit=False)
    batch = a_batch(1024, 10)
    for _ in range(100_000):
        log.append(batch, now_ms=0, timestamp_ms=0)
    end_offset = log.log_end_offset
    for name, max_bytes in [
        ("tail, 1 batch", 1 << 20),
        ("in order, 64 KB", 1 << 16),
        ("in order, 1 MB", 1 << 20),
    ]:
        offset = end_offset - 10 if name.startswith("tail") else 0
        moved = 0
        calls = 0
        begin = now()
        while now() - begin < seconds:
            data = log.read(offset, until_offset=end_offset, max_bytes=max_bytes, at_least_one=True)
            moved += len(data)
            calls += 1
            if not name.startswith("tail"):
                offset = (offset + len(data) // len(batch) * 10) % end_offset
        elapsed = now() - begin
        print(f"{name:28}{elapsed / calls * 1e6:9.1f}{moved / elapsed / 1e6:9.0f}")
    step = 7919
    offset = 0

    def random_read() -> None:
        nonlocal offset
        offset = (offset + step * 10) % end_offset
        log.read(offset, until_offset=end_offset, max_bytes=1024, at_least_one=True)

    print(f"{'anywhere, 1 batch':28}{timed(random_read, seconds):9.1f}")
    shutil.rmtree(directory)


def openings(base: str, count: int = 1000) -> None:
    directory = tempfile.mkdtemp(dir=base)

    def open_all(epoch: int) -> tuple[SegmentStore, float]:
        begin = now()
        store = SegmentStore(
            directory, cluster_id="bench", node_id=1, clock=SystemClock(), flush_on_commit=True
        )
        logs = [
            store.open("bench", TOPIC_ID, n, leader_epoch=epoch, config=TopicConfig()) for n in range(count)
        ]
        elapsed = now() - begin
        if epoch == 0:
            for n, log in enumerate(logs):
                for sequence in range(20):
                    log.append(
                        a_batch(1024, producer_id=n, producer_epoch=0, base_sequence=sequence),
                        now_ms=0,
                        timestamp_ms=0,
                    )
        return store, elapsed

    store, created = open_all(0)
    store.close()
    store, opened = open_all(1)
    begin = now()
    store.close()
    closed = now() - begin
    print(f"\n{count} partitions: created in {created:.2f} s, opened clean in {opened:.2f} s,", end=" ")
    print(f"closed unchanged in {closed:.2f} s")
    shutil.rmtree(directory)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--directory", default=None, help="where to write; a temporary folder unless given")
    parser.add_argument("--seconds", type=float, default=1.0, help="for each line")
    parser.add_argument("--cpu", action="store_true", help="count processor time, for a busy machine")
    arguments = parser.parse_args()
    if arguments.cpu:
        globals()["now"] = time.thread_time
    appends(arguments.directory, arguments.seconds)
    idempotent_appends(arguments.directory, arguments.seconds)
    flushes(arguments.directory)
    reads(arguments.directory, arguments.seconds)
    openings(arguments.directory)


if __name__ == "__main__":
    main()
