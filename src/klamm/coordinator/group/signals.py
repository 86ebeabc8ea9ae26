"""What enters the machine besides requests: due timers, next steps, and what the log did."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from klamm.coordinator.runtime.outcome import Reply
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.delete_groups import DeleteGroupsResponse
from klamm.protocol.messages.offset_commit import OffsetCommitResponse
from klamm.protocol.messages.offset_delete import OffsetDeleteResponse
from klamm.protocol.messages.txn_offset_commit import TxnOffsetCommitResponse

# --- due timers --------------------------------------------------------------------------------------


class SessionOver(NamedTuple):
    """A member was silent for its session timeout, or a new one waited too long."""

    group_id: str
    member_id: str


class PendingOver(NamedTuple):
    """An id that was handed out was never used."""

    group_id: str
    member_id: str


class JoinTimeUp(NamedTuple):
    """The join phase has lasted long enough."""

    group_id: str


class SyncTimeUp(NamedTuple):
    """Members of the generation had long enough to fetch their assignments."""

    group_id: str


class ExpiryDue(NamedTuple):
    """Time to look for offsets and groups that nobody needs any more."""


# --- next steps --------------------------------------------------------------------------------------


class JoinCheck(NamedTuple):
    """Somebody came or went: perhaps the join phase is over."""

    group_id: str
    replies: tuple[Reply, ...] = ()  # to those who went: they go with what comes of it


class OverCapacity(NamedTuple):
    """A group was loaded with more members than it may have."""

    group_id: str


# --- the log -----------------------------------------------------------------------------------------


class AssignmentDurable(NamedTuple):
    """The leader's assignment is written."""

    group_id: str
    generation: int
    before: Mapping[str, bytes]  # assignments of the generation that was registered before, by member


class AssignmentRefused(NamedTuple):
    """The log did not take the leader's assignment."""

    group_id: str
    generation: int
    error_code: ErrorCode


class EmptyingRefused(NamedTuple):
    """The log did not take the record of a group without members."""

    group_id: str
    replies: tuple[Reply, ...]
    error_code: ErrorCode


class ReplacementRefused(NamedTuple):
    """The log did not take the registration with a static member's new id."""

    group_id: str
    error_code: ErrorCode


class CommitRefused(NamedTuple):
    """The log did not take a commit."""

    response: OffsetCommitResponse
    error_code: ErrorCode


class TxnCommitRefused(NamedTuple):
    """The log rejected a commit within a transaction."""

    response: TxnOffsetCommitResponse
    error_code: ErrorCode


class DeletionRefused(NamedTuple):
    """The log did not take the tombstones of a deletion that somebody waits for."""

    response: OffsetDeleteResponse | DeleteGroupsResponse
    error_code: ErrorCode


class ExpiryRefused(NamedTuple):
    """The log did not take the tombstones of what has expired."""

    error_code: ErrorCode


# --- the world ---------------------------------------------------------------------------------------


class TopicDeleted(NamedTuple):
    """A topic is gone, and with it every offset that was committed for it."""

    topic: str
