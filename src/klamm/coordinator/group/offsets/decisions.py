"""What is decided about offsets, by request and by signal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from klamm.coordinator.group.offsets.deleted_topics import check_topics, topic_gone, topics_check_refused
from klamm.coordinator.group.offsets.expiry import expire_group, next_groups
from klamm.coordinator.group.offsets.offset_commit import commit_refused, offset_commit
from klamm.coordinator.group.offsets.offset_delete import deletion_refused, offset_delete
from klamm.coordinator.group.offsets.offset_fetch import offset_fetch
from klamm.coordinator.group.offsets.signals import (
    CommitRefused,
    DeletionRefused,
    GroupExpiry,
    OffsetExpiryDue,
    TopicGone,
    TopicsCheck,
    TopicsCheckRefused,
    TxnCommitRefused,
)
from klamm.coordinator.group.offsets.txn_offset_commit import txn_commit_refused, txn_offset_commit
from klamm.coordinator.group.outcomes import GroupOutcome
from klamm.coordinator.group.state import GroupState
from klamm.coordinator.runtime.outcome import Context
from klamm.protocol.messages.offset_commit import OffsetCommitRequest
from klamm.protocol.messages.offset_delete import OffsetDeleteRequest
from klamm.protocol.messages.offset_fetch import OffsetFetchRequest
from klamm.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest

# Any: each function takes the type under which it is listed.
OFFSET_DECISIONS: Final[Mapping[type, Callable[[GroupState, Any, Context], GroupOutcome]]] = {
    OffsetCommitRequest: offset_commit,
    OffsetFetchRequest: offset_fetch,
    TxnOffsetCommitRequest: txn_offset_commit,
    OffsetDeleteRequest: offset_delete,
    CommitRefused: commit_refused,
    TxnCommitRefused: txn_commit_refused,
    DeletionRefused: deletion_refused,
    OffsetExpiryDue: next_groups,
    GroupExpiry: expire_group,
    TopicGone: topic_gone,
    TopicsCheck: check_topics,
    TopicsCheckRefused: topics_check_refused,
}
