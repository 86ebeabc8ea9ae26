"""One task's work: read a range of offsets of one partition as Arrow batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Protocol

from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from klamm.client.config import CONSUMER, ClientConfig
from klamm.client.ranges import (
    Fetch,
    NothingCameError,
    OffsetsGoneError,
    RangeReader,
    RangeSettings,
    TopicGoneError,
)
from klamm.errors import ProtocolError
from klamm.protocol.errors import DecodeError
from klamm.protocol.types import ZERO_ID
from klamm.records.arrow import Columns, Want
from klamm.records.columns import iter_columns
from klamm.spark.options.options import SourceOptions, for_client
from klamm.spark.read.loss import report_loss
from klamm.spark.read.rows import RowBuilder
from klamm.spark.read.splitting import OffsetRange
from klamm.spark.setup.connections import fetcher
from klamm.spark.setup.freezing import freeze_once
from klamm.spark.setup.refusals import explained_rows

MAX_PARTITION_BYTES = 4 * 1_048_576  # a fetch for a whole task, not for one of many partitions


class RangePartition(InputPartition):
    """What one task reads, and of which topic: a name can be given again to another one."""

    def __init__(self, offsets: OffsetRange, topic_id: bytes = ZERO_ID) -> None:
        super().__init__(offsets)
        self.offsets = offsets
        self.topic_id = topic_id


class RangesPartition(InputPartition):
    """Several ranges for one task: a coordinator's topic has many partitions, most of them small."""

    def __init__(self, ranges: Sequence[RangePartition]) -> None:
        super().__init__(ranges)
        self.ranges = ranges


class Rows(Protocol):
    """What makes rows of the fetches of one range."""

    def rows(self, fetch: Fetch) -> Iterator[Any]: ...
    def rest(self) -> Iterator[Any]: ...


# The range, and whether checksums are to be checked.
RowMaker = Callable[[OffsetRange, bool], Rows]


def read_range(options: SourceOptions, schema: StructType, task: InputPartition) -> Iterator[Any]:
    """The rows of one task. Spark creates an empty partition for a query without data."""
    return read_with(options, partial(_row_maker, options, schema), task)


@explained_rows
def read_with(options: SourceOptions, make: RowMaker, task: InputPartition) -> Iterator[Any]:
    """What `make` makes of the ranges of one task."""
    freeze_once()
    if isinstance(task, RangesPartition):
        for item in task.ranges:
            yield from _read_one(options, make, item)
    elif isinstance(task, RangePartition):
        yield from _read_one(options, make, task)


def _read_one(options: SourceOptions, make: RowMaker, task: RangePartition) -> Iterator[Any]:
    settings, checks_crcs = _settings(options)
    rows = make(task.offsets, checks_crcs)
    position = task.offsets.start_offset
    while position < task.offsets.next_offset:
        wanted = task.offsets._replace(start_offset=position)
        try:
            with RangeReader(fetcher(options.client), *wanted, settings, topic_id=task.topic_id) as reader:
                for fetch in reader:
                    yield from _checked(rows.rows(fetch), wanted)
                    position = max(position, fetch.next_offset)
            break
        except OffsetsGoneError as gone:
            position = _after_gap(gone, wanted, options)
        except (TopicGoneError, NothingCameError) as gone:
            report_loss(
                f"{wanted.partition}: offsets {position} to {wanted.next_offset - 1} cannot be read: {gone}",
                is_fatal=options.fails_on_data_loss,
            )
            break
    yield from _checked(rows.rest(), task.offsets)


def _after_gap(gone: OffsetsGoneError, wanted: OffsetRange, options: SourceOptions) -> int:
    """The offset to continue at when offsets were deleted; the end of the range if none is left."""
    next_there = gone.start_offset if gone.offset < gone.start_offset else wanted.next_offset
    goes_on_at = min(next_there, wanted.next_offset)
    report_loss(
        f"{wanted.partition}: offsets {gone.offset} to {goes_on_at - 1} are not in the log, which starts at "
        f"{gone.start_offset} and ends at {gone.next_offset}",
        is_fatal=options.fails_on_data_loss,
    )
    return goes_on_at


class Builder(Protocol):
    """What makes rows of columns; `wanted` are those that it needs."""

    wanted: Want

    def batches(self, columns: Columns) -> Iterator[Any]: ...


class VisibleRows:
    """Keys, values and the rest of each visible record."""

    def __init__(self, builder: Builder, wanted: OffsetRange, checks_crcs: bool) -> None:
        self._builder = builder
        self._wanted = wanted
        self._checks_crcs = checks_crcs

    def rows(self, fetch: Fetch) -> Iterator[Any]:
        for columns in iter_columns(
            fetch.data,
            wanted=self._builder.wanted,
            first_offset=max(self._wanted.start_offset, fetch.start_offset),
            until_offset=self._wanted.next_offset,
            aborted=fetch.aborted,
            check_crcs=self._checks_crcs,
        ):
            yield from self._builder.batches(columns)

    def rest(self) -> Iterator[Any]:
        """Nothing: a record is a row as soon as it is fetched."""
        return iter(())


def _row_maker(options: SourceOptions, schema: StructType, wanted: OffsetRange, checks_crcs: bool) -> Rows:
    if options.read_schemas is not None:
        from klamm.spark.read.typed_rows import TypedRowBuilder  # noqa: PLC0415 - few queries need it

        typed = TypedRowBuilder(schema, wanted.partition, options.read_schemas)
        return VisibleRows(typed, wanted, checks_crcs)
    if options.decode is None:
        return VisibleRows(RowBuilder(schema, wanted.partition), wanted, checks_crcs)
    from klamm.spark.decode.rows import table_rows  # noqa: PLC0415 - few queries need it

    return table_rows(
        schema,
        wanted,
        check_crcs=checks_crcs,
        format_name=options.decode.format_name,
        table=options.decode.table,
    )


def _checked(rows: Iterator[Any], wanted: OffsetRange) -> Iterator[Any]:
    try:
        yield from rows
    except DecodeError as error:
        raise ProtocolError(f"reading {wanted.partition} failed: {error}") from error


def _settings(options: SourceOptions) -> tuple[RangeSettings, bool]:
    values = ClientConfig.parse(CONSUMER, for_client(options.client, CONSUMER), {}).values
    max_partition_bytes = MAX_PARTITION_BYTES
    if "max.partition.fetch.bytes" in options.client:
        max_partition_bytes = values.integer("max.partition.fetch.bytes")
    settings = RangeSettings(
        is_read_committed=options.is_read_committed,
        max_partition_bytes=max_partition_bytes,
        max_bytes=values.integer("fetch.max.bytes"),
        min_bytes=values.integer("fetch.min.bytes"),
        max_wait_ms=values.integer("fetch.max.wait.ms"),
        poll_timeout_ms=options.poll_timeout_ms,
        missing_topic_ms=options.lookup_attempts * options.lookup_retry_ms,
        retry_backoff_ms=values.integer("retry.backoff.ms"),
        retry_backoff_max_ms=values.integer("retry.backoff.max.ms"),
    )
    return settings, values.boolean("check.crcs")
