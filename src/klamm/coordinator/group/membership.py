"""The interface of a group's members for offsets and the admin APIs, whatever protocol they use.

Each group protocol has one implementation; a group that has only offsets has `NOBODY`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple, Protocol

from klamm.coordinator.runtime.outcome import Reply
from klamm.coordinator.runtime.timers import Timer
from klamm.protocol.errors import NO_ERROR, ErrorCode

CLASSIC: Final = "classic"  # the group type of ListGroups; groups without members have it too


class OffsetExpiry(NamedTuple):
    """Which offsets of a group may expire."""

    since_timestamp_ms: int | None  # when the retention time began; None: with each offset's commit
    kept_topics: frozenset[str] = frozenset()  # still read, so their offsets stay
    counts_commits: bool = False  # a later commit begins the retention time again


class Membership(Protocol):
    """The members of one group. Only notes change it."""

    @property
    def group_type(self) -> str:
        """As ListGroups names it."""
        ...

    @property
    def state_name(self) -> str:
        """The state of the group as Kafka names it."""
        ...

    @property
    def protocol_type(self) -> str | None: ...

    @property
    def generation(self) -> int: ...

    @property
    def member_count(self) -> int: ...

    def offset_commit_error(
        self,
        generation: int,
        member_id: str,
        group_instance_id: str | None,
        *,
        is_transactional: bool,
        knows_epochs: bool = True,  # whether the request is of a version with member epochs
    ) -> ErrorCode:
        """Whether this member may commit in this generation.

        STALE_MEMBER_EPOCH, and ILLEGAL_GENERATION for a member of the classic protocol: see `holds_since`.
        """
        ...

    def holds_since(self, member_id: str, epoch: int, topic_id: bytes, partition: int) -> bool:
        """Whether a member with an earlier epoch may commit for this partition: it has had it since then."""
        ...

    def offset_fetch_error(self, member_id: str | None, epoch: int) -> ErrorCode:
        """Whether this member may fetch offsets; None and -1 stand for no member in particular."""
        ...

    def session_of(self, member_id: str) -> Timer | None:
        """What an accepted commit renews."""
        ...

    def offset_delete_error(self) -> ErrorCode:
        """Whether single offsets may be deleted, of topics that the group does not read."""
        ...

    @property
    def subscribed_topics(self) -> frozenset[str] | None:
        """The topics that members read; None if the broker cannot decode their subscription."""
        ...

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether members read a topic, or may read it, if the broker cannot decode their subscription."""
        ...

    def offset_expiry(self) -> OffsetExpiry | None:
        """Which offsets may expire now; None for none of them."""
        ...

    def group_delete_error(self) -> ErrorCode:
        """Whether the group may be deleted, or expire once it has no offsets."""
        ...

    def timers(self) -> Iterable[Timer]:
        """What may run in a group that may be deleted, and has to stop then."""
        ...

    def unload(self, error_code: ErrorCode) -> Iterable[Reply]:
        """An answer to every request that waits."""
        ...


class NoMembers:
    """A group without members, kept for its offsets, which expire one by one."""

    group_type: Final = CLASSIC
    state_name: Final = "Empty"
    protocol_type: Final = None
    generation: Final = 0
    member_count: Final = 0
    subscribed_topics: Final[frozenset[str]] = frozenset()

    def offset_commit_error(
        self,
        generation: int,
        member_id: str,
        group_instance_id: str | None,
        *,
        is_transactional: bool,
        knows_epochs: bool = True,
    ) -> ErrorCode:
        return NO_ERROR if generation < 0 else ErrorCode.unknown_member_id

    def holds_since(self, member_id: str, epoch: int, topic_id: bytes, partition: int) -> bool:
        return False

    def offset_fetch_error(self, member_id: str | None, epoch: int) -> ErrorCode:
        return NO_ERROR

    def session_of(self, member_id: str) -> Timer | None:
        return None

    def offset_delete_error(self) -> ErrorCode:
        return NO_ERROR

    def is_subscribed_to(self, topic: str) -> bool:
        return False

    def offset_expiry(self) -> OffsetExpiry | None:
        return _BY_COMMIT

    def group_delete_error(self) -> ErrorCode:
        return NO_ERROR

    def timers(self) -> Iterable[Timer]:
        return ()

    def unload(self, error_code: ErrorCode) -> Iterable[Reply]:
        return ()


_BY_COMMIT: Final = OffsetExpiry(None)
NOBODY: Final = NoMembers()  # compared by identity: a protocol may open such a group for its members
