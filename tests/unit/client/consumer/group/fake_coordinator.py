"""A coordinator of the consumer protocol that grants what a test says, and remembers what it was told."""

from __future__ import annotations

from dataclasses import dataclass, field

from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
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
from unit.client.consumer.fake_cluster import FakeCluster

INTERVAL_MS = 1_000
NOTHING: dict[str, list[int]] = {}


@dataclass
class Granted:
    """One member as this coordinator has it."""

    epoch: int = 1
    assignment: dict[str, list[int]] = field(default_factory=dict)
    is_news: bool = True
    instance_id: str | None = None


class FakeCoordinator:
    """One group. A member gets everything that is `free` when it joins."""

    def __init__(self, cluster: FakeCluster) -> None:
        self._cluster = cluster
        self.free: dict[str, list[int]] = {}
        self.members: dict[str, Granted] = {}
        self.offsets: dict[tuple[str, int], int] = {}
        self._refusals: list[int] = []
        cluster.answer_always(ApiKey.CONSUMER_GROUP_HEARTBEAT, self._heartbeat)
        cluster.answer_always(ApiKey.OFFSET_COMMIT, self._commit)
        cluster.answer_always(ApiKey.OFFSET_FETCH, self._fetch)

    # --- what a test arranges, and looks at -------------------------------------------------------------

    def heartbeats(self) -> list[ConsumerGroupHeartbeatRequest]:
        return self._cluster.requests(ApiKey.CONSUMER_GROUP_HEARTBEAT)

    def grant(self, assignment: dict[str, list[int]]) -> None:
        """Another assignment for the only member, at the next epoch."""
        (member,) = self.members.values()
        member.assignment, member.is_news = assignment, True
        member.epoch += 1

    def refuse(self, *codes: int) -> None:
        """Answer the next heartbeats with these errors."""
        self._refusals += codes

    def fence(self) -> None:
        """Remove all members."""
        self.members.clear()

    def owned(self, request: ConsumerGroupHeartbeatRequest) -> dict[str, list[int]] | None:
        """What a heartbeat says that its member owns, by topic name."""
        if request.topic_partitions is None:
            return None
        names = {self._cluster.id_of(name): name for name in self._cluster.topics}
        return {names[each.topic_id]: list(each.partitions) for each in request.topic_partitions}

    # --- what it answers --------------------------------------------------------------------------------

    def _heartbeat(self, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
        if self._refusals:
            return ConsumerGroupHeartbeatResponse(error_code=self._refusals.pop(0))
        if request.member_epoch < 0:
            self.members.pop(request.member_id, None)
            return ConsumerGroupHeartbeatResponse(member_epoch=request.member_epoch)
        if request.member_epoch == 0:
            self.members[request.member_id] = Granted(
                1 + len(self.members), dict(self.free), instance_id=request.instance_id
            )
        member = self.members.get(request.member_id)
        if member is None:
            return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.unknown_member_id)
        is_full = request.rebalance_timeout_ms >= 0 and request.topic_partitions is not None
        response = ConsumerGroupHeartbeatResponse(
            member_id=request.member_id, member_epoch=member.epoch, heartbeat_interval_ms=INTERVAL_MS
        )
        if is_full or member.is_news:
            response.assignment = Assignment(
                [
                    TopicPartitions(self._cluster.id_of(topic), partitions)
                    for topic, partitions in member.assignment.items()
                ]
            )
            member.is_news = False
        return response

    def _epoch_error(self, member_id: str, epoch: int) -> int:
        member = self.members.get(member_id)
        if member is None:
            return ErrorCode.unknown_member_id
        return ErrorCode.none if epoch == member.epoch else ErrorCode.stale_member_epoch

    def _commit(self, request: OffsetCommitRequest) -> OffsetCommitResponse:
        error_code = self._epoch_error(request.member_id, request.generation_id_or_member_epoch)
        names = {self._cluster.id_of(name): name for name in self._cluster.topics}
        for topic in request.topics:
            for item in topic.partitions:
                if not error_code:
                    name = topic.name or names[topic.topic_id]
                    self.offsets[name, item.partition_index] = item.committed_offset
        return OffsetCommitResponse(
            topics=[
                OffsetCommitResponseTopic(
                    topic_id=topic.topic_id,
                    name=topic.name,
                    partitions=[
                        OffsetCommitResponsePartition(item.partition_index, error_code)
                        for item in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    def _fetch(self, request: OffsetFetchRequest) -> OffsetFetchResponse:
        (group,) = request.groups
        if group.member_id is not None:
            error_code = self._epoch_error(group.member_id, group.member_epoch)
            if error_code:
                return OffsetFetchResponse(
                    groups=[OffsetFetchResponseGroup(group_id=group.group_id, error_code=error_code)]
                )
        topics = [
            OffsetFetchResponseTopics(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartitions(
                        partition_index=number, committed_offset=self.offsets.get((topic.name, number), -1)
                    )
                    for number in topic.partition_indexes
                ],
            )
            for topic in group.topics or ()
        ]
        return OffsetFetchResponse(groups=[OffsetFetchResponseGroup(group_id=group.group_id, topics=topics)])
