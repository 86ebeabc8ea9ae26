"""What enters the classic protocol besides requests: due timers, next steps, and results of writes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from klamm.coordinator.runtime.outcome import Reply
from klamm.protocol.errors import ErrorCode

# --- due timers ----------------------------------------------------------------------------------------


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


# --- next steps ----------------------------------------------------------------------------------------


class JoinCheck(NamedTuple):
    """Somebody came or went: perhaps the join phase is over."""

    group_id: str
    replies: tuple[Reply, ...] = ()  # to those who went: they go with what comes of it


class OverCapacity(NamedTuple):
    """A group was loaded with more members than it may have."""

    group_id: str


# --- results of writes ---------------------------------------------------------------------------------


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
