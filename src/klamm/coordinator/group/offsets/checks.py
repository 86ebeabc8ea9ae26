"""Checks that plain and transactional commits share, in Kafka's order; the first failure decides."""

from __future__ import annotations

from klamm.coordinator.group.classic.checks import membership_error
from klamm.coordinator.group.classic.live import Live
from klamm.coordinator.group.classic.phases import COMPLETING, DEAD, EMPTY
from klamm.protocol.errors import NO_ERROR, ErrorCode


def commit_refusal(
    live: Live, generation: int, member_id: str, group_instance_id: str | None, *, is_transactional: bool
) -> ErrorCode:
    """Whether a group accepts a commit from this member in this generation.

    A transaction may commit without naming a member (KIP-447 came later), and while the leader still computes
    the assignment: its fate is decided by the marker.
    """
    phase = live.phase
    if phase is DEAD:
        return ErrorCode.coordinator_not_available
    if generation < 0:
        if phase is EMPTY:
            return NO_ERROR
        if not member_id and group_instance_id is None:
            return NO_ERROR if is_transactional else ErrorCode.unknown_member_id
    error_code = membership_error(live, member_id, group_instance_id)
    if error_code is not NO_ERROR:
        return error_code
    if generation != live.generation:
        return ErrorCode.illegal_generation
    if phase is COMPLETING and not is_transactional:
        return ErrorCode.rebalance_in_progress
    return NO_ERROR


def is_metadata_too_long(text: str, max_units: int) -> bool:
    """By the length that Java sees: the limit counts UTF-16 units, not characters and not bytes."""
    units = len(text) if text.isascii() else len(text.encode("utf-16-le")) // 2
    return units > max_units
