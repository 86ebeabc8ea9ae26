"""How far groups are behind, in records and in seconds, under the names of kafka_exporter.

The lag in seconds is the age of the first record that a group has not committed: the base timestamp of its
batch, which is read from the log. It is read again only when the group has moved, and a limited number of
times for each page; a partition that has to wait for its turn keeps the older timestamp, so that its lag is
never too small.

Where a lag is not known there is no sample, and none of a sum that it belongs to: the partition is counted
among those without a lag, by reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from klamm.broker.metrics.exposition import PAUSE, Family, Sample, labels
from klamm.broker.metrics.verdicts import topics_of, verdicts
from klamm.groups.lag import LagStatus, LogRange, PartitionLag
from klamm.groups.sinks import is_decision
from klamm.protocol.types import TopicPartition
from klamm.records.core import parse_header
from klamm.records.layout import HEADER_BYTES
from klamm.storage.log import LogError, MustLoadError, PartitionLog

if TYPE_CHECKING:
    from klamm.broker.services import Services
    from klamm.coordinator.group.state import Group

MAX_LOOKUPS: Final = 1_000  # for one page; each takes about 30 µs
_GROUP: Final = "kafka_consumergroup_"
_Key = tuple[str, str, int]  # group, topic, partition
_Unknown = Counter[tuple[str, str, str]]  # partitions by group, topic and reason
_LED_ELSEWHERE: Final = "led_by_another_broker"


@dataclass(slots=True)
class _Row:
    """A partition in which the lag of a group is known."""

    key: _Key
    labels: str
    offset: int
    lag: int
    first_unread: int
    topic_id: bytes
    log: PartitionLog
    since_ms: int | None = None  # the timestamp of the first unread record


@dataclass(slots=True)
class _Known:
    topic_id: bytes
    offset: int
    timestamp_ms: int


class LagMeter:
    """Computes the lag of the groups that this broker coordinates, for partitions that it leads."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._known: dict[_Key, _Known] = {}
        self._next_lookup = 0

    def families(self) -> Iterator[Family]:
        """The metrics; samples are computed as they are printed, in this order."""
        rows: list[_Row] = []
        members: list[Sample] = []
        unknown: _Unknown = Counter()
        yield Family(
            f"{_GROUP}current_offset",
            "gauge",
            "committed offset",
            self._current_offsets(rows, members, unknown),
        )
        yield Family(f"{_GROUP}members", "gauge", "members of a group", members)
        yield Family(
            f"{_GROUP}lag",
            "gauge",
            "records between the committed offset and the end of a partition",
            (("", row.labels, row.lag) for row in rows),
        )
        yield Family(f"{_GROUP}lag_sum", "gauge", "lag of a group in a topic", _sums(rows, unknown))
        yield Family(
            "klamm_consumergroup_partitions_without_lag",
            "gauge",
            "partitions in which the lag of a group is not known",
            (
                ("", labels(consumergroup=group_id, topic=topic, reason=reason), count)
                for (group_id, topic, reason), count in unknown.items()
            ),
        )
        yield Family(
            f"{_GROUP}lag_seconds",
            "gauge",
            "age of the first record after the committed offset, 0 when there is none",
            self._seconds(rows),
        )
        yield Family(
            f"{_GROUP}max_lag_seconds",
            "gauge",
            "the largest lag_seconds of a group",
            self._largest(rows, unknown),
        )
        yield Family(
            "klamm_consumergroup_verdict",
            "gauge",
            "1 for a group with a problem that its broker can see, by what `klamm groups diagnose` calls it",
            self._verdicts(rows),
        )

    def _verdicts(self, rows: list[_Row]) -> Iterator[Sample]:
        return verdicts(self._services, {row.key: row.since_ms for row in rows if row.since_ms is not None})

    def _current_offsets(
        self, rows: list[_Row], members: list[Sample], unknown: _Unknown
    ) -> Iterator[Sample]:
        for group in list(self._services.groups.coordinator.groups()):
            of_group = labels(consumergroup=group.group_id)
            members.append(("", of_group, group.membership.member_count))
            yield PAUSE
            yield from self._of_group(group, of_group, rows, unknown)

    def _of_group(self, group: Group, of_group: str, rows: list[_Row], unknown: _Unknown) -> Iterator[Sample]:
        tables = group.memory.offsets
        for topic, table in list(tables.items()):
            of_topic = f"{of_group},{labels(topic=topic)}"
            for number, (_, committed) in table.items():
                if is_decision(group.group_id, committed.metadata):
                    continue  # a number of an exactly-once sink, and no position in the topic
                written = f'{of_topic},partition="{number}"'
                yield "", written, committed.offset
                self._look_at((group.group_id, topic, number), written, committed.offset, rows, unknown)
        topics = self._services.image.topics
        for topic in topics_of(group):
            committed_here = {number for number, _ in tables[topic].items()} if topic in tables else set()
            count = len(topics[topic].partitions) if topic in topics else 0
            for number in range(count):
                if number not in committed_here:
                    self._look_at((group.group_id, topic, number), "", None, rows, unknown)
            yield PAUSE

    def _look_at(
        self, key: _Key, written: str, committed: int | None, rows: list[_Row], unknown: _Unknown
    ) -> None:
        """Add one partition to those whose lag is known, or to the others. Not one that is deleted."""
        group_id, topic, number = key
        described = self._services.image.topics.get(topic)
        if described is None or number >= len(described.partitions):
            return
        partition = self._services.partitions.get(topic, number)
        if partition is None:
            unknown[group_id, topic, _LED_ELSEWHERE] += 1
            return
        try:
            log = partition.log
            found = LogRange(log.log_start_offset, log.high_watermark)
        except LogError:
            unknown[group_id, topic, _reason(LagStatus.LOG_UNKNOWN)] += 1
            return
        place = PartitionLag(TopicPartition(topic, number), committed, found, None)
        lag = place.lag
        if lag is None:
            unknown[group_id, topic, _reason(place.status)] += 1
        elif committed is not None:  # else an empty partition without a commit
            rows.append(_Row(key, written, committed, lag, committed, partition.topic_id, log))

    def _seconds(self, rows: list[_Row]) -> Iterator[Sample]:
        now_ms = self._services.clock.timestamp_ms()
        behind: list[_Row] = []
        for row in rows:
            if row.lag == 0:
                yield "", row.labels, 0
            else:
                behind.append(row)
        moved = [row for row in behind if not self._is_known(row)]
        yield PAUSE
        for row in self._chosen(moved):
            timestamp_ms = _timestamp_of(row)
            if timestamp_ms is not None:
                self._known[row.key] = _Known(row.topic_id, row.first_unread, timestamp_ms)
            yield PAUSE
        kept: dict[_Key, _Known] = {}
        for row in behind:
            known = self._known.get(row.key)
            if known is not None and known.topic_id == row.topic_id:
                kept[row.key] = known
                row.since_ms = known.timestamp_ms
                yield "", row.labels, _age_s(now_ms, known.timestamp_ms)
            else:
                yield PAUSE
        self._known = kept

    def _is_known(self, row: _Row) -> bool:
        known = self._known.get(row.key)
        return known is not None and known.topic_id == row.topic_id and known.offset == row.first_unread

    def _chosen(self, moved: list[_Row]) -> list[_Row]:
        """Those to look up for this page: all, or the next ones in turn."""
        if len(moved) <= MAX_LOOKUPS:
            return moved
        start = self._next_lookup % len(moved)
        self._next_lookup = start + MAX_LOOKUPS
        return (moved[start:] + moved[:start])[:MAX_LOOKUPS]

    def _largest(self, rows: list[_Row], unknown: _Unknown) -> Iterator[Sample]:
        now_ms = self._services.clock.timestamp_ms()
        largest: dict[str, float] = {}
        for row in rows:
            group_id = row.key[0]
            if row.lag == 0 or row.since_ms is not None:
                age_s = 0.0 if row.since_ms is None else _age_s(now_ms, row.since_ms)
                largest[group_id] = max(largest.get(group_id, 0.0), age_s)
            yield PAUSE
        without = {group_id for group_id, _, _ in unknown}
        for group_id, age_s in largest.items():
            if age_s > 0 or group_id not in without:  # it is at least so large; but not surely 0
                yield "", labels(consumergroup=group_id), age_s


def _reason(status: LagStatus) -> str:
    return status.value.replace(" ", "_")


def _sums(rows: list[_Row], unknown: _Unknown) -> Iterator[Sample]:
    without = {(group_id, topic) for group_id, topic, _ in unknown}
    sums: dict[tuple[str, str], int] = {}
    for row in rows:
        group_id, topic, _ = row.key
        sums[group_id, topic] = sums.get((group_id, topic), 0) + row.lag
        yield PAUSE
    for (group_id, topic), lag in sums.items():
        if (group_id, topic) not in without:
            yield "", labels(consumergroup=group_id, topic=topic), lag


def _age_s(now_ms: int, timestamp_ms: int) -> float:
    return max(0, now_ms - timestamp_ms) / 1000


def _timestamp_of(row: _Row) -> int | None:
    """The timestamp of the batch that holds the first unread record; None when it cannot be read now."""
    try:
        found = row.log.slice(
            row.first_unread, until_offset=row.log.high_watermark, max_bytes=1, at_least_one=True
        )
        if isinstance(found, bytes):
            header = found
        else:
            with closing(found):
                header = found.read(0, HEADER_BYTES)
    except MustLoadError:
        return None  # older than what is in memory: not worth loading
    except (LogError, OSError):
        return None  # deleted or offline since; the partition's own metrics show it
    return parse_header(header).base_timestamp_ms if len(header) >= HEADER_BYTES else None
