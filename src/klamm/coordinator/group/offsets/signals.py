"""What enters the keeping of offsets besides requests: a due timer, results of writes, deleted topics."""

from __future__ import annotations

from typing import NamedTuple

from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.delete_groups import DeleteGroupsResponse
from klamm.protocol.messages.offset_commit import OffsetCommitResponse
from klamm.protocol.messages.offset_delete import OffsetDeleteResponse
from klamm.protocol.messages.txn_offset_commit import TxnOffsetCommitResponse


class ExpiryDue(NamedTuple):
    """Time to look for offsets and groups that nobody needs any more."""


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


class TopicDeleted(NamedTuple):
    """A topic is gone, and with it every offset that was committed for it."""

    topic: str


class TopicsCheck(NamedTuple):
    """Topics may have gone unnoticed: compare with those that exist."""


class TopicsCheckRefused(NamedTuple):
    """The log refused to forget the offsets of topics that are gone."""

    error_code: ErrorCode
