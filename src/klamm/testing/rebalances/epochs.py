"""A scripted group whose members use the consumer protocol: when it is at rest, and what each target was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from klamm.assignors.server import GroupAssignor, load_group_assignors
from klamm.coordinator.group.consumer.assigning import preferred_assignor
from klamm.coordinator.group.consumer.membership import ConsumerGroupMembership
from klamm.coordinator.group.events import GroupEpochBumped
from klamm.coordinator.runtime.events import Event
from klamm.groups.causes import why
from klamm.protocol.types import TopicPartition

if TYPE_CHECKING:
    from klamm.coordinator.group.state import GroupState
    from klamm.testing.rebalances.history import History
    from klamm.testing.rebalances.member import ScriptedMember


def group_assignors(assignor: object) -> Mapping[str, GroupAssignor]:
    """What the coordinator offers: klamm's own, and the one of the script."""
    offered = load_group_assignors("uniform,range,rack,rack-leader")
    if isinstance(assignor, GroupAssignor):
        return {assignor.name: assignor, **offered}
    if isinstance(assignor, str) and ":" in assignor:
        return {**load_group_assignors(assignor), **offered}
    return offered


def assignor_name(assignor: object) -> str | None:
    """What members ask for: `group.remote.assignor`."""
    if assignor is None:
        return None
    if isinstance(assignor, GroupAssignor):
        return assignor.name
    if isinstance(assignor, str):
        return next(iter(load_group_assignors(assignor)))
    raise TypeError(
        f"assignor={assignor!r}: with protocol='consumer' the coordinator assigns: expected the name of one "
        f"of its assignors, 'package.module:Class', or a klamm.assignors.server.GroupAssignor"
    )


class Targets:
    """Notes each new target in the history, with the cause of the last bump of the epoch."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._epoch = 0
        self._cause = ""

    def happened(self, event: Event) -> None:
        if isinstance(event, GroupEpochBumped):
            self._cause = why({"cause": event.cause, "reason": event.reason})

    def look(self, at_ms: int, live: ConsumerGroupMembership, state: GroupState) -> None:
        """After anything that may have changed the group."""
        memory = live.memory
        if memory.target_epoch == self._epoch or not memory.members or state.topics is None:
            return
        self._epoch = memory.target_epoch
        assignment = {
            member.client_id: tuple(
                sorted(
                    TopicPartition(known.name, number)
                    for topic_id, numbers in memory.targets.get(member_id, {}).items()
                    if (known := state.topics.by_id(topic_id)) is not None
                    for number in numbers
                )
            )
            for member_id, member in memory.members.items()
        }
        assignor = preferred_assignor(state, memory.members).name
        self._history.retargeted(at_ms, self._epoch, self._cause, assignor, assignment)


def is_stable(live: ConsumerGroupMembership, running: Sequence[ScriptedMember], version: int) -> bool:
    """Whether nothing will happen to the group before the next step of the script."""
    if live.computing is not None or live.is_resolving:
        return False
    if {each.member_id for each in running} != live.memory.members.keys():
        return False
    if not running:
        return True
    are_topics_known = live.checked_version == version and (
        not live.memory.regex_users or live.resolved_version == version
    )
    return (
        are_topics_known
        and live.state_name == "Stable"
        and all(each.is_settled(live.memory.epoch) for each in running)
    )
