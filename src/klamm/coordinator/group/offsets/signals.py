"""Inputs about offsets besides requests: a due timer, rejected appends, deleted topics."""

from __future__ import annotations

from typing import NamedTuple

from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.delete_groups import DeleteGroupsResponse
from klamm.protocol.messages.offset_commit import OffsetCommitResponse
from klamm.protocol.messages.offset_delete import OffsetDeleteResponse
from klamm.protocol.messages.txn_offset_commit import TxnOffsetCommitResponse


class OffsetExpiryDue(NamedTuple):
    """The next expiry pass is due."""


class GroupExpiry(NamedTuple):
    """A pass has come to this group: each is decided apart, so that none can stop the others."""

    group_id: str


class CommitRefused(NamedTuple):
    """The log rejected a commit."""

    response: OffsetCommitResponse
    error_code: ErrorCode


class TxnCommitRefused(NamedTuple):
    """The log rejected a commit within a transaction."""

    response: TxnOffsetCommitResponse
    error_code: ErrorCode


class DeletionRefused(NamedTuple):
    """The log rejected the tombstones of a deletion request."""

    response: OffsetDeleteResponse | DeleteGroupsResponse
    error_code: ErrorCode


class TopicGone(NamedTuple):
    """A topic was deleted, so its committed offsets are removed."""

    topic: str


class TopicsCheck(NamedTuple):
    """Topics may have been deleted unnoticed: compare with those that exist."""


class TopicsCheckRefused(NamedTuple):
    """Appending tombstones for the offsets of deleted topics failed."""

    error_code: ErrorCode
