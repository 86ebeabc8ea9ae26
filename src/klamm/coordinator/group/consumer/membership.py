"""The members of a group in the consumer protocol, as they are now: their sessions, and what is under way."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from klamm.coordinator.group.consumer.remembered import (
    LEFT_FOR_A_WHILE,
    ConsumerMemory,
    CurrentValue,
    MemberValue,
)
from klamm.coordinator.group.consumer.signals import (
    ComputeTarget,
    RejoinTimeUp,
    RevocationTimeUp,
    SyncMissed,
)
from klamm.coordinator.group.membership import OffsetExpiry
from klamm.coordinator.group.state import Group
from klamm.coordinator.runtime.fields import Fields
from klamm.coordinator.runtime.outcome import Reply
from klamm.coordinator.runtime.timers import Timer
from klamm.protocol.errors import NO_ERROR, ErrorCode

CONSUMER: Final = "consumer"  # the type of the group, and of its protocol


class MemberSession(Timer):
    """The session of one member, which is its own timer."""

    __slots__ = ("group_id", "member_id", "session_timeout_ms")

    def __init__(self, group_id: str, member_id: str, session_timeout_ms: int) -> None:
        super().__init__()
        self.group_id = group_id
        self.member_id = member_id
        self.session_timeout_ms = session_timeout_ms

    @property
    def period_ms(self) -> int:
        return self.session_timeout_ms

    def timers(self) -> tuple[Timer, ...]:
        """All that may run for this member."""
        return (self,)


class ConsumerSession(MemberSession):
    """The session of a member, and the time that it has to give up partitions."""

    __slots__ = ("revocation",)

    def __init__(self, group_id: str, member_id: str, session_timeout_ms: int) -> None:
        super().__init__(group_id, member_id, session_timeout_ms)
        self.revocation = Timer(RevocationTimeUp(group_id, member_id))

    def timers(self) -> tuple[Timer, ...]:
        return self, self.revocation


class ClassicMemberSession(MemberSession):
    """The session of a member that speaks the classic protocol, and the times that it has to join again, and
    to fetch its assignment."""

    __slots__ = ("rejoin", "sync")

    def __init__(self, group_id: str, member_id: str, session_timeout_ms: int) -> None:
        super().__init__(group_id, member_id, session_timeout_ms)
        self.rejoin = Timer(RejoinTimeUp(group_id, member_id))
        self.sync = Timer(SyncMissed(group_id, member_id))

    def timers(self) -> tuple[Timer, ...]:
        return self, self.rejoin, self.sync


class ConsumerGroupMembership(Fields):
    """The members of one group. What is logged of them is in `memory`, which notes never change."""

    __slots__ = (
        "assigned_at_ms", "checked_version", "computing", "computing_since_ms", "failed_at_ms",
        "failed_epoch", "group_id", "is_resolving", "memory", "not_before_ms", "resolved_at_ms",
        "resolved_version", "sessions", "waiting_since_ms",
    )  # fmt: skip

    def __init__(self, group_id: str, memory: ConsumerMemory) -> None:
        self.group_id = group_id
        self.memory = memory
        self.sessions: dict[str, MemberSession] = {}
        self.checked_version = -1  # of the topics, when their hash was compared last; -1: never
        self.assigned_at_ms: int | None = None  # when the target was computed, since the group was loaded
        self.computing: ComputeTarget | None = None  # its target is being computed outside the shard
        self.computing_since_ms = 0
        self.waiting_since_ms: int | None = None  # when the first of those in a row began that gave no target
        self.not_before_ms = 0  # when the next computation may begin
        self.failed_epoch = -1  # for which the last computation outside made no target
        self.failed_at_ms = 0
        self.is_resolving = False  # regular expressions are being matched
        self.resolved_at_ms: int | None = None
        self.resolved_version = -1

    # --- `group.membership.GroupMembership` ------------------------------------------------------------

    group_type: Final = CONSUMER
    protocol_type: Final = CONSUMER

    @property
    def state_name(self) -> str:
        memory = self.memory
        if not memory.members:
            return "Empty"
        if memory.epoch > memory.target_epoch:
            return "Assigning"
        return "Stable" if memory.settled == len(memory.members) else "Reconciling"

    @property
    def generation(self) -> int:
        return self.memory.epoch

    @property
    def member_count(self) -> int:
        return len(self.memory.members)

    def offset_commit_error(
        self,
        generation: int,
        member_id: str,
        group_instance_id: str | None,
        *,
        is_transactional: bool,
        knows_epochs: bool = True,
    ) -> ErrorCode:
        """Checks in Kafka's order. A stale epoch may still commit what it holds since then."""
        memory = self.memory
        if generation < 0:
            if not memory.members:
                return NO_ERROR
            if is_transactional and not member_id and group_instance_id is None:
                return NO_ERROR
        member, current = memory.members.get(member_id), memory.current.get(member_id)
        if member is None:
            return ErrorCode.unknown_member_id
        epoch = 0 if current is None else current.epoch
        if member.classic is None and not (knows_epochs or is_transactional):
            return ErrorCode.unsupported_version
        return NO_ERROR if generation == epoch else _stale(member)

    def holds_since(self, member_id: str, epoch: int, topic_id: bytes, partition: int) -> bool:
        current = self.memory.current.get(member_id)
        if current is None or not 0 <= epoch < max(current.epoch, 0):
            return False
        return any(
            held.get(topic_id, {}).get(partition, epoch + 1) <= epoch
            for held in (current.assigned, current.pending)
        )

    def offset_fetch_error(self, member_id: str | None, epoch: int) -> ErrorCode:
        if member_id is None and epoch < 0:
            return NO_ERROR
        current = self.memory.current.get(member_id or "")
        if current is None:
            return ErrorCode.unknown_member_id
        return NO_ERROR if epoch == current.epoch else _stale(self.memory.members[member_id or ""])

    def session_of(self, member_id: str) -> Timer | None:
        return None  # a commit is no heartbeat

    def offset_delete_error(self) -> ErrorCode:
        return NO_ERROR

    @property
    def subscribed_topics(self) -> frozenset[str] | None:
        return frozenset(self.memory.subscribed())

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.memory.readers or topic in self.memory.subscribed()

    def offset_expiry(self) -> OffsetExpiry | None:
        memory = self.memory
        emptied_ms = None if memory.members else memory.target_ms
        return OffsetExpiry(emptied_ms, frozenset(memory.subscribed()), counts_commits=True)

    def group_delete_error(self) -> ErrorCode:
        return ErrorCode.non_empty_group if self.memory.members else NO_ERROR

    def timers(self) -> Iterable[Timer]:
        return ()

    def unload(self, error_code: ErrorCode) -> Iterable[Reply]:
        return ()


def consumer_membership(group: Group | None) -> ConsumerGroupMembership | None:
    """The members of a group in the consumer protocol; None if it has none, or has members in another one."""
    if group is None:
        return None
    membership = group.membership
    return membership if type(membership) is ConsumerGroupMembership else None


def _stale(member: MemberValue) -> ErrorCode:
    """What a member hears whose epoch is another one."""
    return ErrorCode.stale_member_epoch if member.classic is None else ErrorCode.illegal_generation


def is_away(current: CurrentValue | None) -> bool:
    """Whether a static member has left, and will come back."""
    return current is not None and current.epoch == LEFT_FOR_A_WHILE
