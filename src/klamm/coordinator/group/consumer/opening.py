"""The group of a member that joins: in the consumer protocol already, new, or kept for its offsets."""

from __future__ import annotations

from klamm.coordinator.group.classic.membership import classic_membership
from klamm.coordinator.group.consumer.draft import ConsumerDraft
from klamm.coordinator.group.consumer.membership import consumer_membership
from klamm.coordinator.group.consumer.notes import ConsumerGroupOpened
from klamm.coordinator.group.consumer.remembered import ConsumerMemory
from klamm.coordinator.group.consumer.validation import refused_heartbeat
from klamm.coordinator.group.mixed.upgrade import UpgradeRefusedError, upgraded
from klamm.coordinator.group.remembered import GroupForgotten
from klamm.coordinator.group.state import Group, GroupState
from klamm.coordinator.runtime.outcome import Context
from klamm.protocol.errors import NO_ERROR, ErrorCode
from klamm.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)


def opened(
    state: GroupState, request: ConsumerGroupHeartbeatRequest, context: Context
) -> ConsumerDraft | ConsumerGroupHeartbeatResponse:
    """A draft about the group of the request, which may change its protocol."""
    group_id = request.group_id
    group = state.groups.get(group_id)
    live = consumer_membership(group)
    if live is not None:
        return ConsumerDraft(state, group_id, context, live.memory, live)
    draft = ConsumerDraft(state, group_id, context, ConsumerMemory(), None)
    if group is not None:
        if group.membership.group_delete_error() is not NO_ERROR:
            return _upgraded(state, group, context, request.member_id)
        draft.timers += [(timer, None) for timer in group.membership.timers()]
        if group.memory.registration is not None:
            draft.records.append(GroupForgotten(group_id))
    draft.notes.append(ConsumerGroupOpened(group_id))
    return draft


def _upgraded(
    state: GroupState, group: Group, context: Context, newcomer_id: str
) -> ConsumerDraft | ConsumerGroupHeartbeatResponse:
    """The group with the members that it has, if the policy and what they use allow it."""
    classic = classic_membership(group)
    if classic is None or not classic.members:
        message = f"Group {group.group_id} is not a consumer group."
        return refused_heartbeat(ErrorCode.group_id_not_found, message)
    registration = group.memory.registration
    if registration is not None and registration.is_way_back:
        # What its members have is known again when they have joined; a client retries after this error.
        message = f"Group {group.group_id} goes back to the classic protocol: its members have to join first."
        return refused_heartbeat(ErrorCode.coordinator_load_in_progress, message)
    try:
        return upgraded(state, group, classic, context, newcomer_id)
    except UpgradeRefusedError as refused:
        return refused_heartbeat(ErrorCode.group_id_not_found, str(refused))
