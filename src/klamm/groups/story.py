"""A group's events in words: what happened, why, and how long it took.

Events are mappings with the fields that `__klamm_events` has. The command line, the broker's log and the demo
take their words from here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import zip_longest
from typing import Any, Final

from klamm.groups.causes import GroupEventCause, why
from klamm.groups.diagnosis.words import duration

Event = Mapping[str, Any]

MAX_NAMED: Final = 8  # partitions or members named one by one


@dataclass(frozen=True, slots=True)
class StoryEntry:
    """One event as a sentence, with its time."""

    timestamp_ms: int
    text: str
    event: Event


def story_entries(events: Iterable[Event]) -> list[StoryEntry]:
    """The events in order of time, one sentence each."""
    ordered = sorted(events, key=lambda event: _number(event, "timestamp_ms"))
    return [StoryEntry(_number(event, "timestamp_ms"), sentence(event), event) for event in ordered]


def without_repeats(story: Sequence[StoryEntry]) -> list[StoryEntry]:
    """Drop events whose content the next event repeats.

    When a member leaves, the broker records its removal, the beginning of a rebalance and, for the last
    member, the empty group: three events with one time, one member and one cause.
    """
    kept: list[StoryEntry] = []
    for entry, following in zip_longest(story, story[1:]):
        kind = entry.event.get("type")
        is_repeated = (
            following is not None
            and following.event.get("type") in _REPEATED_BY.get(str(kind), ())
            and all(entry.event.get(name) == following.event.get(name) for name in _SAME_DEPARTURE)
        )
        if not is_repeated:
            kept.append(entry)
    return kept


_REPEATED_BY: Final = {
    "member_removed": ("rebalance_started", "group_emptied"),
    "rebalance_started": ("group_emptied",),
}
_SAME_DEPARTURE: Final = ("timestamp_ms", "member_id", "cause")


def sentence(event: Event) -> str:
    """One event as a sentence."""
    kind = event.get("type")
    describe = _SENTENCES.get(str(kind))
    return describe(event) if describe else f"{kind}: {event.get('cause', '')}"


def log_line(event: Event) -> str:
    """One event as a line of the broker's log, in the words that operators of Kafka search for."""
    group, member = event["group_id"], event["member_id"]
    cause = why(event)
    match event["type"]:
        case "rebalance_started":
            old = event["generation"]
            return f"Preparing to rebalance group {group} with old generation {old} ({cause}; {member})"
        case "rebalance_completed":
            return (
                f"Assignment received from leader {event['leader_id']}: stabilized group {group} generation "
                f"{event['generation_after']} with {event['member_count']} members after "
                f"{event['join_phase_ms']} ms to join and {event['sync_phase_ms']} ms to sync ({cause})"
            )
        case "group_emptied":
            return f"Group {group} with generation {event['generation_after']} is now empty ({cause})"
        case "group_epoch_bumped":
            return f"Group {group} has epoch {event['generation']} now ({cause}; {member})"
        case "assignor_failed":
            return f"Group {group} keeps its last target at epoch {event['generation']} ({cause})"
        case "group_converted":
            before, after, count = event["type_before"], event["type_after"], event["member_count"]
            return f"Group {group} changed from {before} to {after} with {count} members ({cause}; {member})"
        case "member_removed":
            return f"Member {member} in group {group} has been removed ({cause})"
        case "member_fenced":
            return (
                f"Static member {event['group_instance_id']} of group {group} is now "
                f"{event['new_member_id']}; {member} is fenced ({cause})"
            )
        case "offsets_removed":
            expired = "expired " if event["cause"] == GroupEventCause.RETENTION_OVER else ""
            return f"Removed {event['count']} {expired}offsets in group {group} ({cause}{_age(event)})"
        case "commits_mixed":
            return (
                f"Group {group} has received offset commits from consumers as well as transactional "
                f"producers in generation {event['generation']} ({cause}; {member}). The later commit "
                f"overrides the earlier one: commit either with the consumer or in transactions, not both"
            )
        case "group_removed":
            return f"Group {group} transitioned to Dead in generation {event['generation']} ({cause})"
        case _:
            return f"Group {group}: {cause}"


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
        f"A rebalance began because {_because(event)}. The group was in generation {event.get('generation')} "
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


def _bumped(event: Event) -> str:
    count = _number(event, "member_count")
    return (
        f"The group got epoch {event.get('generation')}, for a new target of {_count(count, 'member')}, "
        f"because {_because(event)}."
    )


def _without_target(event: Event) -> str:
    return (
        f"There is no target for epoch {event.get('generation')}: {event.get('reason')}. "
        f"The group keeps its last one; it asks again when it changes, or after a minute."
    )


def _converted(event: Event) -> str:
    count = _number(event, "member_count")
    after = (
        "the coordinator assigns from now on, also to those of the classic protocol"
        if event.get("type_after") == "consumer"
        else "they assign among themselves from now on"
    )
    return (
        f"The group changed from the {event.get('type_before')} to the {event.get('type_after')} protocol "
        f"because {_because(event)}. Its {_count(count, 'member')} and its offsets stay; {after}."
    )


def _emptied(event: Event) -> str:
    how = _DEPARTURES.get(str(event.get("cause")), f"The last member is gone ({event.get('cause')})")
    reason = f', saying "{event["reason"]}"' if event.get("reason") else ""
    who = f": {_who(event)}" if event.get("member_id") else ""
    generation = event.get("generation_after")
    return f"{how}{reason}{who}. It is empty in generation {generation}; its offsets are kept."


# How the last member went, by the cause that the broker records.
_DEPARTURES: Final[Mapping[str, str]] = {
    GroupEventCause.MEMBER_LEFT: "The last member left the group",
    GroupEventCause.MEMBER_DISMISSED: "An administrator removed the last member",
    GroupEventCause.SESSION_EXPIRED: "The last member was silent for its session timeout",
    GroupEventCause.JOIN_MISSED: "The last member did not rejoin in time",
    GroupEventCause.SYNC_MISSED: "The last members did not fetch their assignments in time",
}


def _removed(event: Event) -> str:
    return f"{_who(event)} was removed: {_because(event)}."


def _fenced(event: Event) -> str:
    return (
        f"Static member {event.get('group_instance_id')} rejoined as {event.get('new_member_id')}; "
        f"{event.get('member_id')} is fenced."
    )


def _offsets(event: Event) -> str:
    count = _count(_number(event, "count"), "committed offset")
    return f"{count} removed because {event.get('cause')}{_age(event)}."


def _age(event: Event) -> str:
    """For how long expired offsets were not committed, beside how long they are kept."""
    age_ms, retention_ms = event.get("last_commit_age_ms"), event.get("retention_ms")
    if age_ms is None or retention_ms is None:
        return ""
    return f": last committed {duration(age_ms)} ago, kept for {duration(retention_ms)}"


def _mixed(event: Event) -> str:
    return (
        f"In generation {event.get('generation')} offsets were committed by consumers as well as in "
        f"transactions ({_who(event)}). The later commit overrides the earlier one; use one of the two."
    )


def _gone(event: Event) -> str:
    return f"The group was removed: {event.get('cause')}."


_SENTENCES: Final = {
    "rebalance_started": _started,
    "rebalance_completed": _completed,
    "group_emptied": _emptied,
    "group_epoch_bumped": _bumped,
    "assignor_failed": _without_target,
    "group_converted": _converted,
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


def _because(event: Event) -> str:
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
