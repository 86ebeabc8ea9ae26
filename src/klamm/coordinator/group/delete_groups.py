"""DeleteGroups: forget a group that has no members, with its offsets."""

from __future__ import annotations

from functools import partial

from klamm.coordinator.group.classic.notes import GroupDropped
from klamm.coordinator.group.classic.phases import Phase
from klamm.coordinator.group.draft import GroupOutcome, reply
from klamm.coordinator.group.events import Cause, GroupRemoved
from klamm.coordinator.group.offsets.tombstones import forget_all
from klamm.coordinator.group.signals import DeletionRefused
from klamm.coordinator.group.state import GroupState
from klamm.coordinator.runtime.outcome import Context, Outcome
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)


def delete_groups(state: GroupState, request: DeleteGroupsRequest, context: Context) -> GroupOutcome:
    """Delete the one group of the request. Ids handed out and open transactions do not hold it."""
    (group_id,) = request.groups_names
    group = state.groups.get(group_id)
    if group is None or group.live.phase is Phase.DEAD:
        return reply(context, _result(group_id, ErrorCode.group_id_not_found))
    if group.live.phase is not Phase.EMPTY:
        return reply(context, _result(group_id, ErrorCode.non_empty_group))
    response = _result(group_id, ErrorCode.none)
    return Outcome(
        records=forget_all(group_id, group.memory),
        notes=(GroupDropped(group_id),),
        timers=[(timer, None) for timer in group.live.pending.values()],
        events=(
            GroupRemoved(
                group_id=group_id,
                timestamp_ms=context.timestamp_ms,
                cause=Cause.GROUP_DELETED,
                client_id=context.client_id,
                client_host=context.client_host,
                generation=group.live.generation,
            ),
        ),
        replies=((context.token, response),),
        if_refused=partial(DeletionRefused, response),
        is_divisible=True,
    )


def _result(group_id: str, error_code: ErrorCode) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(results=[DeletableGroupResult(group_id, error_code)])
