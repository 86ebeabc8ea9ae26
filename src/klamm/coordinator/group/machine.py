"""The group coordinator of one shard, as the runtime sees it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from klamm.coordinator.group.classic.capacity import over_capacity
from klamm.coordinator.group.classic.heartbeat import heartbeat
from klamm.coordinator.group.classic.join_group import join_group
from klamm.coordinator.group.classic.leave_group import leave_group
from klamm.coordinator.group.classic.notes import Note, apply
from klamm.coordinator.group.classic.rebalance import check_join, emptying_refused, join_time_up
from klamm.coordinator.group.classic.static_members import replacement_refused
from klamm.coordinator.group.classic.sync_group import assignment_durable, assignment_refused, sync_group
from klamm.coordinator.group.classic.timeouts import pending_over, session_over, sync_time_up
from klamm.coordinator.group.config import GroupConfig
from klamm.coordinator.group.delete_groups import delete_groups
from klamm.coordinator.group.describe_groups import describe_groups
from klamm.coordinator.group.draft import GroupOutcome
from klamm.coordinator.group.list_groups import list_groups
from klamm.coordinator.group.loading import Loader, set_up
from klamm.coordinator.group.offsets.expiry import expire, expiry_refused, topic_deleted
from klamm.coordinator.group.offsets.offset_commit import commit_refused, offset_commit
from klamm.coordinator.group.offsets.offset_delete import deletion_refused, offset_delete
from klamm.coordinator.group.offsets.offset_fetch import offset_fetch
from klamm.coordinator.group.offsets.txn_offset_commit import txn_commit_refused, txn_offset_commit
from klamm.coordinator.group.records import encode_records
from klamm.coordinator.group.refusals import as_error, error_response
from klamm.coordinator.group.remembered import GroupRecord
from klamm.coordinator.group.signals import (
    AssignmentDurable,
    AssignmentRefused,
    CommitRefused,
    DeletionRefused,
    EmptyingRefused,
    ExpiryDue,
    ExpiryRefused,
    JoinCheck,
    JoinTimeUp,
    OverCapacity,
    PendingOver,
    ReplacementRefused,
    SessionOver,
    SyncTimeUp,
    TopicDeleted,
    TxnCommitRefused,
)
from klamm.coordinator.group.state import GroupState, replay_all
from klamm.coordinator.runtime.outcome import Context, Outcome, Reply
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.delete_groups import DeleteGroupsRequest
from klamm.protocol.messages.describe_groups import DescribeGroupsRequest
from klamm.protocol.messages.heartbeat import HeartbeatRequest
from klamm.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from klamm.protocol.messages.leave_group import LeaveGroupRequest
from klamm.protocol.messages.list_groups import ListGroupsRequest
from klamm.protocol.messages.offset_commit import OffsetCommitRequest
from klamm.protocol.messages.offset_delete import OffsetDeleteRequest
from klamm.protocol.messages.offset_fetch import OffsetFetchRequest
from klamm.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from klamm.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from klamm.records.layout import CommitBlock

# Any: each handler takes the type under which it stands here.
DECISIONS: Final[Mapping[type, Callable[[GroupState, Any, Context], GroupOutcome]]] = {
    HeartbeatRequest: heartbeat,
    OffsetCommitRequest: offset_commit,
    OffsetFetchRequest: offset_fetch,
    TxnOffsetCommitRequest: txn_offset_commit,
    JoinGroupRequest: join_group,
    SyncGroupRequest: sync_group,
    LeaveGroupRequest: leave_group,
    OffsetDeleteRequest: offset_delete,
    DescribeGroupsRequest: describe_groups,
    ListGroupsRequest: list_groups,
    DeleteGroupsRequest: delete_groups,
    CommitRefused: commit_refused,
    TxnCommitRefused: txn_commit_refused,
    SessionOver: session_over,
    PendingOver: pending_over,
    JoinTimeUp: join_time_up,
    SyncTimeUp: sync_time_up,
    JoinCheck: check_join,
    OverCapacity: over_capacity,
    AssignmentDurable: assignment_durable,
    AssignmentRefused: assignment_refused,
    EmptyingRefused: emptying_refused,
    ReplacementRefused: replacement_refused,
    DeletionRefused: deletion_refused,
    ExpiryDue: expire,
    ExpiryRefused: expiry_refused,
    TopicDeleted: topic_deleted,
}


class GroupMachine:
    """Decisions about the groups of one shard, and the doors to their state."""

    def __init__(self, config: GroupConfig) -> None:
        self.state = GroupState(config)
        self._loader: Loader | None = Loader(self.state)
        self.written: Counter[type] = Counter()  # records since the start, by kind

    def decide(self, request: object, context: Context) -> GroupOutcome:
        return DECISIONS[type(request)](self.state, request, context)

    def encode(self, records: Sequence[GroupRecord], timestamp_ms: int) -> bytes:
        return encode_records(records, timestamp_ms, codec=self.state.config.offsets_topic_compression_codec)

    def replay(self, records: Sequence[GroupRecord], offset: int) -> None:
        replay_all(self.state, records, offset)
        for record in records:
            self.written[type(record)] += len(record.commits) if type(record) is CommitBlock else 1

    def durable(self, offset: int) -> None:
        self.state.durable_offset = offset

    def apply(self, note: Note) -> None:
        apply(self.state, note)

    def load(self, batches: bytes) -> int:
        assert self._loader is not None, "loaded already"
        return self._loader.load(batches)

    def loaded(self, context: Context) -> GroupOutcome:
        self._loader = None
        return set_up(self.state, context)

    def unloaded(self, error_code: ErrorCode) -> GroupOutcome:
        """Whoever waits in a join or a sync looks for the new coordinator."""
        replies: list[Reply] = []
        for group in self.state.groups.values():
            for member in group.live.members.values():
                if member.parked_join is not None:
                    join = JoinGroupResponse(error_code=error_code, member_id=member.member_id)
                    replies.append((member.parked_join.token, join))
                if member.parked_sync is not None:
                    replies.append((member.parked_sync.token, SyncGroupResponse(error_code=error_code)))
        return Outcome(replies=replies)

    def error_response(self, request: object, error_code: ErrorCode) -> object:
        return error_response(request, error_code)

    def as_error(self, response: object, error_code: ErrorCode) -> object:
        return as_error(response, error_code)
