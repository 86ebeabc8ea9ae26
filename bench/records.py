"""How much faster is the compiled core than its twin, for records of 100 bytes?

Run: PYTHONPATH=src python bench/records.py [--seconds 1.0]
Each line is the best of five rounds, by the processor time of one core, so that a busy machine says the
same as an idle one; the ratio is compiled over pure in the same run.
"""

from __future__ import annotations

import argparse
import platform
import struct
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

from klamm.records import _pure
from klamm.records.arrow import BinaryInput, FixedInput, Region, Want
from klamm.records.layout import Record
from klamm.records.record import encode_batch

KEY_BYTES = 16
VALUE_BYTES = 100
BATCH_RECORDS = 8000  # about a megabyte
TIME_MS = 1_700_000_000_000
ROUNDS = 5


def per_second(call: Callable[[], Any], items: int, seconds: float) -> float:
    """Items a second in the best of the rounds."""
    best = 0.0
    for _ in range(ROUNDS):
        done = 0
        start = time.process_time()
        while (spent := time.process_time() - start) < seconds / ROUNDS:
            call()
            done += items
        best = max(best, done / spent)
    return best


def the_records() -> list[Record]:
    return [
        Record(i, TIME_MS + i // 10, b"%016d" % (i * 7919), (b"%08d" % i) * (VALUE_BYTES // 8) + b"....")
        for i in range(BATCH_RECORDS)
    ]


def the_commits() -> bytes:
    """What a coordinator writes for groups that commit, one record each."""
    records = []
    for i in range(BATCH_RECORDS):
        key = struct.pack(">hh9sh6si", 1, 9, b"group-%03d" % (i % 500), 6, b"orders", i % 50)
        value = struct.pack(">hqibqb", 4, i, 0, 1, TIME_MS, 0)
        records.append(Record(i, TIME_MS, key, value))
    return bytes(_pure.encode_region(records, 0, TIME_MS))


def as_input(fields: list[bytes]) -> BinaryInput:
    offsets = [0]
    for field in fields:
        offsets.append(offsets[-1] + len(field))
    return BinaryInput(None, struct.pack(f"={len(offsets)}i", *offsets), b"".join(fields))


def cases() -> list[tuple[str, str, int, Callable[[Any], Callable[[], Any]]]]:
    """(name, unit, items in one call, the call on a core)."""
    records = the_records()
    with_header = [record._replace(headers=(("trace", b"12345678"),)) for record in records]
    region = bytes(_pure.encode_region(records, 0, TIME_MS))
    header_region = bytes(_pure.encode_region(with_header, 0, TIME_MS))
    keys = [record.key or b"" for record in records]
    key, value = as_input(keys), as_input([record.value or b"" for record in records])
    times = FixedInput(None, struct.pack(f"={len(records)}q", *(r.timestamp_ms for r in records)))
    partitions = _pure.partition_rows(BATCH_RECORDS, key, None, 8, 0)
    small = encode_batch(records[:10])
    log = small * 1000
    whole = (0, 1 << 62)
    commits = [Region(the_commits(), BATCH_RECORDS, 0, TIME_MS, None)]

    def columns(core: Any, data: bytes) -> Callable[[], Any]:
        regions = [Region(data, BATCH_RECORDS, 0, TIME_MS, None)]
        return lambda: core.decode_columns(regions, Want.ALL, *whole)

    def checked_columns(core: Any) -> Callable[[], Any]:
        decode = columns(core, region)
        return lambda: (core.crc32c(region), decode())

    def one_by_one(core: Any) -> Callable[[], Any]:
        def add_all() -> None:
            add = core.BatchBuilder(1 << 30).append
            for record in records:
                add(record.timestamp_ms, record.key, record.value)

        return add_all

    return [
        ("decode to records", "M records/s", BATCH_RECORDS,
         lambda core: lambda: core.decode_region(region, BATCH_RECORDS, 0, TIME_MS)),
        ("decode to records, 1 header", "M records/s", BATCH_RECORDS,
         lambda core: lambda: core.decode_region(header_region, BATCH_RECORDS, 0, TIME_MS)),
        ("encode records", "M records/s", BATCH_RECORDS,
         lambda core: lambda: core.encode_region(records, 0, TIME_MS)),
        ("encode records, 1 header", "M records/s", BATCH_RECORDS,
         lambda core: lambda: core.encode_region(with_header, 0, TIME_MS)),
        ("add records one by one", "M records/s", BATCH_RECORDS, one_by_one),
        ("decode to columns", "M records/s", BATCH_RECORDS, lambda core: columns(core, region)),
        ("decode to columns, with checksum", "M records/s", BATCH_RECORDS, checked_columns),
        ("decode to columns, 1 header", "M records/s", BATCH_RECORDS,
         lambda core: columns(core, header_region)),
        ("choose partitions by key", "M records/s", BATCH_RECORDS,
         lambda core: lambda: core.partition_rows(BATCH_RECORDS, key, None, 8, 0)),
        ("encode columns, 8 partitions", "M records/s", BATCH_RECORDS,
         lambda core: lambda: core.encode_columns(
             BATCH_RECORDS, partitions, key, value, None, times, TIME_MS, 1 << 20)),
        ("offset commits to columns", "M records/s", BATCH_RECORDS,
         lambda core: lambda: core.decode_offset_commits(commits, *whole)),
        ("murmur2 of 16 bytes", "M keys/s", len(keys), lambda core: lambda: [core.murmur2(k) for k in keys]),
        ("checksum", "MB/s", len(region), lambda core: lambda: core.crc32c(region)),
        ("read a batch header", "M headers/s", 1000,
         lambda core: lambda: [core.parse_header(small) for _ in range(1000)]),
        ("find a batch, 10 records each", "M batches/s", 1000,
         lambda core: lambda: core.find_batch(log, 0, 1 << 40)),
        ("scan batches, with checksum", "M batches/s", 1000, lambda core: lambda: core.scan(log)),
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1.0, help="for each line and core")
    seconds: float = parser.parse_args().seconds
    core = import_module("klamm.records._core")
    print(
        f"Python {platform.python_version()}, {platform.machine()}, key {KEY_BYTES} B, value {VALUE_BYTES} B"
    )
    print(f"{'':34}{'compiled':>10}{'pure':>10}{'ratio':>8}")
    for name, unit, items, on_core in cases():
        compiled = per_second(on_core(core), items, seconds) / 1e6
        pure = per_second(on_core(_pure), items, seconds) / 1e6
        print(f"{name:34}{compiled:10.2f}{pure:10.3f}{compiled / pure:8.1f}  {unit}")


if __name__ == "__main__":
    main()
