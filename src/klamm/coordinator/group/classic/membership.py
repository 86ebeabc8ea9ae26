"""The members of a group in the classic protocol, its phase, and the requests that wait."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from klamm.coordinator.group.classic.phases import COMPLETING, DEAD, EMPTY, STABLE, Phase
from klamm.coordinator.group.classic.signals import JoinTimeUp, SyncTimeUp
from klamm.coordinator.group.membership import CLASSIC, OffsetExpiry
from klamm.coordinator.group.state import Group
from klamm.coordinator.runtime.fields import Fields
from klamm.coordinator.runtime.outcome import Reply
from klamm.coordinator.runtime.timers import Timer
from klamm.protocol.errors import NO_ERROR, ErrorCode
from klamm.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from klamm.protocol.messages.sync_group import SyncGroupResponse

CONSUMER: Final = "consumer"  # the only protocol type whose metadata the broker can read
NEW_MEMBER_TIMEOUT_MS: Final = 300_000  # a new member does not send heartbeats while its join is parked


class Member(Timer):
    """The state of one member, also before it joins with the id that it was given. Only notes change it.

    A member is the timer of its own session: a heartbeat that had to look for another object would take
    longer the more members there are, because they do not all fit into the processor's cache.
    """

    __slots__ = (
        "assignment", "client_host", "client_id", "group_id", "group_instance_id", "is_new", "member_id",
        "parked_at_ms", "parked_join", "parked_sync", "protocols", "rebalance_timeout_ms",
        "session_timeout_ms",
    )  # fmt: skip

    def __init__(self, group_id: str, member_id: str) -> None:
        self.signal = self.due_at_ms = self.renewed_at_ms = self.check_at_ms = None
        self.failures = 0
        self.group_id = group_id
        self.member_id = member_id
        self.session_timeout_ms = 0
        self.rebalance_timeout_ms = 0
        self.group_instance_id: str | None = None
        self.client_id = ""
        self.client_host = ""
        self.protocols: Sequence[JoinGroupRequestProtocol] = ()  # by preference; mostly shared by all members
        self.assignment = b""
        self.parked_join: object | None = None  # the token of a request that is not answered yet
        self.parked_sync: object | None = None
        self.parked_at_ms = 0  # since when one of these waits
        self.is_new = True  # until its first join phase ends

    @property
    def period_ms(self) -> int:
        return self.session_timeout_ms

    def metadata(self, protocol_name: str | None) -> bytes:
        """Its metadata for the leader in this protocol."""
        return metadata_of(self.protocols, protocol_name)


def metadata_of(protocols: Sequence[JoinGroupRequestProtocol], protocol_name: str | None) -> bytes:
    """What a member that offers this tells the leader in one of the protocols."""
    for offered in protocols:
        if offered.name == protocol_name:
            return offered.metadata
    return b""


def are_same(known: Sequence[JoinGroupRequestProtocol], offered: Sequence[JoinGroupRequestProtocol]) -> bool:
    """Whether two members offer the same, or one member offers what it did before."""
    return known is offered or list(known) == list(offered)


def rebalance_timeout_ms(request: JoinGroupRequest) -> int:
    """The oldest version has one timeout for both."""
    return request.rebalance_timeout_ms if request.has_rebalance_timeout else request.session_timeout_ms


class InitialDelay(NamedTuple):
    """The first join phase of a group is extended while members keep joining."""

    wait_ms: int  # of the current timer
    remaining_ms: int  # by which it may be extended
    is_for_ids: bool = False  # it waits only for the ids that were given out, and ends when all have joined


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    """Why a rebalance began, and which member caused it."""

    cause: str
    member_id: str = ""
    client_id: str = ""
    client_host: str = ""
    reason: str = ""  # as the client states it


def triggered_by(member: Member, cause: str, reason: str | None = None) -> Trigger:
    """A trigger that names a member."""
    return Trigger(
        cause=cause,
        member_id=member.member_id,
        client_id=member.client_id,
        client_host=member.client_host,
        reason=reason or "",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenRebalance:
    """The rebalance in progress."""

    trigger: Trigger
    generation_before: int
    started_at_ms: int
    joined_at_ms: int | None = None  # when the join phase ended
    dropped: tuple[str, ...] = ()  # members that did not rejoin


class ClassicMembership(Fields):
    """The members of one group as they are now, in the classic protocol. Only notes change it."""

    __slots__ = (
        "awaiting_join", "departure", "generation", "group_id", "has_new_member", "initial_delay",
        "join_timer", "leader_id", "members", "pending", "pending_sync", "phase", "phase_timestamp_ms",
        "protocol_name", "protocol_type", "rebalance", "static_members", "subscribed_topics", "supported",
        "sync_timer",
    )  # fmt: skip

    def __init__(self, group_id: str, phase: Phase = EMPTY) -> None:
        self.group_id = group_id
        self.phase = phase
        self.phase_timestamp_ms: int | None = None  # wall clock of the last transition; None: unknown
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.leader_id: str | None = None
        self.members: dict[str, Member] = {}
        self.static_members: dict[str, str] = {}  # instance id -> member id
        self.pending: dict[str, Member] = {}  # with an id that was given out and not used yet
        self.supported: dict[str, int] = {}  # protocol -> number of members that support it
        self.awaiting_join = 0
        self.pending_sync: dict[str, None] = {}  # an ordered set
        self.subscribed_topics: frozenset[str] | None = frozenset()  # None: unknown
        self.initial_delay: InitialDelay | None = None
        self.has_new_member = False  # extends the initial delay
        self.rebalance: OpenRebalance | None = None
        self.departure: Trigger | None = None  # how the last one of those that are gone went
        self.join_timer = Timer(JoinTimeUp(group_id))
        self.sync_timer = Timer(SyncTimeUp(group_id))

    def member_error(self, member_id: str, group_instance_id: str | None) -> ErrorCode:
        """Whether this is a member, and its instance id belongs to it."""
        if group_instance_id is not None:
            known_id = self.static_members.get(group_instance_id)
            if known_id is None:
                return ErrorCode.unknown_member_id
            if known_id != member_id:
                return ErrorCode.fenced_instance_id
        if member_id not in self.members:
            return ErrorCode.unknown_member_id
        return NO_ERROR

    # --- `group.membership.Membership` ---------------------------------------------------------------

    @property
    def group_type(self) -> str:
        return CLASSIC

    @property
    def state_name(self) -> str:
        return self.phase.value

    @property
    def member_count(self) -> int:
        return len(self.members)

    def offset_commit_error(
        self,
        generation: int,
        member_id: str,
        group_instance_id: str | None,
        *,
        is_transactional: bool,
        knows_epochs: bool = True,
    ) -> ErrorCode:
        """Checks in Kafka's order.

        A transaction may commit without naming a member (as clients older than KIP-447 do), and while the
        leader still computes the assignment.
        """
        phase = self.phase
        if phase is DEAD:
            return ErrorCode.coordinator_not_available
        if generation < 0:
            if phase is EMPTY:
                return NO_ERROR
            if not member_id and group_instance_id is None:
                return NO_ERROR if is_transactional else ErrorCode.unknown_member_id
        error_code = self.member_error(member_id, group_instance_id)
        if error_code is not NO_ERROR:
            return error_code
        if generation != self.generation:
            return ErrorCode.illegal_generation
        if phase is COMPLETING and not is_transactional:
            return ErrorCode.rebalance_in_progress
        return NO_ERROR

    def holds_since(self, member_id: str, epoch: int, topic_id: bytes, partition: int) -> bool:
        return False  # a generation has no partitions that stay

    def offset_fetch_error(self, member_id: str | None, epoch: int) -> ErrorCode:
        return NO_ERROR  # as in Kafka, whoever asks

    def session_of(self, member_id: str) -> Timer | None:
        return self.members.get(member_id)

    def offset_delete_error(self) -> ErrorCode:
        if self.phase is DEAD:
            return ErrorCode.group_id_not_found
        if self.phase is not EMPTY and self.protocol_type != CONSUMER:
            return ErrorCode.non_empty_group
        return NO_ERROR

    def is_subscribed_to(self, topic: str) -> bool:
        return self.subscribed_topics is None or topic in self.subscribed_topics

    def offset_expiry(self) -> OffsetExpiry | None:
        if self.phase is EMPTY:
            return OffsetExpiry(None if self.protocol_type is None else self.phase_timestamp_ms)
        if self.phase is STABLE and self.protocol_type == CONSUMER and self.subscribed_topics is not None:
            return OffsetExpiry(None, self.subscribed_topics)
        return None

    def group_delete_error(self) -> ErrorCode:
        if self.phase is DEAD:
            return ErrorCode.group_id_not_found
        return NO_ERROR if self.phase is EMPTY else ErrorCode.non_empty_group

    def timers(self) -> Iterable[Timer]:
        return self.pending.values()

    def unload(self, error_code: ErrorCode) -> Iterator[Reply]:
        for member in self.members.values():
            if member.parked_join is not None:
                join = JoinGroupResponse(error_code=error_code, member_id=member.member_id)
                yield member.parked_join, join
            if member.parked_sync is not None:
                yield member.parked_sync, SyncGroupResponse(error_code=error_code)


def classic_membership(group: Group | None) -> ClassicMembership | None:
    """The members of a group in the classic protocol; None if it has none, or has members in another one."""
    if group is None:
        return None
    membership = group.membership
    return membership if type(membership) is ClassicMembership else None
