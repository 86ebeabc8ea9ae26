"""Resolving options to offsets: where a query starts and where a batch ends."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from klamm.config import ConfigError
from klamm.protocol.types import TopicPartition
from klamm.spark.options.limits import AtOffsets, AtTime, AtTimes, Limit, Named, check_resolved_order
from klamm.spark.options.options import SourceOptions
from klamm.spark.read.positions import EARLIEST, LATEST, Positions, check_same_partitions, listed
from klamm.spark.read.splitting import OffsetRange


class Lookup(Protocol):
    """What resolving needs from a cluster."""

    def offsets(self, wanted: Mapping[TopicPartition, int]) -> Positions:
        """The offset at EARLIEST or LATEST, or the first at or after a time: -1 when there is none."""
        ...

    def committed(self, group_id: str, partitions: Collection[TopicPartition]) -> Positions:
        """What a group has committed; partitions without a commit are left out."""
        ...


def starting_positions(
    options: SourceOptions, lookup: Lookup, partitions: Collection[TopicPartition]
) -> Positions:
    """Where every partition starts. Raises ConfigError when the options do not fit what there is."""
    if options.start is Named.GROUP:
        return _from_group(options, lookup, partitions)
    if isinstance(options.start, AtTime | AtTimes):
        return _from_times(options, lookup, partitions)
    return _settled(_wanted(options.start, partitions), lookup)


def ending_positions(
    options: SourceOptions, lookup: Lookup, partitions: Collection[TopicPartition]
) -> Positions:
    """Where every partition ends; by time, a partition without a match ends at latest."""
    if isinstance(options.end, AtTime | AtTimes):
        return _settled(lookup.offsets(_times(options.end, partitions)), lookup)
    return _settled(_wanted(options.end, partitions), lookup)


def batch_ranges(
    options: SourceOptions, lookup: Lookup, partitions: Collection[TopicPartition]
) -> list[OffsetRange]:
    """What a batch reads of each partition, start before end."""
    starts = starting_positions(options, lookup, partitions)
    ends = ending_positions(options, lookup, partitions)
    check_resolved_order(starts, ends)
    return [OffsetRange(partition, starts[partition], ends[partition]) for partition in sorted(starts)]


def _wanted(limit: Limit, partitions: Collection[TopicPartition]) -> Positions:
    if isinstance(limit, AtOffsets):
        check_same_partitions(limit.option, limit.positions, partitions)
        return dict(limit.positions)
    assert limit in (Named.EARLIEST, Named.LATEST)
    return dict.fromkeys(partitions, EARLIEST if limit is Named.EARLIEST else LATEST)


def _settled(wanted: Positions, lookup: Lookup) -> Positions:
    """Offsets with -2 (earliest) and -1 (latest) replaced by real ones."""
    open_ones = {partition: offset for partition, offset in wanted.items() if offset < 0}
    return {**wanted, **lookup.offsets(open_ones)} if open_ones else dict(wanted)


def _times(limit: AtTime | AtTimes, partitions: Collection[TopicPartition]) -> Positions:
    if isinstance(limit, AtTime):
        return dict.fromkeys(partitions, limit.time_ms)
    check_same_partitions(limit.option, limit.times_ms, partitions)
    return dict(limit.times_ms)


def _from_times(options: SourceOptions, lookup: Lookup, partitions: Collection[TopicPartition]) -> Positions:
    assert isinstance(options.start, AtTime | AtTimes)
    times = _times(options.start, partitions)
    found = lookup.offsets(times)
    unmatched = sorted(partition for partition, offset in found.items() if offset < 0)
    if unmatched and options.no_match_is_error:
        raise ConfigError(
            options.start.option,
            f"{options.start.option}: no record at or after {times[unmatched[0]]} in {listed(unmatched)}; "
            "to start at the end there, set startingOffsetsByTimestampStrategy=latest",
        )
    return _settled(found, lookup)


def _from_group(options: SourceOptions, lookup: Lookup, partitions: Collection[TopicPartition]) -> Positions:
    assert options.group_id is not None
    committed = lookup.committed(options.group_id, partitions)
    missing = sorted(partition for partition in partitions if partition not in committed)
    if missing and options.group_missing == "error":
        raise ConfigError(
            "startingOffsets",
            f"group {options.group_id} has no committed offset for {listed(missing)}; "
            "write groupMissing=earliest or groupMissing=latest to start there",
        )
    instead = EARLIEST if options.group_missing == "earliest" else LATEST
    return _settled({**dict.fromkeys(missing, instead), **_of(partitions, committed)}, lookup)


def _of(partitions: Collection[TopicPartition], found: Mapping[TopicPartition, int]) -> Positions:
    return {partition: found[partition] for partition in partitions if partition in found}
