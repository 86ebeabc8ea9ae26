"""A log that is read in one pass, as a task does, without a broker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from pyspark.sql.datasource import InputPartition

from klamm.client.ranges import Fetch
from klamm.protocol.types import TopicPartition
from klamm.records.batch import iter_headers
from klamm.spark.audit import one_pass
from klamm.spark.audit.one_pass import AuditTask, audit_rows
from klamm.spark.audit.schemas import EVENTS
from klamm.spark.decode.tables import CONSUMER_OFFSETS
from klamm.spark.options.options import SourceOptions, source_options
from klamm.spark.read.reading import RangePartition, RowMaker
from klamm.spark.read.splitting import OffsetRange
from unit.spark.audit.histories import Row

AS_OF_MS = 1_700_000_600_000
RETENTION_MS = 7 * 24 * 3_600_000
STUCK_MS = 60_000
LOG = OffsetRange(TopicPartition("__log", 4), 0, 1 << 40)
_EVENTS_AT = RangePartition(OffsetRange(TopicPartition("__klamm_events", 0), 0, 1 << 40))


def options(subscribe: str) -> SourceOptions:
    return source_options(
        {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": subscribe}, is_streaming=False
    )


def a_task(source: str = CONSUMER_OFFSETS, *, has_events: bool = False) -> AuditTask:
    return AuditTask(
        source=source,
        options=options("__log"),
        events=options("__klamm_events"),
        event_ranges=(_EVENTS_AT,) if has_events else (),
        as_of_ms=AS_OF_MS,
        retention_ms=RETENTION_MS,
        stuck_ms=STUCK_MS,
    )


def fetches(log: bytes) -> Iterator[Fetch]:
    """Each batch of a log as a fetch of its own."""
    for position, header in iter_headers(log):
        batch = log[position : position + header.size_bytes]
        yield Fetch(batch, header.base_offset, header.next_offset, ())


def read_from(
    patch: pytest.MonkeyPatch,
    log: bytes,
    events: bytes = b"",
    ends: Mapping[TopicPartition, int] | None = None,
) -> None:
    """Let tasks read these logs, and find these end offsets."""

    def read(given: SourceOptions, make: RowMaker, _task: InputPartition) -> Iterator[Any]:
        is_events = given.subscription.topics == ("__klamm_events",)
        rows = make(_EVENTS_AT.offsets if is_events else LOG, True)
        for fetch in fetches(events if is_events else log):
            yield from rows.rows(fetch)
        yield from rows.rest()

    def end_offsets(_passed: object, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        return {key: offset for key, offset in (ends or {}).items() if key in partitions}

    patch.setattr(one_pass, "read_with", read)
    patch.setattr(one_pass._Passed, "_end_offsets", end_offsets)


def in_one_pass(
    log: bytes,
    *,
    source: str = CONSUMER_OFFSETS,
    events: bytes = b"",
    ends: Mapping[TopicPartition, int] | None = None,
) -> dict[str, list[Row]]:
    """Every table that has rows."""
    found: dict[str, list[Row]] = {}
    with pytest.MonkeyPatch.context() as patch:
        read_from(patch, log, events or (log if source == EVENTS else b""), ends)
        for name, batch in audit_rows(a_task(source, has_events=bool(events)), InputPartition(0)):
            found.setdefault(name, []).extend(batch.to_pylist())
    return found
