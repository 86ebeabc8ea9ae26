"""Reading topics as a stream. One object per query runs on the driver; copies of it read in the tasks."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from klamm.client.arrivals import await_data
from klamm.clock import Clock, SystemClock
from klamm.errors import KlammError
from klamm.protocol.types import TopicPartition
from klamm.spark.options.options import SourceOptions
from klamm.spark.read.admission import backlog, limit_by_share, must_wait
from klamm.spark.read.batch_reader import planned
from klamm.spark.read.lookup import ClusterLookup, SubscribedTopics
from klamm.spark.read.loss import report_loss
from klamm.spark.read.positions import (
    EARLIEST,
    LATEST,
    OffsetJson,
    Positions,
    from_json,
    initial_of,
    is_initial,
    listed,
    to_json,
)
from klamm.spark.read.reading import read_range
from klamm.spark.read.resolution import starting_positions
from klamm.spark.read.splitting import OffsetRange
from klamm.spark.setup.connections import fetcher
from klamm.spark.setup.refusals import explained

log = logging.getLogger(__name__)
COMMIT_TIMEOUT_S: Final = 10.0


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans micro-batches; its state between them is only a cache."""

    def __init__(
        self,
        options: SourceOptions,
        schema: StructType,
        *,
        clock: Clock | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.options = options
        self.schema = schema
        self._clock = clock or SystemClock()
        self._sleep = sleep
        self._lookup = ClusterLookup(options, sleep=sleep)
        self._initial: Positions | None = None
        self._topics: SubscribedTopics = SubscribedTopics(frozenset(), {})
        self._seen: Positions | None = None  # the last ends of the logs
        self._is_available_now = False
        self._target: Positions | None = None  # what AvailableNow reads up to
        self._last_batch_at_ms: int | None = None
        self._committed: Positions | None = None

    # What Spark calls, in its order.

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Spark passes it back to `latestOffset`, which applies both limits; Spark has no limit for two."""
        if self.options.max_offsets_per_trigger is not None:
            return ReadMaxRows(self.options.max_offsets_per_trigger)
        if self.options.min_offsets_per_trigger is not None:
            return ReadMinRows(self.options.min_offsets_per_trigger)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Use the end offsets of the first lookup as the end of the query."""
        self._is_available_now = True

    @explained
    def initialOffset(self) -> OffsetJson:  # noqa: N802 - Spark's name
        """Where the query starts. Spark calls this more than once and must get the same result."""
        if self._initial is None:
            self._topics = self._lookup.topics()
            self._initial = starting_positions(self.options, self._lookup, self._topics.partitions)
            log.info("starting at %s", to_json(self._initial))
        return to_json(self._initial, self._initial)

    @explained
    def latestOffset(self, start: OffsetJson, limit: ReadLimit) -> OffsetJson:  # noqa: N802 - Spark's name
        """Where the next micro-batch ends; `start` itself when there is nothing to read."""
        at = from_json(start)
        self._commit_progress(start, at)
        latest = self._seen = self._latest(at)
        ends = self._admitted(at, latest, limit)
        if ends == at and not self._is_available_now and self.options.max_wait_ms > 0:
            # Spark would call again in ten milliseconds: wait here instead, until there is data.
            self._await_news(latest)
            latest = self._seen = self._latest(at)
            ends = self._admitted(at, latest, limit)
        if ends == at:
            return start  # the very text: anything else would be a batch without rows
        # The first batch stores its start offsets: after a crash they would be resolved differently.
        return to_json(ends, at if is_initial(start) else None)

    def reportLatestOffset(self) -> OffsetJson | None:  # noqa: N802 - Spark's name
        """The end offsets of the last lookup, for progress reports."""
        return to_json(self._seen) if self._seen else None

    @explained
    def partitions(self, start: OffsetJson, end: OffsetJson) -> list[InputPartition]:
        """The tasks of a micro-batch, the same whenever it is planned again."""
        begin, until = from_json(start), from_json(end)
        initial = initial_of(end)
        if initial is not None:
            begin = initial
        self._check_gone(begin.keys() - until.keys())
        added = self._earliest(until.keys() - begin.keys())
        for partition, offset in sorted(added.items()):
            if offset > 0:
                self._report(f"{partition} is new and starts at offset {offset}: earlier records are lost")
        begin = {**begin, **added}
        for partition in sorted(item for item in until if item in begin and until[item] < begin[item]):
            # Reading on from its end repeats nothing if the log was only cut; so does the official connector.
            self._report(
                f"{partition} ends at offset {until[partition]}, before offset {begin[partition]} where this "
                "batch starts: the topic was deleted and created again, or its log was truncated"
            )
        ranges = [OffsetRange(item, begin[item], until[item]) for item in sorted(until) if item in begin]
        return planned(self.options, ranges, self._topics)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """A task's rows; runs in the workers."""
        return read_range(self.options, self.schema, partition)

    def commit(self, end: OffsetJson) -> None:
        """Nothing to do: Spark calls this one batch late; `latestOffset` commits earlier."""

    def stop(self) -> None:
        """Close the connections."""
        self._lookup.close()

    # How it finds out.

    def _latest(self, at: Positions) -> Positions:
        """The ends of all logs, or the fixed ones of AvailableNow."""
        if self._target is not None:
            return self._target
        topics = self._lookup.topics(known={partition.topic for partition in at})
        self._check_topics(at, topics)
        self._topics = topics
        wanted = dict.fromkeys(topics.partitions, LATEST)
        latest = self._lookup.offsets(wanted)
        if any(offset < at.get(partition, 0) for partition, offset in latest.items()):
            # A broker that has just taken over may be a moment behind.
            latest = self._lookup.offsets_again(wanted, at)
        if self._is_available_now:
            self._target = latest
        return latest

    def _check_topics(self, at: Positions, topics: SubscribedTopics) -> None:
        gone = {partition for partition in at if partition not in topics.partitions}
        if gone:
            self._check_gone(gone)
        for name, topic_id in topics.ids.items():
            if self._topics.ids.get(name, topic_id) != topic_id:
                self._report(f"topic {name} was deleted and created again: its earlier records are lost")

    def _check_gone(self, gone: set[TopicPartition]) -> None:
        if gone:
            self._report(
                f"the checkpoint has {listed(gone)}, not found by {self.options.subscription}: "
                "deleted, or the checkpoint belongs to another query"
            )

    def _report(self, message: str) -> None:
        report_loss(message, is_fatal=self.options.fails_on_data_loss)

    def _earliest(self, partitions: set[TopicPartition]) -> Positions:
        return self._lookup.offsets(dict.fromkeys(partitions, EARLIEST)) if partitions else {}

    def _await_news(self, after: Positions) -> None:
        if not after:
            self._sleep(self.options.max_wait_ms / 1000)
            return
        await_data(
            fetcher(self.options.client),
            after,
            max_wait_ms=self.options.max_wait_ms,
            is_read_committed=self.options.ends_where_stable,
        )

    def _admitted(self, at: Positions, latest: Positions, limit: ReadLimit) -> Positions:
        """How far this micro-batch may go. A limit of "all there is" overrides the options."""
        options = self.options
        if isinstance(limit, ReadAllAvailable):
            return latest
        now_ms = self._clock.now_ms()
        minimum = options.min_offsets_per_trigger
        if minimum is not None and not self._is_available_now:
            waits = must_wait(
                minimum=minimum,
                waiting=backlog(at, latest),
                last_batch_at_ms=self._last_batch_at_ms,
                now_ms=now_ms,
                max_delay_ms=options.max_trigger_delay_ms,
            )
            if waits:
                return at
        self._last_batch_at_ms = now_ms
        if options.max_offsets_per_trigger is None:
            return latest
        start: Mapping[TopicPartition, int] = {**at, **self._earliest(latest.keys() - at.keys())}
        return limit_by_share(options.max_offsets_per_trigger, start, latest)

    def _commit_progress(self, start: OffsetJson, at: Positions) -> None:
        """Commit the query's progress to the group: Spark has logged `start` as done."""
        options = self.options
        if not options.commits_progress or is_initial(start) or at == self._committed:
            return
        assert options.group_id is not None
        try:
            self._lookup.commit(options.group_id, at, timeout_s=COMMIT_TIMEOUT_S)
            self._committed = at
        except KlammError as error:
            if options.commit_error_is_fatal:
                raise
            log.warning(
                "committing to group %s failed, the next trigger tries again: %s", options.group_id, error
            )
