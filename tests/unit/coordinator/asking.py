"""What clients say to a group coordinator, one line each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, cast

from klamm.protocol.consumer_protocol import Assignment, Subscription, encode_assignment, encode_subscription
from klamm.protocol.errors import ErrorCode
from klamm.protocol.implied import IMPLIED
from klamm.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from klamm.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from klamm.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from klamm.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from klamm.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from klamm.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from klamm.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from klamm.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from klamm.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from klamm.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from klamm.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from klamm.protocol.types import TopicPartition

Response = TypeVar("Response")
Message = TypeVar("Message")

SESSION_MS = 10_000
REBALANCE_MS = 60_000
DELAY_MS = 3_000  # the initial delay by default
RANGE = ("range",)


def at_version(request: Message, version: int) -> Message:
    """Give a request what its version implies."""
    for name, implies in IMPLIED.get(type(request).__name__, {}).items():
        setattr(request, name, implies(version))
    return request


def subscription(*topics: str) -> bytes:
    return encode_subscription(Subscription(topics=topics), version=0)


def assignment(*partitions: tuple[str, int]) -> bytes:
    return encode_assignment(Assignment(tuple(TopicPartition(*each) for each in partitions)), version=0)


@dataclass(eq=False)
class Call(Generic[Response]):
    """A request on its way; the answer once there is one."""

    request: object
    answers: list[Response] = field(default_factory=list)

    def keep(self, response: Response) -> None:
        self.answers.append(response)

    @property
    def is_answered(self) -> bool:
        assert len(self.answers) <= 1, f"answered twice: {self.answers}"
        return bool(self.answers)

    @property
    def response(self) -> Response:
        assert self.is_answered, f"no answer yet: {self.request}"
        return self.answers[0]

    @property
    def error(self) -> ErrorCode:
        return ErrorCode(cast(Any, self.response).error_code)


class Asking:
    """The requests; whoever inherits this carries them out."""

    def ask(self, request: object, client_id: str = "client") -> Call[Any]:
        raise AssertionError("carried out elsewhere")

    def join(
        self,
        member_id: str = "",
        *,
        group: str = "g",
        version: int = 3,
        protocols: Sequence[str] | Mapping[str, bytes] = RANGE,
        protocol_type: str = "consumer",
        session_ms: int = SESSION_MS,
        rebalance_ms: int = REBALANCE_MS,
        instance: str | None = None,
        client_id: str = "client",
    ) -> Call[JoinGroupResponse]:
        offered = protocols if isinstance(protocols, Mapping) else dict.fromkeys(protocols, subscription("t"))
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocols=[JoinGroupRequestProtocol(name, metadata) for name, metadata in offered.items()],
        )
        return self.ask(at_version(request, version), client_id)

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: Mapping[str, bytes] | None = None,
        *,
        group: str = "g",
        version: int = 4,
        instance: str | None = None,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
    ) -> Call[SyncGroupResponse]:
        request = SyncGroupRequest(
            group_id=group,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocol_name=protocol_name,
            assignments=[SyncGroupRequestAssignment(*each) for each in (assignments or {}).items()],
        )
        return self.ask(at_version(request, version))

    def heartbeat_later(
        self, member_id: str, generation: int, *, group: str = "g"
    ) -> Call[HeartbeatResponse]:
        return self.ask(HeartbeatRequest(group, generation, member_id))

    def heartbeat(
        self, member_id: str, generation: int, *, group: str = "g", instance: str | None = None
    ) -> ErrorCode:
        request = HeartbeatRequest(group, generation, member_id, instance)
        call: Call[HeartbeatResponse] = self.ask(request)
        return call.error

    def leave(
        self,
        *members: str | tuple[str, str | None],
        group: str = "g",
        version: int = 3,
    ) -> LeaveGroupResponse:
        identities = [
            MemberIdentity(each) if isinstance(each, str) else MemberIdentity(*each) for each in members
        ]
        request = LeaveGroupRequest(group_id=group, members=identities)
        if version < 3:
            request = LeaveGroupRequest(group_id=group, member_id=identities[0].member_id)
        call: Call[LeaveGroupResponse] = self.ask(at_version(request, version))
        return call.response

    def leave_later(self, member_id: str, *, group: str = "g") -> Call[LeaveGroupResponse]:
        return self.ask(LeaveGroupRequest(group_id=group, members=[MemberIdentity(member_id)]))

    def commit(
        self,
        offsets: Mapping[tuple[str, int], int | tuple[int, str | None]] | None = None,
        *,
        group: str = "g",
        member_id: str = "",
        generation: int = -1,
        instance: str | None = None,
        version: int = 8,
        retention_ms: int = -1,
        leader_epoch: int = -1,
    ) -> Call[OffsetCommitResponse]:
        topics: dict[str, list[OffsetCommitRequestPartition]] = {}
        for (topic, partition), value in ({("t", 0): 1} if offsets is None else offsets).items():
            offset, metadata = value if isinstance(value, tuple) else (value, None)
            topics.setdefault(topic, []).append(
                OffsetCommitRequestPartition(partition, offset, leader_epoch, metadata)
            )
        request = OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            group_instance_id=instance,
            retention_time_ms=retention_ms,
            topics=[
                OffsetCommitRequestTopic(name=name, partitions=partitions)
                for name, partitions in topics.items()
            ],
        )
        return self.ask(at_version(request, version))

    def commit_error(self, **arguments: Any) -> ErrorCode:
        (error,) = set(commit_errors(self.commit(**arguments)).values())
        return error

    def txn_commit(
        self,
        offsets: Mapping[tuple[str, int], int | tuple[int, str | None]] | None = None,
        *,
        group: str = "g",
        producer: int = 1,
        epoch: int = 0,
        member_id: str = "",
        generation: int = -1,
        instance: str | None = None,
        version: int = 5,
        leader_epoch: int = -1,
    ) -> Call[TxnOffsetCommitResponse]:
        topics: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
        for (topic, partition), value in ({("t", 0): 1} if offsets is None else offsets).items():
            offset, metadata = value if isinstance(value, tuple) else (value, None)
            topics.setdefault(topic, []).append(
                TxnOffsetCommitRequestPartition(partition, offset, leader_epoch, metadata)
            )
        request = TxnOffsetCommitRequest(
            transactional_id="txn",
            group_id=group,
            producer_id=producer,
            producer_epoch=epoch,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance,
            topics=[TxnOffsetCommitRequestTopic(name, partitions) for name, partitions in topics.items()],
        )
        return self.ask(at_version(request, version))

    def txn_commit_error(self, **arguments: Any) -> ErrorCode:
        (error,) = set(commit_errors(self.txn_commit(**arguments)).values())
        return error

    def fetch(
        self, *partitions: tuple[str, int], group: str = "g", stable: bool = False, version: int = 7
    ) -> dict[tuple[str, int], tuple[int, ErrorCode]]:
        """Offset and error by partition; of all partitions when none is named."""
        response = self.fetch_response(*partitions, group=group, stable=stable, version=version)
        return {
            (topic.name, answer.partition_index): (answer.committed_offset, ErrorCode(answer.error_code))
            for topic in response.topics
            for answer in topic.partitions
        }

    def fetch_response(
        self, *partitions: tuple[str, int], group: str = "g", stable: bool = False, version: int = 7
    ) -> OffsetFetchResponse:
        return self.fetch_later(*partitions, group=group, stable=stable, version=version).response

    def fetch_later(
        self, *partitions: tuple[str, int], group: str = "g", stable: bool = False, version: int = 7
    ) -> Call[OffsetFetchResponse]:
        topics: dict[str, list[int]] = {}
        for topic, partition in partitions:
            topics.setdefault(topic, []).append(partition)
        request = OffsetFetchRequest(require_stable=stable)
        if version >= 8:
            request.groups = [
                OffsetFetchRequestGroup(
                    group_id=group,
                    topics=[
                        OffsetFetchRequestTopics(name=name, partition_indexes=indexes)
                        for name, indexes in topics.items()
                    ]
                    or None,
                )
            ]
        else:
            request.group_id = group
            request.topics = [
                OffsetFetchRequestTopic(name, indexes) for name, indexes in topics.items()
            ] or None
        return self.ask(at_version(request, version))

    def delete_offsets(self, *partitions: tuple[str, int], group: str = "g") -> OffsetDeleteResponse:
        topics: dict[str, list[OffsetDeleteRequestPartition]] = {}
        for topic, partition in partitions:
            topics.setdefault(topic, []).append(OffsetDeleteRequestPartition(partition))
        request = OffsetDeleteRequest(
            group, [OffsetDeleteRequestTopic(name, indexes) for name, indexes in topics.items()]
        )
        call: Call[OffsetDeleteResponse] = self.ask(request)
        return call.response

    def describe(self, group: str = "g", *, version: int = 5) -> DescribedGroup:
        request = DescribeGroupsRequest(groups=[group])
        call: Call[DescribeGroupsResponse] = self.ask(at_version(request, version))
        return call.response.groups[0]

    def list_groups(self, states: Sequence[str] = (), types: Sequence[str] = ()) -> ListGroupsResponse:
        call: Call[ListGroupsResponse] = self.ask(ListGroupsRequest(states, types))
        return call.response

    def listed(self) -> dict[str, str]:
        return {group.group_id: group.group_state for group in self.list_groups().groups}

    def ask_delete(self, *groups: str) -> Call[DeleteGroupsResponse]:
        return self.ask(DeleteGroupsRequest(groups))

    def delete(self, *groups: str) -> dict[str, ErrorCode]:
        call: Call[DeleteGroupsResponse] = self.ask(DeleteGroupsRequest(groups))
        return {result.group_id: ErrorCode(result.error_code) for result in call.response.results}


def commit_errors(
    call: Call[OffsetCommitResponse] | Call[TxnOffsetCommitResponse],
) -> dict[tuple[str, int], ErrorCode]:
    return {
        (topic.name, answer.partition_index): ErrorCode(answer.error_code)
        for topic in call.response.topics
        for answer in topic.partitions
    }
