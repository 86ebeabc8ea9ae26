"""DeleteGroups: remove a group without members, with its offsets."""

from __future__ import annotations

from functools import partial

from klamm.coordinator.group.events import GroupEventCause, GroupRemoved
from klamm.coordinator.group.notes import GroupDropped
from klamm.coordinator.group.offsets.signals import DeletionRefused
from klamm.coordinator.group.offsets.tombstones import forget_all
from klamm.coordinator.group.outcomes import GroupOutcome, reply
from klamm.coordinator.group.state import GroupState
from klamm.coordinator.runtime.outcome import Context, Outcome
from klamm.protocol.errors import NO_ERROR, ErrorCode
from klamm.protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)


def delete_groups(state: GroupState, request: DeleteGroupsRequest, context: Context) -> GroupOutcome:
    """Delete the one group of the request. Unused member ids and open transactions do not prevent it."""
    (group_id,) = request.groups_names
    group = state.groups.get(group_id)
    if group is None:
        return reply(context, _result(group_id, ErrorCode.group_id_not_found))
    membership = group.membership
    error_code = membership.group_delete_error()
    response = _result(group_id, error_code)
    if error_code is not NO_ERROR:
        return reply(context, response)
    return Outcome(
        records=forget_all(group_id, group.memory),
        notes=(GroupDropped(group_id),),
        timers=[(timer, None) for timer in membership.timers()],
        events=(
            GroupRemoved(
                group_id=group_id,
                timestamp_ms=context.timestamp_ms,
                cause=GroupEventCause.GROUP_DELETED,
                client_id=context.client_id,
                client_host=context.client_host,
                generation=membership.generation,
            ),
        ),
        replies=((context.token, response),),
        if_refused=partial(DeletionRefused, response),
        is_divisible=True,
    )


def _result(group_id: str, error_code: ErrorCode) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(results=[DeletableGroupResult(group_id, error_code)])
