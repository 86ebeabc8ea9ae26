"""Rules about members: nobody reads, a rebalance that does not end, partitions without an owner."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from klamm.groups.causes import why
from klamm.groups.diagnosis.finding import Evidence, Finding, GroupVerdict, exact, inferred
from klamm.groups.diagnosis.words import MAX_NAMED, count, duration, listed
from klamm.groups.snapshot import GroupSnapshot, MemberSnapshot, PartitionSnapshot

_RECENT_MS: Final = 60_000
_SILENT_MS: Final = 10_000  # heartbeats come every 3 s


def behind(group: GroupSnapshot) -> list[PartitionSnapshot]:
    """Partitions with records that the group has not read, or may not have read."""
    return [
        each for each in group.partitions if each.row.lag or (each.row.lag is None and each.row.lag_limit)
    ]


def unread(group: GroupSnapshot) -> str:
    """How many records are not read."""
    lags = [each.row.lag for each in group.partitions if each.row.lag is not None]
    limits = [each.row.lag_limit for each in group.partitions if each.row.lag is None]
    unknown = [limit for limit in limits if limit]
    age_ms = unread_for_ms(group)
    oldest = "" if age_ms is None else f", the oldest for {duration(age_ms)}"
    found = f"{count(sum(lags), 'record')} not read{oldest}"
    if not unknown:
        return found
    more = f"{count(sum(unknown), 'record')} on {count(len(unknown), 'partition')} whose lag is not known"
    return f"{found}, and up to {more}" if sum(lags) else f"up to {more}"


def unread_for_ms(group: GroupSnapshot) -> int | None:
    """The age of the oldest record that is not read; None if it is not known, or there is none."""
    found = [each.unread_since_ms for each in group.partitions if each.unread_since_ms is not None]
    return max(0, group.taken_at_ms - min(found)) if found else None


def nobody_reads(group: GroupSnapshot) -> Finding | None:
    """No members, and records to read. Not a program that commits without joining, as Spark does."""
    if not group.is_empty or not behind(group) or _makes_progress(group):
        return None
    waiting = unread(group)
    evidence = [exact(f"the group is {group.state} and has no members"), exact(waiting)]
    left = _last_departure(group)
    if left is not None:
        evidence.append(left)
    elif group.empty_since_ms is not None:
        evidence.append(
            exact(f"the last member left {duration(group.taken_at_ms - group.empty_since_ms)} ago")
        )
    if group.has_history:
        evidence.append(exact(_last_progress(group)))
    steps = [
        "Start its consumers.",
        f"`klamm groups explain {group.group_id}` tells how the last member went."
        if group.events is not None
        else f"`klamm groups describe {group.group_id}` has what is not read, by partition.",
    ]
    outside = [each.row.partition for each in group.partitions if each.row.is_out_of_range]
    if outside:
        steps.insert(
            0,
            f"Decide first where it goes on in {listed(outside)}, or auto.offset.reset does: `klamm offsets "
            f"reset {group.group_id} --topic {outside[0].topic}:{outside[0].partition} --to-earliest "
            "--execute`.",
        )
    return Finding(GroupVerdict.NOBODY_READS, f"No member reads, and {waiting}.", evidence, steps)


def _last_progress(group: GroupSnapshot) -> str:
    moved = [
        commit.timestamp_ms
        for each in group.partitions
        for before, commit in pairwise(each.commits)
        if commit.offset != before.offset
    ]
    if moved:
        return f"the last progress was committed {duration(group.taken_at_ms - max(moved))} ago"
    commits = [each.commits[-1].timestamp_ms for each in group.partitions if each.commits]
    if commits:  # whether that was progress is not known
        return f"the offsets were last committed {duration(group.taken_at_ms - max(commits))} ago"
    return f"nothing was committed in the last {duration(group.window_ms)}"


def _makes_progress(group: GroupSnapshot) -> bool:
    for each in group.partitions:
        if len({commit.offset for commit in each.commits}) > 1:
            last_ms = each.commits[-1].timestamp_ms
            if not group.protocol_type:
                return True  # it never had members
            if group.empty_since_ms is not None:
                return last_ms > group.empty_since_ms
            return group.taken_at_ms - last_ms < _RECENT_MS
        if not group.has_history and each.committed_at_ms is not None:
            # One commit is all that is known. While it is fresh, it counts.
            is_after = group.empty_since_ms is None or each.committed_at_ms > group.empty_since_ms
            if is_after and group.taken_at_ms - each.committed_at_ms < _RECENT_MS:
                return True
    return False


def _last_departure(group: GroupSnapshot) -> Evidence | None:
    emptied = [each for each in group.events or () if each.get("type") == "group_emptied"]
    if not emptied:
        return None
    last = emptied[-1]
    ago = duration(group.taken_at_ms - int(last["timestamp_ms"]))
    return exact(f"the last member went {ago} ago: {why(last)}")


def rebalancing(group: GroupSnapshot) -> Finding | None:
    """A rebalance is under way: since when, and for whom it waits."""
    if not group.is_rebalancing:
        return None
    if any(member.gives_up for member in group.members):
        return _giving_up(group)
    rebalance = group.rebalance
    since = (
        "" if rebalance is None or rebalance.started_ms is None else f" for {duration(rebalance.started_ms)}"
    )
    is_joining = group.state == "PreparingRebalance"
    late = [each for each in group.members if (each.has_joined if is_joining else each.has_synced) is False]
    evidence = [exact(f"the group is {group.state}{since}")]
    if rebalance is not None and rebalance.cause:
        evidence.append(exact(f"it began because {rebalance.cause}"))
    evidence += [exact(_about(each)) for each in late]
    if rebalance is not None and rebalance.left_ms is not None:
        evidence.append(exact(f"members that are late are removed in {duration(rebalance.left_ms)}"))
    if late:
        names = listed(_name(each) for each in late)
        what = "join again" if is_joining else "fetch their assignments"
        if not is_joining and rebalance is not None and rebalance.leader_id in {m.member_id for m in late}:
            what = "send the assignment: the leader"
        waits = f" and waits for {names} to {what}"
    elif any(each.has_joined is None and each.has_synced is None for each in group.members):
        waits = "; this cluster does not tell for whom it waits"
    else:
        waits = " and waits for more members" if is_joining else ""
    steps = ["A member joins again in its next poll(): see what it does between two polls."]
    steps += [
        f"`klamm groups remove-member {group.group_id} --member {each.member_id}` goes on without it."
        for each in late[:1]
    ]
    if not late and group.members:
        steps.append(f"`klamm groups members {group.group_id}` has its members: see their logs.")
    return Finding(
        GroupVerdict.REBALANCING, f"A rebalance has been under way{since}{waits}.", evidence, steps
    )


def _giving_up(group: GroupSnapshot) -> Finding:
    """In a consumer group others wait only for partitions that somebody still has."""
    late = [member for member in group.members if member.gives_up]
    waits = "; ".join(f"{_name(each)} to give up {listed(each.gives_up)}" for each in late[:MAX_NAMED])
    evidence = [exact(f"the group is {group.state}")]
    for each in late:
        left = "" if each.give_up_left_ms is None else f"; it is removed in {duration(each.give_up_left_ms)}"
        evidence.append(exact(f"{each.member_id} still has {listed(each.gives_up)}{left}"))
        if each.silent_ms is not None:
            evidence.append(exact(_about(each)))
    return Finding(
        GroupVerdict.REBALANCING,
        f"A rebalance has been under way and waits for {waits}. The others go on with what they have.",
        evidence,
        (
            "A member gives partitions up in its next poll(): see what it does between two polls.",
            f"`klamm groups inspect {group.group_id}` shows what each member has, gives up and gets.",
        )
        if group.events is not None
        else ("A member gives partitions up in its next poll(): see what it does between two polls.",),
    )


def _name(member: MemberSnapshot) -> str:
    return f"{member.client_id} at {member.client_host.lstrip('/')}"


def _about(member: MemberSnapshot) -> str:
    """What is known of a member that is waited for."""
    text = f"{member.member_id} at {member.client_host.lstrip('/')}"
    if member.silent_ms is None:
        return f"{text} is waited for"
    if member.silent_ms < _SILENT_MS:
        ago = duration(member.silent_ms)
        return f"{text} is busy: it sends heartbeats (the last {ago} ago) and does not poll"
    left = ""
    if member.session_timeout_ms is not None:
        left = f"; its session ends in {duration(max(0, member.session_timeout_ms - member.silent_ms))}"
    return f"{text} has been silent for {duration(member.silent_ms)}: it died or hangs{left}"


def without_owner(group: GroupSnapshot) -> Finding | None:
    """Partitions of subscribed topics that no member has: the topic has grown, or they were left out."""
    if not group.members or group.is_rebalancing or not group.are_owners_known:
        return None
    orphans = [each for each in group.partitions if each.is_subscribed and each.row.owner is None]
    if not orphans:
        return None
    return Finding(
        GroupVerdict.NO_OWNER,
        f"{count(len(orphans), 'partition')} of subscribed topics {'has' if len(orphans) == 1 else 'have'} "
        f"no owner: {listed(each.row.partition for each in orphans)}.",
        list(_about_orphans(orphans)),
        (
            "The group's leader notices new partitions after metadata.max.age.ms (5 min by default), and "
            "begins a rebalance.",
            "Restart one member to begin it now.",
        ),
    )


def _about_orphans(orphans: list[PartitionSnapshot]) -> Iterator[Evidence]:
    waiting = [each.row.lag_limit for each in orphans if each.row.lag_limit]
    if waiting:
        yield exact(f"they have {count(sum(waiting), 'record')} that may not be read")
    fresh = [each for each in orphans if each.row.committed is None]
    if len(fresh) == len(orphans):
        yield inferred("the topic has grown: the group has never committed in them")
    elif fresh:
        yield inferred(f"the group has never committed in {listed(each.row.partition for each in fresh)}")
