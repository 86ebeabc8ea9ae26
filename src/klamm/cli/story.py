"""A group's events as sentences: what happened, why, and how long it took."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import zip_longest
from typing import Any, Final

Event = Mapping[str, Any]

MAX_NAMED: Final = 8  # partitions or members named one by one


@dataclass(frozen=True, slots=True)
class Chapter:
    """One sentence, with its time and its offset."""

    timestamp_ms: int
    text: str
    event: Event


def chapters(events: Iterable[Event]) -> list[Chapter]:
    """The events in order of time, one sentence each."""
    ordered = sorted(events, key=lambda event: _number(event, "timestamp_ms"))
    return [Chapter(_number(event, "timestamp_ms"), sentence(event), event) for event in ordered]


def told_once(story: Sequence[Chapter]) -> list[Chapter]:
    """Drop events whose content the next event repeats.

    When a member leaves, the broker records its removal, the beginning of a rebalance and, for the last
    member, the empty group: three events with one time, one member and one cause.
    """
    kept: list[Chapter] = []
    for chapter, following in zip_longest(story, story[1:]):
        kind = chapter.event.get("type")
        is_repeated = (
            following is not None
            and following.event.get("type") in _REPEATED_BY.get(str(kind), ())
            and all(chapter.event.get(name) == following.event.get(name) for name in _SAME_DEPARTURE)
        )
        if not is_repeated:
            kept.append(chapter)
    return kept


_REPEATED_BY: Final = {
    "member_removed": ("rebalance_started", "group_emptied"),
    "rebalance_started": ("group_emptied",),
}
_SAME_DEPARTURE: Final = ("timestamp_ms", "member_id", "cause")


def sentence(event: Event) -> str:
    """One event as a sentence."""
    kind = event.get("type")
    teller = _TELLERS.get(str(kind))
    return teller(event) if teller else f"{kind}: {event.get('cause', '')}"


def headline(event: Event) -> str:
    """One event in a few words, for lists of many."""
    who = str(event.get("client_id") or event.get("member_id") or "unknown")
    cause = event.get("cause")
    match event.get("type"):
        case "rebalance_started":
            return f"{who}: {cause}; all members rejoin"
        case "rebalance_completed":
            took_ms = _number(event, "join_phase_ms") + _number(event, "sync_phase_ms")
            moved = event.get("moved_count")
            changed = "" if moved is None else f", {_count(int(moved), 'partition')} moved"
            members = _count(_number(event, "member_count"), "member")
            return f"generation {event.get('generation_after')}: {members}, {_duration(took_ms)}{changed}"
        case "member_removed":
            return f"{who} removed: {cause}"
        case "group_emptied":
            return f"the group is empty: {cause}"
        case _:
            return sentence(event)


def _started(event: Event) -> str:
    count = _number(event, "member_count")
    return (
        f"A rebalance began because {_why(event)}. The group was in generation {event.get('generation')} "
        f"with {_count(count, 'member')}."
    )


def _completed(event: Event) -> str:
    join_ms, sync_ms = _number(event, "join_phase_ms"), _number(event, "sync_phase_ms")
    parts = [
        f"The rebalance to generation {event.get('generation_after')} is complete: "
        f"{_count(_number(event, 'member_count'), 'member')}, assignor {event.get('protocol_name')}, "
        f"leader {event.get('leader_id')}.",
        f"It took {_duration(join_ms + sync_ms)}: {_duration(join_ms)} until all members had joined, "
        f"{_duration(sync_ms)} until all members had an assignment.",
    ]
    dropped = list(event.get("dropped") or ())
    if dropped:
        parts.append(
            f"Removed because they did not rejoin in time: {_listed(dropped, event.get('dropped_count'))}."
        )
    moved = event.get("moved")
    if moved is None:
        parts.append("Its assignments could not be decoded.")
    elif moved:
        parts.append(f"Partitions with a new owner: {_listed(moved, event.get('moved_count'))}.")
    else:
        parts.append("No partition has a new owner.")
    return " ".join(parts)


def _emptied(event: Event) -> str:
    return (
        f"The last member left because {_why(event)}. "
        f"The group is empty in generation {event.get('generation_after')}; its offsets are kept."
    )


def _removed(event: Event) -> str:
    return f"{_who(event)} was removed: {_why(event)}."


def _fenced(event: Event) -> str:
    return (
        f"Static member {event.get('group_instance_id')} rejoined as {event.get('new_member_id')}; "
        f"{event.get('member_id')} is fenced."
    )


def _offsets(event: Event) -> str:
    return f"{_count(_number(event, 'count'), 'committed offset')} removed because {event.get('cause')}."


def _mixed(event: Event) -> str:
    return (
        f"In generation {event.get('generation')} offsets were committed by consumers as well as in "
        f"transactions ({_who(event)}). The later commit overrides the earlier one; use one of the two."
    )


def _gone(event: Event) -> str:
    return f"The group was removed: {event.get('cause')}."


_TELLERS: Final = {
    "rebalance_started": _started,
    "rebalance_completed": _completed,
    "group_emptied": _emptied,
    "member_removed": _removed,
    "member_fenced": _fenced,
    "offsets_removed": _offsets,
    "commits_mixed": _mixed,
    "group_removed": _gone,
}


def _who(event: Event) -> str:
    member = str(event.get("member_id") or "a member")
    client, host = event.get("client_id"), str(event.get("client_host") or "").lstrip("/")
    place = ", ".join(str(item) for item in (client and f"client {client}", host and f"from {host}") if item)
    return f"{member} ({place})" if place else member


def _why(event: Event) -> str:
    cause = str(event.get("cause") or "of an unknown cause")
    reason = event.get("reason")
    told = f'{cause}, saying "{reason}"' if reason else cause
    return (
        f"{told}: {_who(event)}" if event.get("type") != "member_removed" and event.get("member_id") else told
    )


def _listed(names: Sequence[Any], total: Any) -> str:
    count = total if isinstance(total, int) else len(names)
    shown = ", ".join(map(str, names[:MAX_NAMED]))
    return shown if count <= MAX_NAMED else f"{shown} and {count - MAX_NAMED} more"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _duration(duration_ms: int) -> str:
    return f"{duration_ms} ms" if duration_ms < 10_000 else f"{duration_ms / 1000:.1f} s"


def _number(event: Event, name: str) -> int:
    value = event.get(name)
    return value if isinstance(value, int) else 0


def summary(events: Sequence[Event]) -> str:
    """The number of rebalances, the time spent, and their causes by frequency."""
    causes = Counter(str(event.get("cause")) for event in events if event.get("type") == "rebalance_started")
    total = sum(causes.values())
    if not total:
        return "No rebalances recorded."
    busy_ms = sum(
        _number(event, "join_phase_ms") + _number(event, "sync_phase_ms")
        for event in events
        if event.get("type") == "rebalance_completed"
    )
    listed = "; ".join(f"{cause} ({count})" for cause, count in causes.most_common())
    return f"{_count(total, 'rebalance')}, {_duration(busy_ms)} spent rebalancing. Causes: {listed}."


def clock_time(timestamp_ms: int) -> str:
    """A time in UTC, to the millisecond."""
    moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    return f"{moment:%Y-%m-%d %H:%M:%S}.{timestamp_ms % 1000:03d}"
