"""Rebalances again and again: how many, and which of them caused the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from klamm.groups.causes import GroupEventCause, why
from klamm.groups.diagnosis.finding import Evidence, Finding, GroupVerdict, exact, inferred
from klamm.groups.diagnosis.words import count, duration
from klamm.groups.snapshot import GroupSnapshot

MANY: Final = 5  # rebalances within the window
# A cooperative assignor gives up in one rebalance what it assigns in the next.
_SECOND_ROUND_MS: Final = 5_000
_DEPARTURES: Final = frozenset(
    {
        GroupEventCause.MEMBER_LEFT,
        GroupEventCause.MEMBER_DISMISSED,
        GroupEventCause.SESSION_EXPIRED,
        GroupEventCause.JOIN_MISSED,
        GroupEventCause.SYNC_MISSED,
    }
)
_FOLLOWING: Final = frozenset({GroupEventCause.METADATA_CHANGED, GroupEventCause.LEADER_REJOINED})
_TOO_BUSY: Final = "max.poll.interval"


@dataclass(frozen=True, slots=True)
class RootCause:
    """What began most of the rebalances that nothing before them explains."""

    cause: str
    client_id: str
    reason: str
    times: int
    cure: str

    @property
    def text(self) -> str:
        return why({"cause": self.cause, "reason": self.reason})

    @property
    def who(self) -> str:
        """The client, and how often it was the cause."""
        often = "once" if self.times == 1 else f"{self.times} times"
        return f"{self.client_id or 'client not known'}, {often}"


def root_cause(events: Sequence[Mapping[str, Any]]) -> RootCause | None:
    """The root cause of the rebalances in these events, oldest first; None if there was none.

    A client that joins after it has left is a consequence of its departure, and a member that rejoins right
    after a rebalance one of that rebalance.
    """
    roots: Counter[tuple[str, str, str]] = Counter()
    departed: set[str] = set()
    joined: dict[str, set[str]] = {}
    last_completed_ms: int | None = None
    for event in events:
        kind, cause, client_id = event.get("type"), str(event.get("cause")), str(event.get("client_id") or "")
        at_ms = int(event.get("timestamp_ms") or 0)
        if kind == "rebalance_completed":
            last_completed_ms = at_ms
        if kind in ("member_removed", "group_emptied"):
            departed.add(client_id)
        if kind not in ("rebalance_started", "group_emptied"):
            continue
        if cause == GroupEventCause.MEMBER_JOINED:
            joined.setdefault(client_id, set()).add(str(event.get("member_id")))
            is_consequence = client_id in departed
        elif cause in _FOLLOWING:
            is_consequence = last_completed_ms is not None and at_ms - last_completed_ms < _SECOND_ROUND_MS
        else:
            # The last member's departure is told twice: as the start of a rebalance, and as an empty group.
            is_consequence = kind == "group_emptied"
        if not is_consequence:
            roots[cause, client_id, str(event.get("reason") or "")] += 1
        if cause in _DEPARTURES:
            departed.add(client_id)
    if not roots:
        return None
    # A departure explains more than a first join that it was followed by.
    weighed = sorted(roots.items(), key=lambda item: (item[0][0] in _DEPARTURES, item[1]), reverse=True)
    (cause, client_id, reason), times = weighed[0]
    return RootCause(cause, client_id, reason, times, _cure(cause, reason, times))


def _cure(cause: str, reason: str, times: int) -> str:
    if cause in _DEPARTURES and _TOO_BUSY in reason:
        return (
            "It takes longer between two polls than max.poll.interval.ms: lower max.poll.records, call "
            "keepalive() within long work, or raise max.poll.interval.ms."
        )
    if cause in _WHEN_REPEATED and times == 1:
        return _OTHER_CURE if cause in _DEPARTURES else ""  # it came, as members do
    return _CURES.get(GroupEventCause(cause), _OTHER_CURE) if cause in set(GroupEventCause) else _OTHER_CURE


_OTHER_CURE: Final = "See the log of that client."
# Their cures speak of what happens again and again.
_WHEN_REPEATED: Final = frozenset(
    {GroupEventCause.MEMBER_LEFT, GroupEventCause.MEMBER_JOINED, GroupEventCause.METADATA_CHANGED}
)
_CURES: Final[Mapping[GroupEventCause, str]] = {
    GroupEventCause.MEMBER_LEFT: "Its process ends and is started again: see its log. With "
    "group.instance.id, a restart within session.timeout.ms causes no rebalance.",
    GroupEventCause.MEMBER_DISMISSED: "An administrator or a program removes it: stop that.",
    GroupEventCause.SESSION_EXPIRED: "Its process dies, or stands still for longer than session.timeout.ms: "
    "see its log, its memory limit and its host.",
    GroupEventCause.JOIN_MISSED: "It sends heartbeats and does not poll within max.poll.interval.ms: lower "
    "max.poll.records, or raise max.poll.interval.ms.",
    GroupEventCause.SYNC_MISSED: "It joins and does not fetch its assignment: see its log.",
    GroupEventCause.MEMBER_JOINED: "New members keep joining: a process that is started again and again, or "
    "a deployment. See its log; use group.instance.id.",
    GroupEventCause.METADATA_CHANGED: "Its subscription changes again and again: see its code.",
    GroupEventCause.LEADER_REJOINED: "Topics or partitions that it subscribes to change: with a pattern, "
    "each new topic causes a rebalance.",
    GroupEventCause.STATIC_MEMBER_RETURNED: "A static member returns with another subscription.",
}


def storm(group: GroupSnapshot) -> Finding | None:
    """Many rebalances within the window."""
    return _recorded(group) if group.events is not None else _registered(group)


def _recorded(group: GroupSnapshot) -> Finding | None:
    events = group.events or ()
    began = [each for each in events if each.get("type") == "rebalance_started"]
    if len(began) < MANY:
        return None
    root = root_cause(events)
    evidence: list[Evidence] = [exact(_often(len(began), group))]
    causes = Counter(str(each.get("cause")) for each in began)
    evidence.append(
        exact("causes: " + "; ".join(f"{cause} ({times})" for cause, times in causes.most_common()))
    )
    busy_ms = sum(
        int(each.get("join_phase_ms") or 0) + int(each.get("sync_phase_ms") or 0)
        for each in events
        if each.get("type") == "rebalance_completed"
    )
    evidence.append(exact(f"{duration(busy_ms)} of these {duration(group.window_ms)} were spent rebalancing"))
    steps = [f"`klamm groups explain {group.group_id}` has them all."]
    because = ""
    if root is not None:
        because = f" The root cause: {root.text} ({root.who})."
        evidence.append(inferred(f"the other rebalances are consequences of: {root.text}"))
        if root.cure:
            steps.insert(0, root.cure)
    return Finding(GroupVerdict.STORM, f"{_often(len(began), group)}.{because}", evidence, steps)


def _often(times: int, group: GroupSnapshot) -> str:
    return f"{count(times, 'rebalance')} in the last {duration(group.window_ms)}"


def _registered(group: GroupSnapshot) -> Finding | None:
    """The same from the registrations in `__consumer_offsets`, which tell members but no causes."""
    found = group.generations
    if len(found) < 2 or found[-1].generation - found[0].generation < MANY:
        return None
    times = found[-1].generation - found[0].generation
    left: Counter[str] = Counter()
    came: Counter[str] = Counter()
    for before, after in pairwise(found):
        gone, new = before.members - after.members, after.members - before.members
        left.update(_clients(before.clients, gone))
        came.update(_clients(after.clients, new))
    evidence = [
        exact(
            f"generation {found[0].generation} became {found[-1].generation} in "
            f"{duration(found[-1].timestamp_ms - found[0].timestamp_ms)}"
        )
    ]
    because, steps = "", ["The log of that client tells why: this cluster records no causes."]
    if left:
        client, number = left.most_common(1)[0]
        because = f" The member that went most often: {client} ({number} times)."
        evidence.append(inferred(f"{client} left or lost its session {number} times, and came back"))
        steps.insert(0, "See whether it crashes, or exceeds max.poll.interval.ms.")
    elif came:
        client, number = came.most_common(1)[0]
        because = f" New members came: {client} ({number} times)."
        evidence.append(inferred(f"{client} joined {number} times"))
    else:
        evidence.append(inferred("the members stayed: their subscription, topics or partitions changed"))
    return Finding(GroupVerdict.STORM, f"{_often(times, group)}.{because}", evidence, steps)


def _clients(clients: frozenset[str], member_ids: frozenset[str]) -> list[str]:
    """The client ids of members; an id begins with the client's."""
    return [
        max((name for name in clients if each.startswith(name)), key=len, default=each) for each in member_ids
    ]
