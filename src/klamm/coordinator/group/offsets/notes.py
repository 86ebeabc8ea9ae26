"""Transient changes around committed offsets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

from klamm.coordinator.group.state import GroupState, StagedCommit
from klamm.records.core import Replaced


class OffsetsStaged(NamedTuple):
    """A commit was appended and may not be durable yet."""

    group_id: str
    replaced: tuple[tuple[str, Replaced], ...]  # by topic


class TxnOffsetsStaged(NamedTuple):
    """A commit in a transaction was appended."""

    group_id: str


class MixingReported(NamedTuple):
    """The warning about plain and transactional commits in one group was given."""

    group_id: str


class OffsetExpiryQueued(NamedTuple):
    """Which groups the current expiry pass has not checked yet."""

    group_ids: tuple[str, ...]


_STAGED: Final = partial(tuple.__new__, StagedCommit)  # twice as fast as calling the class

OffsetNote = OffsetsStaged | TxnOffsetsStaged | MixingReported | OffsetExpiryQueued


def _stage(state: GroupState, note: OffsetsStaged) -> None:
    """Remember what a commit replaces until it is durable, and drop those that are."""
    group_id, replaced = note
    group = state.of(group_id)
    group.plain_commit_generation = group.membership.generation
    end_offset, durable_offset = state.end_offset, state.durable_offset
    staged = group.staged
    if staged:
        if staged[-1][0] <= durable_offset:
            staged.clear()
        elif staged[0][0] <= durable_offset:
            group.staged = staged = [each for each in staged if each.end_offset > durable_offset]
    if end_offset > durable_offset:
        staged.append(_STAGED((end_offset, replaced)))


def _stage_in_transaction(state: GroupState, note: TxnOffsetsStaged) -> None:
    group = state.of(note.group_id)
    group.txn_commit_generation = group.membership.generation


def _report_mixing(state: GroupState, note: MixingReported) -> None:
    state.of(note.group_id).is_mixing_reported = True


def _queue_expiry(state: GroupState, note: OffsetExpiryQueued) -> None:
    state.expiry_queue = note.group_ids


# Any: each function takes the type under which it is listed.
OFFSET_CHANGES: Final[Mapping[type, Callable[[GroupState, Any], None]]] = {
    OffsetsStaged: _stage,
    TxnOffsetsStaged: _stage_in_transaction,
    MixingReported: _report_mixing,
    OffsetExpiryQueued: _queue_expiry,
}
