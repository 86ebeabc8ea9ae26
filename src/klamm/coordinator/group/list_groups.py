"""ListGroups: the groups of a shard. Version 4 filters by state, 5 by type."""

from __future__ import annotations

from typing import Final

from klamm.coordinator.group.classic.phases import Phase
from klamm.coordinator.group.draft import GroupOutcome, reply
from klamm.coordinator.group.state import GroupState
from klamm.coordinator.runtime.outcome import Context
from klamm.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

GROUP_TYPE: Final = "classic"
_BLANKS: Final = "".join(map(chr, range(0x21)))  # what Java trims


def list_groups(state: GroupState, request: ListGroupsRequest, context: Context) -> GroupOutcome:
    """Every group that the filters let through; a word that means nothing matches nothing.

    Kafka overlooks blanks about a state, and none about a type.
    """
    states = {word.strip(_BLANKS).lower() for word in request.states_filter}
    types = {word.lower() for word in request.types_filter}
    if types and GROUP_TYPE not in types:
        return reply(context, ListGroupsResponse())
    phases = {phase for phase in Phase if not states or phase.value.lower() in states}
    listed = [
        ListedGroup(
            group_id=group.group_id,
            protocol_type=group.live.protocol_type or "",
            group_state=group.live.phase.value,
            group_type=GROUP_TYPE,
        )
        for group in state.groups.values()
        if group.live.phase in phases
    ]
    return reply(context, ListGroupsResponse(groups=listed))
