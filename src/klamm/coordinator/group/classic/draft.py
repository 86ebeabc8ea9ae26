"""Collects the outcome of a decision about one group."""

from __future__ import annotations

from collections.abc import Sequence

from klamm.coordinator.group.classic.membership import ClassicMembership, Member, triggered_by
from klamm.coordinator.group.classic.notes import MembersRemoved
from klamm.coordinator.group.events import GroupEvent, GroupEventCause, MemberRemoved
from klamm.coordinator.group.notes import Note
from klamm.coordinator.group.outcomes import GroupOutcome
from klamm.coordinator.group.state import GroupState
from klamm.coordinator.runtime.outcome import Context, Outcome, Reply
from klamm.coordinator.runtime.timers import TimerChange
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.join_group import JoinGroupResponse
from klamm.protocol.messages.sync_group import SyncGroupResponse


class Draft(Outcome):
    """An outcome that a decision fills step by step."""

    __slots__ = ("context", "group_id", "state")

    notes: list[Note]
    timers: list[TimerChange]
    events: list[GroupEvent]
    replies: list[Reply]
    then: list[object]

    def __init__(self, state: GroupState, group_id: str, context: Context) -> None:
        super().__init__([], None, None, [], [], [], (), (), [])
        self.state = state
        self.group_id = group_id
        self.context = context

    def answer(self, response: object, token: object = None) -> None:
        """Answer the current request, or the one of a token."""
        self.replies.append((self.context.token if token is None else token, response))

    def arm(self, member: Member, after_ms: int | None = None) -> None:
        """Restart a member's session timeout."""
        period_ms = member.session_timeout_ms if after_ms is None else after_ms
        self.timers.append((member, self.context.now_ms + period_ms))

    def remove(
        self, live: ClassicMembership, members: Sequence[Member], cause: GroupEventCause, reason: str = ""
    ) -> None:
        """Remove members: answer their parked requests, and report why."""
        departure = triggered_by(members[-1], cause, reason)
        self.notes.append(
            MembersRemoved(self.group_id, tuple([each.member_id for each in members]), departure)
        )
        for member in members:
            self.timers.append((member, None))
            if member.parked_join is not None:
                self.answer(JoinGroupResponse(error_code=ErrorCode.unknown_member_id), member.parked_join)
            if member.parked_sync is not None:
                self.answer(SyncGroupResponse(error_code=ErrorCode.unknown_member_id), member.parked_sync)
            self.events.append(
                MemberRemoved(
                    group_id=self.group_id,
                    timestamp_ms=self.context.timestamp_ms,
                    cause=cause,
                    member_id=member.member_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    reason=reason,
                    group_instance_id=member.group_instance_id,
                    generation=live.generation,
                )
            )

    def outcome(self) -> GroupOutcome:
        """The outcome. Its replies depend on the durability of the group's registration alone."""
        group = self.state.groups.get(self.group_id)
        self.seen_offset = None if group is None else group.memory.registered_until
        return self
