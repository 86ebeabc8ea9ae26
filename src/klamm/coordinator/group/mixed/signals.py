"""Results of writes, for members of the classic protocol in a group of the consumer protocol."""

from __future__ import annotations

from typing import NamedTuple

from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.leave_group import LeaveGroupResponse


class JoinRefused(NamedTuple):
    """The log rejected what a JoinGroup changes."""

    error_code: ErrorCode


class LeaveRefused(NamedTuple):
    """The log rejected the removal of members."""

    response: LeaveGroupResponse  # what it would have been
    error_code: ErrorCode
