"""Inputs of the consumer protocol besides requests: due timers, topics that matched, computed targets.

A session that is over is one, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from klamm.assignors.server import AssignorFailure, CheckedTarget, GroupAssignor, GroupSpec
from klamm.coordinator.group.consumer.remembered import RegexValue
from klamm.coordinator.runtime.outcome import Context
from klamm.protocol.errors import ErrorCode


class RevocationTimeUp(NamedTuple):
    """A member has not given up partitions in time."""

    group_id: str
    member_id: str


class RejoinTimeUp(NamedTuple):
    """A member of the classic protocol was told to join again, and has not."""

    group_id: str
    member_id: str


class SyncMissed(NamedTuple):
    """A member of the classic protocol has not fetched its assignment."""

    group_id: str
    member_id: str


class RegexesResolved(NamedTuple):
    """What the regular expressions of a group match now."""

    group_id: str
    resolved: Mapping[str, RegexValue]


class HeartbeatRefused(NamedTuple):
    """The log rejected what a heartbeat changes."""

    error_code: ErrorCode


class RemovalRefused(NamedTuple):
    """The log rejected the removal of a member whose time was over."""

    group_id: str
    member_id: str
    error_code: ErrorCode


class ResolvedRefused(NamedTuple):
    """The log rejected what regular expressions match."""

    group_id: str
    error_code: ErrorCode


class ResolveRegexes(NamedTuple):
    """An action: match the regular expressions of a group; the result is a RegexesResolved."""

    group_id: str
    regexes: tuple[str, ...]
    asked_by: Context  # topics that this client may not describe do not match


class ComputeTarget(NamedTuple):
    """An action: compute the target of a group where it holds nothing up; the result is a TargetFound."""

    group_id: str
    epoch: int  # the group's, of which it will be the target
    assignor: GroupAssignor
    group: GroupSpec


class TargetFound(NamedTuple):
    """What an assignor made of a group, or why it made nothing."""

    asked: ComputeTarget
    found: CheckedTarget | AssignorFailure


class TargetRefused(NamedTuple):
    """The log rejected a target."""

    group_id: str
    error_code: ErrorCode
