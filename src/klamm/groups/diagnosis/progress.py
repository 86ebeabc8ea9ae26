"""Rules about how a group moves: backwards, too slowly, not at all for so long that its offsets expire."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from klamm.groups.diagnosis.finding import Finding, GroupVerdict, exact, inferred
from klamm.groups.diagnosis.members import behind, unread
from klamm.groups.diagnosis.words import count, duration, listed, rate
from klamm.groups.lag import LagStatus, total_lag
from klamm.groups.snapshot import GroupSnapshot, PartitionSnapshot

SOON_MS: Final = 86_400_000
_TOLERANCE: Final = 0.95  # of the producer's rate
_BURST_MS: Final = 10_000  # so much of what is produced may wait
_MIN_COMMITS: Final = 3
_MIN_SPAN_MS: Final = 5_000  # less says nothing: commits come every five seconds by default


def went_back(group: GroupSnapshot) -> Finding | None:
    """A commit below one before it, which the group has not reached again."""
    found = [(each, step) for each in group.partitions if (step := _step_back(each)) is not None]
    if not found:
        return None
    (first, (before, after, at_ms)), *_ = found
    return Finding(
        GroupVerdict.WENT_BACK,
        f"{first.row.partition} went back from offset {before} to {after} "
        f"{duration(group.taken_at_ms - at_ms)} ago: records are processed twice.",
        [exact(f"{each.row.partition}: {high} was committed, then {low}") for each, (high, low, _) in found],
        (
            "A reset of offsets, a seek, or two programs that commit for one group: see who uses its id.",
            f"`klamm groups explain {group.group_id}` has what happened then."
            if group.events is not None
            else f"`klamm groups members {group.group_id}` has its clients and hosts.",
        ),
    )


def _step_back(each: PartitionSnapshot) -> tuple[int, int, int] | None:
    """The highest commit, that after it, and when; None if the group has not gone back, or is there again."""
    highest = max(each.commits, key=lambda commit: commit.offset, default=None)
    if highest is None or each.row.committed is None or each.row.committed >= highest.offset:
        return None
    later = [commit for commit in each.commits if commit.timestamp_ms >= highest.timestamp_ms]
    lower = [commit for commit in later if commit.offset < highest.offset]
    return (highest.offset, lower[0].offset, lower[0].timestamp_ms) if lower else None


@dataclass(frozen=True, slots=True)
class Rates:
    """What is produced and committed, in records per millisecond, and what waits."""

    produced: float
    committed: float
    lag: int


def rates(group: GroupSnapshot) -> Rates | None:
    """How fast the group and its producers are, over the window; None if the history does not tell."""
    produced = committed = 0.0
    lag = counted = 0
    for each in group.partitions:
        row = each.row
        if row.lag is None or row.log is None or each.ended_at_start is None:
            continue
        if each.commits and each.commits[-1].offset < each.commits[0].offset:
            continue  # it went back: that is no speed
        lag += row.lag
        produced += max(0, row.log.end - each.ended_at_start) / group.window_ms
        commits = each.commits
        span_ms = group.taken_at_ms - commits[0].timestamp_ms if commits else 0
        if span_ms >= _MIN_SPAN_MS:
            committed += max(0, commits[-1].offset - commits[0].offset) / span_ms
            counted += len(commits)
    return Rates(produced, committed, lag) if counted >= _MIN_COMMITS else None


def too_slow(group: GroupSnapshot) -> Finding | None:
    """The lag grows because more is produced than read; or it shrinks, which takes some time."""
    found = rates(group)
    if found is None or not found.lag or found.lag < found.produced * _BURST_MS:
        return None
    speeds = exact(
        f"over the last {duration(group.window_ms)}: {rate(found.produced, 1)} produced, "
        f"{rate(found.committed, 1)} committed"
    )
    growth = found.produced - found.committed
    if found.committed >= found.produced * _TOLERANCE:
        if growth >= 0:
            return None  # it keeps up
        left = duration(found.lag / -growth)
        return Finding(
            GroupVerdict.CATCHING_UP,
            f"{unread(group)}; at this rate the group has caught up in {left}.",
            [speeds, inferred(f"the lag shrinks by {rate(-growth, 1)}")],
        )
    later = round(found.lag + growth * 3_600_000)
    return Finding(
        GroupVerdict.TOO_SLOW,
        f"{unread(group)}, and the lag grows by {rate(growth, 1)}: in an hour it is {later:,}.",
        [speeds, inferred(f"in an hour the lag is {count(later, 'record')}")],
        (
            f"Add members: there are {len(group.members)}, for {count(len(group.partitions), 'partition')}.",
            "Make the processing of a record faster, or process several at a time (max.poll.records).",
        ),
    )


def offsets_expire(group: GroupSnapshot) -> Finding | None:
    """An empty group whose offsets the coordinator removes soon."""
    if not group.is_empty or group.retention_ms is None:
        return None
    soon: list[tuple[PartitionSnapshot, int]] = []
    for each in group.partitions:
        if each.row.committed is None or each.row.is_decision:
            continue
        # Kafka counts from when the last member left, or from each commit where there never was one.
        since_ms = group.empty_since_ms if group.protocol_type else each.committed_at_ms
        if since_ms is None:
            continue
        left_ms = since_ms + group.retention_ms - group.taken_at_ms
        if left_ms < min(SOON_MS, group.retention_ms / 2):
            soon.append((each, max(0, left_ms)))
    if not soon:
        return None
    shortest_ms = min(left_ms for _, left_ms in soon)
    return Finding(
        GroupVerdict.OFFSETS_EXPIRE,
        f"{count(len(soon), 'committed offset')} will be removed in {duration(shortest_ms)}: the group has "
        "no members.",
        [
            exact(f"offsets.retention.minutes is {group.retention_ms // 60_000}"),
            exact(f"partitions: {listed(each.row.partition for each, _ in soon)}"),
        ],
        (
            "Start a consumer of the group, or raise offsets.retention.minutes.",
            f"`klamm offsets export {group.group_id} > offsets.csv` keeps a copy.",
        ),
    )


def not_known(group: GroupSnapshot) -> Finding | None:
    """Something that the cluster does not tell, so that nobody can say that all is well."""
    rows = [each.row for each in group.partitions if each.row.lag is None and not each.row.is_decision]
    rows = [row for row in rows if row.lag_limit != 0]
    if rows:
        reasons = sorted({_REASONS[row.status] for row in rows})
        return Finding(
            GroupVerdict.NOT_KNOWN,
            f"The lag of {listed(row.partition for row in rows)} is not known: {'; '.join(reasons)}.",
            [exact(f"{row.partition}: {_REASONS[row.status]}") for row in rows],
            (f"`klamm groups describe {group.group_id}` has all partitions.",),
        )
    if group.hidden_topics:
        return Finding(
            GroupVerdict.NOT_KNOWN,
            f"Its members read topics that this user may not describe: {listed(group.hidden_topics)}.",
            [exact(f"topic {name}: its partitions are not known") for name in group.hidden_topics],
            ("Ask as a user who may describe these topics: `klamm doctor --topic NAME` tells.",),
        )
    if group.members and not group.partitions and group.protocol_type == "consumer":
        return Finding(
            GroupVerdict.NOT_KNOWN,
            "The members have no partition to read: the topics that they subscribe to do not exist, or the "
            "cluster does not tell them.",
            [exact("the group has members and no partitions")],
            (f"`klamm groups members {group.group_id}` has their subscriptions.",),
        )
    if group.is_empty and not group.partitions and group.protocol_type in ("", "consumer"):
        return Finding(
            GroupVerdict.NOT_KNOWN,
            "Nothing tells what it reads: it has no members and no committed offsets.",
            [exact("no members"), exact("no committed offsets: none was committed, or they are deleted")],
            (f"`klamm groups explain {group.group_id}` tells what happened.",),
        )
    return None


_REASONS: Final = {
    LagStatus.NOTHING_COMMITTED: "nothing is committed, so that auto.offset.reset decides",
    LagStatus.LOG_UNKNOWN: "the topic is deleted or not for this user to see, or its leader does not answer",
    LagStatus.BEFORE_START: "the committed offset is before the log's start",
    LagStatus.BEYOND_END: "the committed offset is beyond the log's end",
    LagStatus.SINK: "a decision of an exactly-once sink",
    LagStatus.KNOWN: "known",
}


def well(group: GroupSnapshot) -> Finding:
    """None of the other rules applies."""
    rows = [each.row for each in group.partitions]
    total = total_lag(rows)
    if rows and not total.counted:
        return Finding(GroupVerdict.WELL, "It stores decisions of an exactly-once sink, and has no lag.")
    if not rows:
        return Finding(GroupVerdict.WELL, "It has no partitions to read.")
    readers = count(len(group.members), "member") if group.members else "no members"
    waiting = unread(group) if behind(group) else "nothing is left to read"
    return Finding(
        GroupVerdict.WELL,
        f"{readers}, {count(total.counted, 'partition')}: {waiting}.",
        [exact(f"lag {total.known}")],
    )
