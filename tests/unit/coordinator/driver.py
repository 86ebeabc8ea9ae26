"""A group coordinator on a clock that stands still and a log in memory, for tests to push around."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Generic, TypeVar, cast

from klamm.clock import ManualClock
from klamm.coordinator.group.config import GroupConfig
from klamm.coordinator.group.coordinator import GroupCoordinator
from klamm.coordinator.group.events import GroupEvent
from klamm.coordinator.group.live import Live
from klamm.coordinator.group.machine import GroupMachine
from klamm.coordinator.group.phases import Phase
from klamm.coordinator.group.records import decode_record
from klamm.coordinator.group.state import Group, GroupState
from klamm.coordinator.group.topics import KnownTopic
from klamm.coordinator.runtime.log import AppendRefusedError, LogUnavailableError
from klamm.coordinator.runtime.outcome import Context
from klamm.coordinator.runtime.shard import Shard, Status
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
from klamm.protocol.types import TopicPartition
from klamm.records.batch import parse_header, stamp
from klamm.records.record import Record, decode_records, encode_batch

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


class MemoryLog:
    """A log that can hold back its flush, refuse an append and lose what was not flushed."""

    def __init__(self) -> None:
        self.batches: list[bytes] = []
        self.durable_offset = 0
        self.is_holding = False
        self.is_readable = True
        self.refuse_with: ErrorCode | None = None

    @property
    def start_offset(self) -> int:
        return parse_header(self.batches[0]).base_offset if self.batches else 0

    @property
    def end_offset(self) -> int:
        return parse_header(self.batches[-1]).next_offset if self.batches else 0

    def append(self, batch: bytes, *, now_ms: int, timestamp_ms: int) -> int:
        if self.refuse_with is not None:
            raise AppendRefusedError(self.refuse_with)
        stamped = bytearray(batch)
        base_offset = self.end_offset
        stamp(stamped, base_offset, 0)
        self.batches.append(bytes(stamped))
        if not self.is_holding:
            self.durable_offset = self.end_offset
        return base_offset

    def read(self, offset: int, max_bytes: int) -> bytes:
        if not self.is_readable:
            raise LogUnavailableError("another leads")
        found = b""
        for batch in self.batches:
            if parse_header(batch).next_offset > offset:
                if found and len(found) + len(batch) > max_bytes:
                    break
                found += batch
        return found

    def cut_back(self) -> None:
        self.batches = [
            batch for batch in self.batches if parse_header(batch).next_offset <= self.durable_offset
        ]

    def records(self) -> list[Record]:
        return [
            record
            for batch in self.batches
            if not parse_header(batch).is_control
            for record in decode_records(batch)
        ]

    def decoded(self) -> list[object]:
        """What was written, transactions as if they were not."""
        return [decode_record(record.key, record.value) for record in self.records()]

    def compacted(self) -> MemoryLog:
        """The latest record of every key; batches with transactions are left as they are."""
        last = {record.key: record.offset for record in self.records()}
        copy = MemoryLog()
        for batch in self.batches:
            header = parse_header(batch)
            if header.is_transactional:
                copy.batches.append(batch)
                continue
            cleaned = encode_batch(
                [record for record in decode_records(batch) if last[record.key] == record.offset],
                base_offset=header.base_offset,
                last_offset_delta=header.last_offset_delta,
                max_timestamp_ms=header.max_timestamp_ms,
            )
            copy.batches.append(cleaned)
        copy.durable_offset = copy.end_offset
        return copy


class Topics:
    """Topics that exist: all of them with eight partitions, unless said otherwise."""

    def __init__(self, names: Iterable[str] = ("t", "t1", "t2", "t3")) -> None:
        self.known = {
            name: KnownTopic(name, bytes(15) + bytes([number]), 8) for number, name in enumerate(names, 1)
        }

    def by_name(self, name: str) -> KnownTopic | None:
        return self.known.get(name)

    def by_id(self, topic_id: bytes) -> KnownTopic | None:
        return next((topic for topic in self.known.values() if topic.topic_id == topic_id), None)


class World:
    """A broker's group coordinator and everything around it."""

    def __init__(
        self, config: GroupConfig | None = None, *, partition_count: int = 1, elect: bool = True
    ) -> None:
        self.clock = ManualClock()
        self.config = config or GroupConfig()
        self.topics = Topics()
        self.partition_count = partition_count
        self.logs = {partition: MemoryLog() for partition in range(partition_count)}
        self.epochs = dict.fromkeys(range(partition_count), 0)
        self.events: list[GroupEvent] = []
        self.loading: list[Shard[Any, Any]] = []
        self.fresh = count(1)
        self.coordinator = self._coordinator()
        if elect:
            self.elect_all()

    def _coordinator(self) -> GroupCoordinator:
        return GroupCoordinator(
            self.config, partition_count=self.partition_count, topics=self.topics, host=self
        )

    # --- what the coordinator asks of its host -------------------------------------------------------

    def send(self, token: object, response: object) -> None:
        assert isinstance(token, Call)
        token.answers.append(response)

    def tell(self, event: object) -> None:
        assert isinstance(event, GroupEvent)
        self.events.append(event)

    def wake(self, at_ms: int) -> None:
        assert at_ms >= self.clock.now_ms()

    def load(self, shard: Shard[Any, Any]) -> None:
        self.loading.append(shard)

    # --- time, disk and leadership -------------------------------------------------------------------

    @property
    def log(self) -> MemoryLog:
        return self.logs[0]

    @property
    def shard(self) -> Shard[Any, Any]:
        shard = self.coordinator.shards.get(0)
        assert shard is not None
        return shard

    @property
    def state(self) -> GroupState:
        machine = self.shard.machine
        assert isinstance(machine, GroupMachine)
        return machine.state

    def context(self, token: object = None, client_id: str = "client") -> Context:
        return Context(
            now_ms=self.clock.now_ms(),
            timestamp_ms=self.clock.timestamp_ms(),
            client_id=client_id,
            client_host="/127.0.0.1",
            fresh_id=f"id{next(self.fresh)}",
            token=token,
        )

    def elect_all(self) -> None:
        for partition in range(self.partition_count):
            self.elect(partition)
        self.load_all()

    def elect(self, partition: int, epoch: int | None = None) -> bool:
        if epoch is None:
            self.epochs[partition] += 1
            epoch = self.epochs[partition]
        return self.coordinator.shards.elect(partition, epoch, lambda: self.logs[partition])

    def load_all(self, max_bytes: int = 1 << 20) -> None:
        while self.loading:
            shard = self.loading.pop()
            while not shard.load_some(self.context(), max_bytes):
                pass

    def restart(self) -> None:
        """Everything that is not in the log is gone."""
        for log in self.logs.values():
            log.cut_back()
        self.coordinator = self._coordinator()
        self.loading.clear()
        self.elect_all()

    def flush(self) -> None:
        for partition, log in self.logs.items():
            log.durable_offset = log.end_offset
            shard = self.coordinator.shards.get(partition)
            if shard is not None and shard.status is Status.ACTIVE:
                shard.on_durable(self.context())

    def fail_flush(self) -> None:
        self.shard.on_flush_failed()

    def pass_ms(self, duration_ms: int) -> None:
        """Let time pass, firing every timer at its own instant."""
        until_ms = self.clock.now_ms() + duration_ms
        while True:
            look_ms = self.coordinator.shards.next_look_ms()
            if look_ms is None or look_ms > until_ms:
                break
            self.clock.advance(max(look_ms - self.clock.now_ms(), 0))
            self.coordinator.shards.tick(self.context())
        self.clock.advance(until_ms - self.clock.now_ms())

    # --- requests ------------------------------------------------------------------------------------

    def ask(self, request: object, client_id: str = "client") -> Call[Any]:
        call: Call[Any] = Call(request)
        self.coordinator.handle(request, self.context(call, client_id))
        return call

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
        call: Call[OffsetFetchResponse] = self.ask(at_version(request, version))
        return call.response

    def delete_offsets(self, *partitions: tuple[str, int], group: str = "g") -> OffsetDeleteResponse:
        topics: dict[str, list[OffsetDeleteRequestPartition]] = {}
        for topic, partition in partitions:
            topics.setdefault(topic, []).append(OffsetDeleteRequestPartition(partition))
        request = OffsetDeleteRequest(
            group, [OffsetDeleteRequestTopic(name, indexes) for name, indexes in topics.items()]
        )
        call: Call[OffsetDeleteResponse] = self.ask(request)
        return call.response

    def describe(self, group: str = "g", *, version: int = 5, operations: bool = False) -> DescribedGroup:
        request = DescribeGroupsRequest(groups=[group], include_authorized_operations=operations)
        call: Call[DescribeGroupsResponse] = self.ask(at_version(request, version))
        return call.response.groups[0]

    def list(self, states: Sequence[str] = (), types: Sequence[str] = ()) -> ListGroupsResponse:
        call: Call[ListGroupsResponse] = self.ask(ListGroupsRequest(states, types))
        return call.response

    def listed(self) -> dict[str, str]:
        return {group.group_id: group.group_state for group in self.list().groups}

    def delete(self, *groups: str) -> dict[str, ErrorCode]:
        call: Call[DeleteGroupsResponse] = self.ask(DeleteGroupsRequest(groups))
        return {result.group_id: ErrorCode(result.error_code) for result in call.response.results}

    # --- groups in a known state ---------------------------------------------------------------------

    def group(self, group_id: str = "g") -> Group:
        return self.state.groups[group_id]

    def live(self, group_id: str = "g") -> Live:
        return self.group(group_id).live

    def phase(self, group_id: str = "g") -> Phase:
        return self.live(group_id).phase

    def joined(self, size: int = 1, **arguments: Any) -> list[str]:
        """A group that waits for its leader's assignment; the leader comes first."""
        calls = [self.join(**arguments) for _ in range(size)]
        self.pass_ms(2 * DELAY_MS)
        return [call.response.member_id for call in calls]

    def stable(
        self,
        size: int = 1,
        *,
        assign: Callable[[int], bytes] = lambda number: assignment(("t", number)),
        **arguments: Any,
    ) -> list[str]:
        """A stable group of dynamic members; the leader comes first."""
        members = self.joined(size, **arguments)
        group = arguments.get("group", "g")
        self.settle(members, group=group, assign=assign)
        return members

    def settle(
        self,
        members: Sequence[str],
        *,
        group: str = "g",
        assign: Callable[[int], bytes] = lambda number: assignment(("t", number)),
    ) -> None:
        """Let every member of the generation sync, the leader first."""
        generation = self.live(group).generation
        given = {member_id: assign(number) for number, member_id in enumerate(members)}
        for member_id in members:
            call = self.sync(member_id, generation, given, group=group)
            assert call.error is ErrorCode.none
        assert self.phase(group) is Phase.STABLE

    def statics(self, *instances: str, **arguments: Any) -> list[str]:
        """A stable group of static members; the leader comes first."""
        calls = [self.join(instance=instance, version=9, **arguments) for instance in instances]
        self.pass_ms(2 * DELAY_MS)
        members = [call.response.member_id for call in calls]
        self.settle(members)
        return members


def commit_errors(call: Call[OffsetCommitResponse]) -> dict[tuple[str, int], ErrorCode]:
    return {
        (topic.name, answer.partition_index): ErrorCode(answer.error_code)
        for topic in call.response.topics
        for answer in topic.partitions
    }
