"""What a restart forgets of a group: its phase, who is in it now, who waits for what."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from klamm.coordinator.group.classic.phases import Phase
from klamm.coordinator.group.signals import JoinTimeUp, SyncTimeUp
from klamm.coordinator.runtime.timers import Timer

NEW_MEMBER_TIMEOUT_MS: Final = 300_000  # a new member that waits is not asked to heartbeat


class JoinProtocol(NamedTuple):
    """One assignor that a member offers, with what it tells the leader."""

    name: str
    metadata: bytes


class Parked(NamedTuple):
    """A request that waits for its answer."""

    token: object


@dataclass(slots=True, kw_only=True)
class Member(Timer):
    """One member as the coordinator knows it now. Only notes change it.

    A member is the timer of its own session: a heartbeat that had to look for another object would take
    longer the more members there are, for they do not all fit into the processor's cache.
    """

    session_timeout_ms: int
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    protocols: tuple[JoinProtocol, ...]  # in order of preference
    assignment: bytes = b""
    parked_join: Parked | None = None
    parked_sync: Parked | None = None
    is_new: bool = True  # until its first join phase is over

    @property
    def period_ms(self) -> int:
        return self.session_timeout_ms

    def metadata(self, protocol_name: str | None) -> bytes:
        """What it tells the leader in this protocol."""
        for name, metadata in self.protocols:
            if name == protocol_name:
                return metadata
        return b""


class InitialDelay(NamedTuple):
    """A group that begins waits a little longer while members keep coming."""

    wait_ms: int  # of the timer that runs now
    remaining_ms: int  # may still be waited after it


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    """Why a rebalance began, and who caused it."""

    cause: str
    member_id: str = ""
    client_id: str = ""
    client_host: str = ""
    reason: str = ""  # in the client's own words


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebalance:
    """The rebalance that goes on."""

    trigger: Trigger
    generation_before: int
    started_at_ms: int
    joined_at_ms: int | None = None  # when the join phase was over
    dropped: tuple[str, ...] = ()  # members that did not come back


@dataclass(slots=True)
class Live:
    """One group as it is now. Only notes change it."""

    group_id: str
    phase: Phase = Phase.EMPTY
    phase_timestamp_ms: int | None = None  # wall clock of the last move; None: unknown
    generation: int = 0
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader_id: str | None = None
    members: dict[str, Member] = field(default_factory=dict)
    static_members: dict[str, str] = field(default_factory=dict)  # instance id -> member id
    pending: dict[str, Timer] = field(default_factory=dict)  # ids handed out, not yet used
    supported: dict[str, int] = field(default_factory=dict)  # protocol -> how many members offer it
    awaiting_join: int = 0
    pending_sync: dict[str, None] = field(default_factory=dict)  # a set in order
    subscribed_topics: frozenset[str] | None = frozenset()  # None: cannot be told
    initial_delay: InitialDelay | None = None
    has_new_member: bool = False  # prolongs the initial delay
    rebalance: Rebalance | None = None
    join_timer: Timer = field(init=False)
    sync_timer: Timer = field(init=False)

    def __post_init__(self) -> None:
        self.join_timer = Timer(JoinTimeUp(self.group_id))
        self.sync_timer = Timer(SyncTimeUp(self.group_id))
