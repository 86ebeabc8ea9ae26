"""Batches and small moves that the tests of logs share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from klamm.records.batch import BatchHeader, iter_headers
from klamm.records.markers import ControlType, encode_marker
from klamm.records.record import Record, encode_batch
from klamm.storage.engines.segments.files import OsFiles
from klamm.storage.log import AppendOrigin, AppendResult, EngineLog, MustLoadError

Result = TypeVar("Result")


class HastyFiles(OsFiles):
    """Real files that do not wait for the disk: no unit test pulls the plug on a real machine."""

    @staticmethod
    def sync(handle: object) -> None:
        """Nothing to wait for."""

    def sync_directory(self, path: str) -> None:
        """Nothing to wait for."""

    def write_file(self, path: str, data: bytes, *, sync: bool) -> None:
        super().write_file(path, data, sync=False)


T = 1_700_000_000_000
TOPIC_ID = bytes.fromhex("6f2a1d3c9b4e4c578a110d2e3f405162")


def a_batch(
    record_count: int = 1,
    *,
    timestamps_ms: Sequence[int] | None = None,
    value: bytes = b"value",
    producer_id: int = -1,
    producer_epoch: int = -1,
    sequence: int = -1,
    transactional: bool = False,
    codec: int = 0,
    append_time_ms: int | None = None,
) -> bytes:
    """A batch as a producer sends it."""
    times = timestamps_ms if timestamps_ms is not None else [T + n for n in range(record_count)]
    records = [Record(n, at, b"k%d" % n, value) for n, at in enumerate(times)]
    return encode_batch(
        records,
        codec=codec,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=sequence,
        transactional=transactional,
        append_time_ms=append_time_ms,
    )


def sized_batch(size_bytes: int, record_count: int, max_timestamp_ms: int) -> bytes:
    """A batch of an exact size, whose first record has the largest timestamp."""
    times = [max_timestamp_ms, *[max_timestamp_ms - 5] * (record_count - 1)]
    empty = a_batch(timestamps_ms=times, value=b"")
    for overhead in range(16):
        padding = bytes(max(size_bytes - len(empty) - overhead, 0))
        records = [Record(n, at, b"k%d" % n, padding if n == 0 else b"") for n, at in enumerate(times)]
        if len(batch := encode_batch(records)) == size_bytes:
            return batch
    raise AssertionError(f"no batch of {record_count} records takes {size_bytes} bytes")


def append(
    log: EngineLog,
    batch: bytes | None = None,
    *,
    now_ms: int = 0,
    origin: AppendOrigin = AppendOrigin.CLIENT,
    marker_bumps_epoch: bool = False,
    write_later: bool = False,
) -> AppendResult:
    """Append a batch, a plain one unless given, when the log is repaired."""
    repair(log)
    return log.append(
        a_batch() if batch is None else batch,
        now_ms=now_ms,
        timestamp_ms=T,
        origin=origin,
        marker_bumps_epoch=marker_bumps_epoch,
        write_later=write_later,
    )


def append_marker(
    log: EngineLog,
    kind: ControlType,
    *,
    producer_id: int,
    producer_epoch: int = 0,
    coordinator_epoch: int = 0,
    marker_bumps_epoch: bool = False,
) -> AppendResult:
    """Append an end-transaction marker, as the coordinator does."""
    marker = encode_marker(
        kind,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        coordinator_epoch=coordinator_epoch,
        timestamp_ms=T,
    )
    return append(log, marker, origin=AppendOrigin.COORDINATOR, marker_bumps_epoch=marker_bumps_epoch)


def loaded(ask: Callable[[], Result]) -> Result:
    """Ask a log, and load what it needs, as a broker does off its event loop."""
    while True:
        try:
            return ask()
        except MustLoadError as missing:
            missing.load()


def repair(log: EngineLog) -> None:
    """Do what a broker does in the background before a log takes appends again. Raises LogError."""
    while log.is_being_repaired and (ticket := log.start_sync()) is not None:
        try:
            ticket.run()
        except OSError:
            log.fail_sync(ticket)
        else:
            log.finish_sync(ticket)


def sync(log: EngineLog) -> None:
    """Flush a log, if there is anything to flush."""
    repair(log)
    if (ticket := log.start_sync()) is not None:
        ticket.run()
        log.finish_sync(ticket)


def read_all(log: EngineLog, *, max_bytes: int = 1 << 20, until_offset: int | None = None) -> list[bytes]:
    """Every batch from the log start, by fetches of at most a size."""
    until = log.high_watermark if until_offset is None else until_offset
    batches: list[bytes] = []
    offset = log.log_start_offset
    while data := log.read(offset, until_offset=until, max_bytes=max_bytes, at_least_one=True):
        for position, header in iter_headers(data):
            batches.append(data[position : position + header.size_bytes])
            offset = header.next_offset
    return batches


def headers(batches: Sequence[bytes]) -> list[BatchHeader]:
    return [header for batch in batches for _, header in iter_headers(batch)]
