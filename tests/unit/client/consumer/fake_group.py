"""A group coordinator for tests: joins wait for all members, the first one leads, sessions expire."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from klamm.clock import ManualClock
from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from klamm.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from klamm.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from klamm.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from klamm.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from klamm.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from klamm.protocol.types import ZERO_ID, TopicPartition
from unit.client.fakes import Asked

MIN_SESSION_MS = 6_000


@dataclass
class FakeMember:
    """One member, as the coordinator sees it."""

    member_id: str
    instance_id: str | None
    session_timeout_ms: int
    expires_at_ms: int
    protocols: dict[str, bytes] = field(default_factory=dict)
    waiting_join: Asked | None = None
    waiting_sync: Asked | None = None


class FakeGroup:
    """One group; enough of a coordinator to rebalance by."""

    def __init__(
        self,
        clock: ManualClock,
        reply: Callable[[Asked, Any], None],
        name_of: Callable[[bytes, str], str | None],
    ) -> None:
        self._clock = clock
        self._reply = reply
        self._name_of = name_of
        self.members: dict[str, FakeMember] = {}
        self.generation_id = 0
        self.phase = "empty"  # preparing, completing, stable
        self.leader = ""
        self.protocol = ""
        self.assignments: dict[str, bytes] = {}
        self.committed: dict[TopicPartition, tuple[int, int, str]] = {}
        self._made = 0
        self._given: set[str] = set()

    def handle(self, asked: Asked) -> Any:
        match asked.api_key:
            case ApiKey.JOIN_GROUP:
                return self._join(asked, asked.request)
            case ApiKey.SYNC_GROUP:
                return self._sync(asked, asked.request)
            case ApiKey.HEARTBEAT:
                return self._heartbeat(asked.request)
            case ApiKey.LEAVE_GROUP:
                return self._leave(asked.request)
            case ApiKey.OFFSET_COMMIT:
                return self._commit(asked.request)
            case ApiKey.OFFSET_FETCH:
                return self._fetch(asked.request)
        raise AssertionError(f"nobody answers {asked.api_key.name} here")

    def tick(self) -> bool:
        """Remove who was silent for too long; answer joins and syncs that are complete."""
        now_ms = self._clock.now_ms()
        silent = [
            member
            for member in self.members.values()
            if member.expires_at_ms <= now_ms and not (member.waiting_join or member.waiting_sync)
        ]
        for member in silent:
            self._remove(member.member_id)
        return bool(silent) or self._complete()

    def next_due_ms(self) -> int | None:
        return min((member.expires_at_ms for member in self.members.values()), default=None)

    def expel(self, member_id: str) -> None:
        """Forget a member without telling it."""
        self._remove(member_id)

    def rebalance(self) -> None:
        """Begin a rebalance, as if somebody unseen had come."""
        self.phase = "preparing"

    def _remove(self, member_id: str) -> None:
        if self.members.pop(member_id, None) is not None:
            self.phase = "preparing" if self.members else "empty"

    def _join(self, asked: Asked, request: JoinGroupRequest) -> JoinGroupResponse | None:
        if request.session_timeout_ms < MIN_SESSION_MS:
            return JoinGroupResponse(error_code=ErrorCode.invalid_session_timeout)
        member_id = request.member_id
        if not member_id:
            self._made += 1
            if request.group_instance_id is None:
                self._given.add(f"member-{self._made}")
                return JoinGroupResponse(
                    error_code=ErrorCode.member_id_required, member_id=f"member-{self._made}"
                )
            member_id = f"{request.group_instance_id}-{self._made}"
            for old in [
                item for item in self.members.values() if item.instance_id == request.group_instance_id
            ]:
                del self.members[old.member_id]
        elif member_id not in self.members and member_id not in self._given:
            return JoinGroupResponse(error_code=ErrorCode.unknown_member_id, member_id=member_id)
        self._given.discard(member_id)
        member = self.members.setdefault(
            member_id, FakeMember(member_id, request.group_instance_id, request.session_timeout_ms, 0)
        )
        member.protocols = {item.name: bytes(item.metadata) for item in request.protocols}
        member.expires_at_ms = self._clock.now_ms() + request.session_timeout_ms
        member.waiting_join = asked
        self.phase = "preparing"
        return None

    def _complete(self) -> bool:
        members = list(self.members.values())
        if self.phase != "preparing" or not members or not all(item.waiting_join for item in members):
            return False
        self.generation_id += 1
        self.phase = "completing"
        self.leader = self.leader if self.leader in self.members else members[0].member_id
        common = [
            name for name in members[0].protocols if all(name in member.protocols for member in members)
        ]
        self.protocol = common[0]
        for member in members:
            asked, member.waiting_join = member.waiting_join, None
            assert asked is not None
            is_leader = member.member_id == self.leader
            listed = [
                JoinGroupResponseMember(item.member_id, item.instance_id, item.protocols[self.protocol])
                for item in members
            ]
            self._reply(
                asked,
                JoinGroupResponse(
                    generation_id=self.generation_id,
                    protocol_type="consumer",
                    protocol_name=self.protocol,
                    leader=self.leader,
                    member_id=member.member_id,
                    members=listed if is_leader else [],
                ),
            )
        return True

    def _check(self, member_id: str, generation_id: int) -> int:
        member = self.members.get(member_id)
        if member is None:
            return ErrorCode.unknown_member_id
        if generation_id != self.generation_id:
            return ErrorCode.illegal_generation
        member.expires_at_ms = self._clock.now_ms() + member.session_timeout_ms
        return ErrorCode.none

    def _sync(self, asked: Asked, request: SyncGroupRequest) -> SyncGroupResponse | None:
        code = self._check(request.member_id, request.generation_id)
        if code == ErrorCode.none and self.phase == "preparing":
            code = ErrorCode.rebalance_in_progress
        if code != ErrorCode.none:
            return SyncGroupResponse(error_code=code)
        self.members[request.member_id].waiting_sync = asked
        if request.member_id == self.leader:
            self.phase = "stable"
            self.assignments = {item.member_id: bytes(item.assignment) for item in request.assignments}
        if self.phase == "stable":
            for member in self.members.values():
                waiting, member.waiting_sync = member.waiting_sync, None
                if waiting is not None:
                    self._reply(waiting, self._synced(member.member_id))
        return None

    def _synced(self, member_id: str) -> SyncGroupResponse:
        return SyncGroupResponse(
            protocol_type="consumer",
            protocol_name=self.protocol,
            assignment=self.assignments.get(member_id, b""),
        )

    def _heartbeat(self, request: HeartbeatRequest) -> HeartbeatResponse:
        code = self._check(request.member_id, request.generation_id)
        if code == ErrorCode.none and self.phase == "preparing":
            code = ErrorCode.rebalance_in_progress
        return HeartbeatResponse(error_code=code)

    def _leave(self, request: LeaveGroupRequest) -> LeaveGroupResponse:
        for member in request.members:
            self._remove(member.member_id)
        return LeaveGroupResponse()

    def _commit(self, request: OffsetCommitRequest) -> OffsetCommitResponse:
        code: int = ErrorCode.none
        if request.generation_id_or_member_epoch >= 0:
            code = self._check(request.member_id, request.generation_id_or_member_epoch)
        topics = []
        for topic in request.topics:
            name = self._name_of(topic.topic_id, topic.name)
            refused = code
            if code == ErrorCode.none and name is None:
                by_id = topic.topic_id != ZERO_ID
                refused = ErrorCode.unknown_topic_id if by_id else ErrorCode.unknown_topic_or_partition
            for item in topic.partitions:
                if name is not None and refused == ErrorCode.none:
                    self.committed[TopicPartition(name, item.partition_index)] = (
                        item.committed_offset,
                        item.committed_leader_epoch,
                        item.committed_metadata or "",
                    )
            topics.append(
                OffsetCommitResponseTopic(
                    topic_id=topic.topic_id,
                    name=topic.name,
                    partitions=[
                        OffsetCommitResponsePartition(item.partition_index, refused)
                        for item in topic.partitions
                    ],
                )
            )
        return OffsetCommitResponse(topics=topics)

    def _fetch(self, request: OffsetFetchRequest) -> OffsetFetchResponse:
        def found(topic: str, number: int) -> OffsetFetchResponsePartitions:
            item = self.committed.get(TopicPartition(topic, number), (-1, -1, ""))
            return OffsetFetchResponsePartitions(number, *item)

        (group,) = request.groups
        return OffsetFetchResponse(
            groups=[
                OffsetFetchResponseGroup(
                    group_id=group.group_id,
                    topics=[
                        OffsetFetchResponseTopics(
                            name=topic.name,
                            partitions=[found(topic.name, number) for number in topic.partition_indexes],
                        )
                        for topic in group.topics or ()
                    ],
                )
            ]
        )
