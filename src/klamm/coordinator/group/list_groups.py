"""ListGroups: the groups of a shard. Version 4 filters by state, 5 by type."""

from __future__ import annotations

from typing import Final

from klamm.coordinator.group.outcomes import GroupOutcome, reply
from klamm.coordinator.group.state import GroupState
from klamm.coordinator.runtime.outcome import Context
from klamm.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

_BLANKS: Final = "".join(map(chr, range(0x21)))  # what Java trims


def list_groups(state: GroupState, request: ListGroupsRequest, context: Context) -> GroupOutcome:
    """Every group that the filters let through; an unknown state or type matches nothing.

    As in Kafka, blanks around a state are ignored, and blanks around a type are not.
    """
    states = {word.strip(_BLANKS).lower() for word in request.states_filter}
    types = {word.lower() for word in request.types_filter}
    listed = [
        ListedGroup(
            group_id=group_id,
            protocol_type=membership.protocol_type or "",
            group_state=membership.state_name,
            group_type=membership.group_type,
        )
        for group_id, membership in [(group.group_id, group.membership) for group in state.groups.values()]
        if (not types or membership.group_type in types)
        and (not states or membership.state_name.lower() in states)
    ]
    return reply(context, ListGroupsResponse(groups=listed))
