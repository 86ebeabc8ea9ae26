"""Running an assignor, and checking what it returns: a target, or the reason why there is none.

A coordinator decides, it does not wait. So it takes a GroupSpec at a group epoch, lets `compute_target` run
at once if `is_quick`, else in a thread, and takes the outcome back as a signal:

- a CheckedTarget for the current group epoch becomes the new target; one for an older epoch, too, if members
  have waited long for it, and otherwise another is computed;
- an AssignorFailure leaves the last target in force, and its reason goes into the group's events;
- no outcome within the time limit is the failure `overdue` describes; what arrives later is dropped.

Nothing here knows of a clock, a thread or a coordinator.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from klamm.assignors.server.model import GroupAssignor, GroupSpec

# Member id -> topic id -> partitions, sorted and not empty; every member has an entry.
CheckedTarget: TypeAlias = dict[str, dict[bytes, tuple[int, ...]]]

# Members and partitions: uniform takes a millisecond for them. It is computed for each of many that join at
# once; a larger group, computed beside the event loop, gets one target for all that joined meanwhile.
QUICK_SIZE: Final = 500
MOST_NAMED: Final = 3  # how many partitions or members a reason lists


@dataclass(frozen=True, slots=True)
class AssignorFailure:
    """Why an assignor produced no target: a sentence for the log and the group's events."""

    reason: str


def compute_target(assignor: GroupAssignor, group: GroupSpec) -> CheckedTarget | AssignorFailure:
    """What the members should own. Never raises."""
    try:
        return check_target(assignor.name, group, assignor.assign(group))
    except Exception as error:  # code of the user: whatever it raises is a reason
        return AssignorFailure(f"assignor {assignor.name} raised {type(error).__name__}: {error}")


def overdue(assignor_name: str, limit_ms: int) -> AssignorFailure:
    """The failure of an assignor that did not return in time."""
    return AssignorFailure(f"assignor {assignor_name} did not return within {limit_ms} ms")


def is_quick(assignor: GroupAssignor, group: GroupSpec) -> bool:
    """Whether an assignor may run on the event loop."""
    if not assignor.takes_bounded_time:
        return False
    size = len(group.members) + sum(topic.partition_count for topic in group.topics.values())
    return size <= QUICK_SIZE


def check_target(name: str, group: GroupSpec, found: object) -> CheckedTarget | AssignorFailure:
    """The target in the form the coordinator keeps, or what is wrong with it."""
    if not isinstance(found, Mapping):
        return _failure(name, f"returned {type(found).__name__} in place of a mapping of member ids")
    strangers = found.keys() - group.members.keys()
    if strangers:
        return _failure(name, f"assigned partitions to {_named(strangers)}, not members of the group")
    owners = {topic_id: bytearray(topic.partition_count) for topic_id, topic in group.topics.items()}
    target: CheckedTarget = {}
    for member_id in group.members:
        share = found.get(member_id, {})
        fault = _fault(group, member_id, share, owners)
        if fault is not None:
            return _failure(name, fault)
        target[member_id] = {
            topic_id: tuple(sorted(partitions)) for topic_id, partitions in share.items() if partitions
        }
    return target


def _fault(group: GroupSpec, member_id: str, share: object, owners: dict[bytes, bytearray]) -> str | None:
    """What is wrong with the share of one member; `owners` notes what has been given away."""
    if not isinstance(share, Mapping):
        return f"gave {member_id} {type(share).__name__} in place of a mapping of topic ids"
    subscribed = group.members[member_id].topics
    for topic_id, partitions in share.items():
        topic = group.topics.get(topic_id)
        if topic is None:
            return f"gave {member_id} partitions of the unknown topic id {topic_id!r}"
        if topic_id not in subscribed:
            return f"gave {member_id} partitions of {topic.name}, which it does not subscribe to"
        if not isinstance(partitions, Collection):
            return f"gave {member_id} {type(partitions).__name__} in place of the partitions of {topic.name}"
        given = owners[topic_id]
        for partition in partitions:
            if type(partition) is not int or not 0 <= partition < topic.partition_count:
                return f"gave {member_id} {topic.name}-{partition}, which does not exist"
            if given[partition]:
                return f"gave {topic.name}-{partition} away twice, the second time to {member_id}"
            given[partition] = 1
    return None


def _failure(name: str, fault: str) -> AssignorFailure:
    return AssignorFailure(f"assignor {name} {fault}")


def _named(names: set[object]) -> str:
    listed = sorted(str(each) for each in names)
    rest = len(listed) - MOST_NAMED
    return ", ".join(listed[:MOST_NAMED]) + (f" and {rest} more" if rest > 0 else "")
