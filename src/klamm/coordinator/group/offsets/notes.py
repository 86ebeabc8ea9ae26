"""Transient changes around committed offsets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from klamm.coordinator.group.state import GroupState


class OffsetsCommitted(NamedTuple):
    """The first plain commit of a generation was appended."""

    group_id: str


class TxnOffsetsStaged(NamedTuple):
    """A commit in a transaction was appended."""

    group_id: str


class MixingReported(NamedTuple):
    """The warning about plain and transactional commits in one group was given."""

    group_id: str


class OffsetExpiryQueued(NamedTuple):
    """Which groups the current expiry pass has not checked yet."""

    group_ids: tuple[str, ...]


OffsetNote = OffsetsCommitted | TxnOffsetsStaged | MixingReported | OffsetExpiryQueued


def _commit(state: GroupState, note: OffsetsCommitted) -> None:
    group = state.of(note.group_id)
    group.plain_commit_generation = group.membership.generation


def _stage_in_transaction(state: GroupState, note: TxnOffsetsStaged) -> None:
    group = state.of(note.group_id)
    group.txn_commit_generation = group.membership.generation


def _report_mixing(state: GroupState, note: MixingReported) -> None:
    state.of(note.group_id).is_mixing_reported = True


def _queue_expiry(state: GroupState, note: OffsetExpiryQueued) -> None:
    state.expiry_queue = note.group_ids


# Any: each function takes the type under which it is listed.
OFFSET_CHANGES: Final[Mapping[type, Callable[[GroupState, Any], None]]] = {
    OffsetsCommitted: _commit,
    TxnOffsetsStaged: _stage_in_transaction,
    MixingReported: _report_mixing,
    OffsetExpiryQueued: _queue_expiry,
}
