"""Reading a topic as a batch: planned once on the driver, read by tasks."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from typing import Any, Final

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from klamm.protocol.types import ZERO_ID
from klamm.spark.options.options import SourceOptions
from klamm.spark.read.lookup import ClusterLookup, SubscribedTopics
from klamm.spark.read.reading import RangePartition, RangesPartition, read_range
from klamm.spark.read.resolution import batch_ranges
from klamm.spark.read.splitting import OffsetRange, split
from klamm.spark.setup.refusals import explained

log = logging.getLogger(__name__)
# A task costs some 30 ms; a coordinator's topic has 50 partitions, most of them small.
MAX_DECODE_TASKS: Final = 8  # each decodes two million records a second


class BatchReader(DataSourceReader):
    """Holds options only: it is pickled into every task."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self.options = options
        self.schema = schema

    @explained
    def partitions(self) -> list[InputPartition]:
        lookup = ClusterLookup(self.options)
        try:
            topics = lookup.topics()
            ranges = self.pruned(batch_ranges(self.options, lookup, topics.partitions), lookup)
        finally:
            lookup.close()
        return planned(self.options, ranges, topics)

    def pruned(self, ranges: list[OffsetRange], lookup: ClusterLookup) -> list[OffsetRange]:
        """What is left of the ranges after the filters of the query; here all of it."""
        return ranges

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return read_range(self.options, self.schema, partition)


def planned(
    options: SourceOptions, ranges: Sequence[OffsetRange], topics: SubscribedTopics
) -> list[InputPartition]:
    """The tasks of a batch or micro-batch."""
    tasks = split(
        ranges,
        min_partitions=options.min_partitions,
        max_records_per_partition=options.max_records_per_partition,
    )
    found = [RangePartition(task, topics.ids.get(task.partition.topic, ZERO_ID)) for task in tasks]
    if options.decode is not None:
        return list(gathered(found, MAX_DECODE_TASKS))
    warn_of_small_tasks(tasks)
    return list(found)


def gathered(ranges: Sequence[RangePartition], most: int) -> list[RangesPartition]:
    """The ranges in at most so many tasks of similar size: a pure function of the ranges."""
    bins: list[list[RangePartition]] = [[] for _ in range(min(most, len(ranges)))]
    sizes = [(0, number) for number in range(len(bins))]
    for item in sorted(ranges, key=lambda each: (-each.offsets.size, each.offsets)):
        size, number = heappop(sizes)
        bins[number].append(item)
        heappush(sizes, (size + item.offsets.size, number))
    return [RangesPartition(tuple(item)) for item in bins]


def warn_of_small_tasks(tasks: Sequence[OffsetRange]) -> None:
    """A task costs milliseconds whatever it reads: many small ones are slower than a few."""
    cores = os.cpu_count() or 1
    rows = sum(task.size for task in tasks)
    if len(tasks) > 4 * cores and rows < 10_000 * len(tasks):
        log.warning(
            "%d tasks for %d rows on %d cores: lower minPartitions or raise maxRecordsPerPartition",
            len(tasks),
            rows,
            cores,
        )
