"""One task's work on the way out: Arrow batches to record batches, and those to their leaders."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any, Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import WriterCommitMessage

from klamm.client.producer.encoded import EncodedBatch, EncodedProducer
from klamm.clock import Clock
from klamm.errors import KlammError
from klamm.records.arrow import BinaryInput, EncodedRegion, FixedInput, HeadersInput
from klamm.records.columns import encode_columns, partition_rows
from klamm.spark.options.options import SinkOptions
from klamm.spark.schemas.writing import with_values
from klamm.spark.write.topics import require_sink_topic

# A little below the largest batch that brokers take by default, header included.
MAX_REGION_BYTES: Final = 1_000_000
# Unacknowledged batches of one task; above this limit it waits before it sends more.
MAX_OPEN_BATCHES: Final = 256


class RowError(KlammError, ValueError):
    """A row that cannot become a record."""


@dataclass(frozen=True, slots=True)
class Written(WriterCommitMessage):
    """What one task has written; every record of it is acknowledged."""

    row_count: int


class Outlet(Protocol):
    """How encoded records leave a task."""

    def send(self, topic: str, regions: list[EncodedRegion]) -> None: ...
    def finish(self) -> None: ...


class AtOnce:
    """Sends records as they come."""

    def __init__(self, producer: EncodedProducer) -> None:
        self._producer = producer
        self._open: list[EncodedBatch] = []

    def send(self, topic: str, regions: list[EncodedRegion]) -> None:
        self._open += self._producer.send_regions(topic, regions)
        if len(self._open) > MAX_OPEN_BATCHES:
            # Waiting for the older half keeps the pipeline full, and reports a failure early.
            self._producer.wait(self._open[: MAX_OPEN_BATCHES // 2])
            del self._open[: MAX_OPEN_BATCHES // 2]

    def finish(self) -> None:
        self._producer.wait(self._open)


def write_batches(
    batches: Iterable[Any],
    options: SinkOptions,
    producer: EncodedProducer,
    *,
    clock: Clock,
    random: Random,
    outlet: Outlet | None = None,
) -> Written:
    """Write all rows and wait until the brokers have them."""
    max_region_bytes = int(options.client.get("batch.size", MAX_REGION_BYTES)) or MAX_REGION_BYTES
    row_count = 0
    outlet = outlet or AtOnce(producer)
    for batch in batches:
        row_count += batch.num_rows
        for topic, given in by_topic(batch, options.topic):
            if options.topic is None:  # else the driver has looked
                require_sink_topic(options, topic)
            rows = given if options.schemas is None else with_values(given, options.schemas, topic)
            regions = encoded(
                rows,
                producer.partition_count(topic),
                random=random,
                timestamp_ms=clock.timestamp_ms(),
                max_region_bytes=max_region_bytes,
            )
            outlet.send(topic, regions)
    outlet.finish()
    return Written(row_count)


def by_topic(batch: Any, topic: str | None) -> Iterator[tuple[str, Any]]:
    """The rows of each topic; option `topic` wins over the column."""
    if not batch.num_rows:
        return
    if topic is not None:
        yield topic, batch
        return
    column = batch.column("topic")
    if column.null_count:
        raise RowError("a row has no topic (column topic is null): fill it, or set option topic")
    for name in column.unique().to_pylist():
        yield name, batch.filter(pc.equal(column, name))


def encoded(
    batch: Any, partition_count: int, *, random: Random, timestamp_ms: int, max_region_bytes: int
) -> list[EncodedRegion]:
    """Rows as records by partition: the given one, else by the key's hash, else one for all."""
    names = batch.schema.names
    key = binary_input(batch.column("key")) if "key" in names else None
    value = binary_input(batch.column("value"))
    headers = _headers(batch.column("headers")) if "headers" in names else None
    given = _fixed(batch.column("partition")) if "partition" in names else None
    try:
        partitions = partition_rows(
            batch.num_rows, key, given, partition_count, random.randrange(partition_count)
        )
        return encode_columns(
            batch.num_rows, partitions, key, value, headers, None, timestamp_ms, max_region_bytes
        )
    except ValueError as error:
        raise RowError(f"{error}{_explained(batch, partition_count)}") from None


def _explained(batch: Any, partition_count: int) -> str:
    """What is wrong with column partition, if something is."""
    if "partition" not in batch.schema.names:
        return ""
    asked = pc.min_max(batch.column("partition")).as_py()
    if asked["min"] is None or 0 <= asked["min"] <= asked["max"] < partition_count:
        return ""
    return (
        f"; column partition has {asked['min']} to {asked['max']}, the topic has 0 to {partition_count - 1}: "
        "drop the column to have the key decide"
    )


def binary_input(array: Any) -> BinaryInput:
    """An Arrow array of bytes or text as input of the encoder."""
    if array.type not in (pa.binary(), pa.string()):
        array = array.cast(pa.binary())  # Spark may use 64-bit lengths, or a null column
    validity, offsets, values = array.buffers()
    return BinaryInput(validity, offsets, values, array.offset)


def _fixed(array: Any) -> FixedInput:
    validity, values = array.buffers()
    return FixedInput(validity, values, array.offset)


def _headers(array: Any) -> HeadersInput:
    if not pa.types.is_list(array.type):
        array = array.cast(pa.list_(array.type.value_type))
    validity, offsets = array.buffers()[:2]
    names, values = array.values.flatten()
    return HeadersInput(validity, offsets, binary_input(names), binary_input(values), array.offset)
