"""The group coordinator of one broker: routes each request to the shard of its group."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from klamm.assignors.server import GroupAssignor
from klamm.assignors.server.registry import load_group_assignors
from klamm.coordinator.group.config import GroupConfig
from klamm.coordinator.group.consumer.settings import ConsumerGroupSettings
from klamm.coordinator.group.consumer.validation import shape_refusal
from klamm.coordinator.group.machine import GroupMachine
from klamm.coordinator.group.notes import Note
from klamm.coordinator.group.offsets.commit_answers import CommitAnswers
from klamm.coordinator.group.offsets.fetching import merge_fetch, split_fetch
from klamm.coordinator.group.offsets.signals import TopicGone
from klamm.coordinator.group.offsets.txn_offset_commit import refused_txn_commit, unverified_txn_commit
from klamm.coordinator.group.placement import OFFSETS_TOPIC
from klamm.coordinator.group.refusals import error_response
from klamm.coordinator.group.remembered import GroupRecord
from klamm.coordinator.group.state import Group
from klamm.coordinator.group.topics import (
    TopicDirectory,
    screen_commit,
    screen_delete,
    screen_txn_commit,
    with_refused_commits,
    with_refused_deletes,
    with_refused_txn_commits,
)
from klamm.coordinator.runtime.coordinator import ShardedCoordinator
from klamm.coordinator.runtime.outcome import Context
from klamm.coordinator.runtime.shard import ACTIVE, ShardStatus
from klamm.coordinator.runtime.shard_host import ShardHost
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from klamm.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from klamm.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from klamm.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from klamm.protocol.messages.heartbeat import HeartbeatRequest
from klamm.protocol.messages.inspect_groups import InspectGroupsRequest, InspectGroupsResponse
from klamm.protocol.messages.join_group import JoinGroupRequest
from klamm.protocol.messages.leave_group import LeaveGroupRequest
from klamm.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from klamm.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponseTopic,
)
from klamm.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from klamm.protocol.messages.offset_fetch import OffsetFetchRequest
from klamm.protocol.messages.sync_group import SyncGroupRequest
from klamm.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse


class GroupCoordinator(ShardedCoordinator[GroupRecord, Note]):
    """Takes requests about groups, whatever shard they are in; responses go to the host."""

    def __init__(
        self,
        config: GroupConfig,
        *,
        partition_count: int,
        topics: TopicDirectory,
        host: ShardHost,
        make_machine: Callable[[GroupConfig], GroupMachine] = GroupMachine,
        loading_patience_ms: int = 0,
        soon: Callable[[Callable[[], None]], object] | None = None,
        assignors: Mapping[str, GroupAssignor] | None = None,
        consumer_settings: Callable[[str], ConsumerGroupSettings] | None = None,
        is_consumer_enabled: Callable[[], bool] = lambda: True,
    ) -> None:
        """`assignors` by the names that members ask for, the first as default; none: the built-in ones.

        `soon` calls something in the next turn of a loop: a request about many groups takes several turns.
        `consumer_settings` are those of a group by its id; none: those of `config`, for all groups.
        """
        super().__init__(
            OFFSETS_TOPIC,
            partition_count=partition_count,
            make_machine=self._machine,
            error_response=error_response,
            host=host,
            patience_ms=config.offsets_commit_timeout_ms,
            loading_patience_ms=loading_patience_ms,
            soon=soon,
        )
        self._topics = topics
        self._config = config
        self._make_machine = make_machine
        self._assignors = (
            load_group_assignors(config.group_consumer_assignors) if assignors is None else assignors
        )
        self._consumer_settings = consumer_settings
        self._is_consumer_enabled = is_consumer_enabled
        self._commit_answers = CommitAnswers()  # all shards have the same ones
        self.written: Counter[type] = Counter()  # records, by kind
        self.handlers = {
            HeartbeatRequest: self._member_request,
            JoinGroupRequest: self._member_request,
            LeaveGroupRequest: self._member_request,
            SyncGroupRequest: self._sync,
            ConsumerGroupHeartbeatRequest: self._consumer_heartbeat,
            OffsetCommitRequest: self._commit,
            OffsetFetchRequest: self._fetch,
            TxnOffsetCommitRequest: self._txn_commit,
            OffsetDeleteRequest: self._delete_offsets,
            DescribeGroupsRequest: self._describe,
            ConsumerGroupDescribeRequest: self._describe_consumers,
            DeleteGroupsRequest: self._delete,
            InspectGroupsRequest: self._inspect,
            ListGroupsRequest: self._list,
        }

    def _machine(self) -> GroupMachine:
        machine = self._make_machine(self._config)
        machine.written = self.written
        machine.state.topics = self._topics
        machine.state.assignors = self._assignors
        if self._consumer_settings is not None:
            machine.state.consumer_settings = self._consumer_settings
        machine.state.commit_answers = self._commit_answers
        return machine

    def groups(self) -> Iterator[Group]:
        """Every group of the shards that are served."""
        for shard in self.shards:
            if shard.status is ACTIVE and isinstance(shard.machine, GroupMachine):
                yield from shard.machine.state.groups.values()

    def topic_deleted(self, topic: str, context: Context) -> None:
        """Remove every offset of a deleted topic. A shard that is not active does so when it loads."""
        for shard in self.shards:
            shard.signal(TopicGone(topic), context)

    # --- one group -----------------------------------------------------------------------------------

    def _member_request(
        self,
        request: HeartbeatRequest | JoinGroupRequest | LeaveGroupRequest | SyncGroupRequest,
        context: Context,
    ) -> None:
        group_id = request.group_id
        if not group_id:
            self._refuse(request, ErrorCode.invalid_group_id, context)
            return
        # `_to_shard`, without the call: this path is taken more often than all others together.
        partition = self.partition_for(group_id)
        shard = self.shards.by_partition.get(partition)
        if shard is not None and shard.status is ACTIVE:
            shard.handle(request, context)
        elif type(request) is HeartbeatRequest:
            self._refuse(request, self.shards.why_not(partition), context)  # at once: there is no error
        else:
            self._to_shard(group_id, request, context)

    def _sync(self, request: SyncGroupRequest, context: Context) -> None:
        if request.must_name_protocol and (request.protocol_type is None or request.protocol_name is None):
            self._refuse(request, ErrorCode.inconsistent_group_protocol, context)
            return
        self._member_request(request, context)

    def _consumer_heartbeat(self, request: ConsumerGroupHeartbeatRequest, context: Context) -> None:
        if not self._is_consumer_enabled():
            self._refuse(request, ErrorCode.unsupported_version, context)
        elif self.shards.is_stopped:
            self._refuse(request, ErrorCode.coordinator_not_available, context)
        elif (refusal := shape_refusal(request, self._assignors)) is not None:
            self._send(context.token, refusal)
        else:
            self._to_shard(request.group_id, request, context)

    def _commit(self, request: OffsetCommitRequest, context: Context) -> None:
        screened, refused = screen_commit(request, self._topics)
        if refused:
            if not screened.topics:
                self._send(context.token, with_refused_commits(OffsetCommitResponse(), refused))
                return
            context = self._with_refused(context, refused)
        # As in `_member_request`, without a call.
        shard = self.shards.by_partition.get(self.partition_for(request.group_id))
        if shard is not None and shard.status is ACTIVE:
            shard.handle(screened, context)
        else:
            self._to_shard(request.group_id, screened, context)

    def _with_refused(self, context: Context, refused: list[OffsetCommitResponseTopic]) -> Context:
        return self._merged(context, lambda answer: with_refused_commits(answer, refused))

    def txn_commit_refusal(
        self, request: TxnOffsetCommitRequest, error_code: ErrorCode | None = None
    ) -> TxnOffsetCommitResponse | None:
        """The answer to a TxnOffsetCommit that is not to be handled; None if it may be.

        Call without an error code before the transaction is verified: a request that fails here must not add
        the group to a transaction. Call with one when verification failed: the response has error codes of
        the request's version, and partitions that do not exist keep their own error.
        """
        screened, refused = screen_txn_commit(request, self._topics)
        response = TxnOffsetCommitResponse()
        if screened.topics:
            if not request.group_id:
                response = refused_txn_commit(screened, ErrorCode.invalid_group_id)
            elif error_code is not None:
                response = unverified_txn_commit(screened, error_code)
            elif not self._may_serve(partition := self.partition_for(request.group_id)):
                response = refused_txn_commit(screened, self.shards.why_not(partition))
            else:
                return None
        return with_refused_txn_commits(response, refused)

    def _may_serve(self, partition: int) -> bool:
        shard = self.shards.by_partition.get(partition)
        return shard is not None and shard.status in (ACTIVE, ShardStatus.LOADING)

    def _txn_commit(self, request: TxnOffsetCommitRequest, context: Context) -> None:
        answer = self.txn_commit_refusal(request)
        if answer is not None:
            self._send(context.token, answer)
            return
        screened, refused = screen_txn_commit(request, self._topics)
        if refused:
            context = self._merged(context, lambda answer: with_refused_txn_commits(answer, refused))
        self._to_shard(request.group_id, screened, context)

    def _delete_offsets(self, request: OffsetDeleteRequest, context: Context) -> None:
        if not request.group_id:
            self._send(context.token, OffsetDeleteResponse(error_code=ErrorCode.invalid_group_id))
            return
        screened, refused = screen_delete(request, self._topics)
        if refused:
            context = self._merged(context, lambda answer: with_refused_deletes(answer, refused))
        self._to_shard(request.group_id, screened, context)

    # --- many groups ---------------------------------------------------------------------------------

    def _fetch(self, request: OffsetFetchRequest, context: Context) -> None:
        parts = split_fetch(request, self._topics)
        merge = partial(merge_fetch, request, self._topics)
        self._to_shards([(part.groups[0].group_id, part) for part in parts], merge, context)

    def _describe(self, request: DescribeGroupsRequest, context: Context) -> None:
        parts = [
            (
                group_id,
                DescribeGroupsRequest(
                    groups=(group_id,),
                    include_authorized_operations=request.include_authorized_operations,
                    knows_group_id_not_found=request.knows_group_id_not_found,
                ),
            )
            for group_id in request.groups
        ]
        self._to_shards(parts, _merge_described, context)

    def _inspect(self, request: InspectGroupsRequest, context: Context) -> None:
        parts = [(group_id, InspectGroupsRequest((group_id,))) for group_id in request.groups]
        self._to_shards(parts, _merge_inspected, context)

    def _describe_consumers(self, request: ConsumerGroupDescribeRequest, context: Context) -> None:
        parts = [(group_id, ConsumerGroupDescribeRequest((group_id,))) for group_id in request.group_ids]
        contexts = self._parts(context, len(parts), _merge_described_consumers)
        self._in_turns(
            partial(self._describe_consumer, group_id, part, part_context)
            for (group_id, part), part_context in zip(parts, contexts, strict=True)
        )

    def _describe_consumer(
        self, group_id: str, request: ConsumerGroupDescribeRequest, context: Context
    ) -> None:
        if not self._is_consumer_enabled():
            self._refuse(request, ErrorCode.unsupported_version, context)
        elif not group_id:
            self._refuse(request, ErrorCode.invalid_group_id, context)
        else:
            self._to_shard(group_id, request, context)

    def _delete(self, request: DeleteGroupsRequest, context: Context) -> None:
        names = dict.fromkeys(request.groups_names)  # duplicates are answered once
        parts = [(group_id, DeleteGroupsRequest(groups_names=(group_id,))) for group_id in names]
        self._to_shards(parts, _merge_deleted, context)

    def _list(self, request: ListGroupsRequest, context: Context) -> None:
        if self.shards.is_stopped:
            self._send(context.token, ListGroupsResponse(error_code=ErrorCode.coordinator_not_available))
            return
        self._to_all_shards(request, _merge_listed, context)


def _merge_described(answers: Sequence[DescribeGroupsResponse]) -> DescribeGroupsResponse:
    return DescribeGroupsResponse(groups=[group for answer in answers for group in answer.groups])


def _merge_inspected(answers: Sequence[InspectGroupsResponse]) -> InspectGroupsResponse:
    return InspectGroupsResponse(groups=[group for answer in answers for group in answer.groups])


def _merge_described_consumers(
    answers: Sequence[ConsumerGroupDescribeResponse],
) -> ConsumerGroupDescribeResponse:
    return ConsumerGroupDescribeResponse(groups=[group for answer in answers for group in answer.groups])


def _merge_deleted(answers: Sequence[DeleteGroupsResponse]) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(results=[result for answer in answers for result in answer.results])


def _merge_listed(answers: Sequence[ListGroupsResponse]) -> ListGroupsResponse:
    error_code = next((answer.error_code for answer in answers if answer.error_code), 0)
    if error_code:
        # As in Kafka: part of a list could be mistaken for all of it.
        return ListGroupsResponse(error_code=error_code)
    return ListGroupsResponse(groups=[group for answer in answers for group in answer.groups])
