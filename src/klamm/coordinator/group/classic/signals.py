"""Inputs of the classic protocol besides requests: due timers, next steps, results of appends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from klamm.coordinator.runtime.outcome import Reply
from klamm.protocol.errors import ErrorCode

# --- due timers; a member whose session is over is a signal too ------------------------------------------


class JoinTimeUp(NamedTuple):
    """The join phase timed out."""

    group_id: str


class SyncTimeUp(NamedTuple):
    """The time for members to fetch their assignments is over."""

    group_id: str


# --- next steps ----------------------------------------------------------------------------------------


class JoinCheck(NamedTuple):
    """A member joined or left: the join phase may be complete."""

    group_id: str
    replies: tuple[Reply, ...] = ()  # to members that left; sent with the result


class OverCapacity(NamedTuple):
    """A group was loaded with more members than it may have."""

    group_id: str


class RebalanceUnfinished(NamedTuple):
    """A group was loaded that has gone back to the classic protocol; its members have not joined since."""

    group_id: str


# --- results of writes ---------------------------------------------------------------------------------


class AssignmentDurable(NamedTuple):
    """The leader's assignment is durable."""

    group_id: str
    generation: int
    before: Mapping[str, bytes]  # assignments of the generation before, by member


class AssignmentRefused(NamedTuple):
    """The log rejected the leader's assignment."""

    group_id: str
    generation: int
    error_code: ErrorCode


class EmptyingRefused(NamedTuple):
    """The log rejected the record of a group without members."""

    group_id: str
    replies: tuple[Reply, ...]
    error_code: ErrorCode


class ReplacementRefused(NamedTuple):
    """The log rejected the registration with a static member's new id."""

    group_id: str
    error_code: ErrorCode
