"""The group coordinator of a fake cluster is klamm's own: it decides joins, sessions and commits."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

from klamm.clock import ManualClock
from klamm.coordinator.group.classic.membership import ClassicMembership, Member, classic_membership
from klamm.coordinator.group.config import GroupConfig
from klamm.coordinator.group.topics import KnownTopic
from klamm.protocol.messages.join_group import JoinGroupRequest
from klamm.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from klamm.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from klamm.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from klamm.protocol.types import TopicPartition
from klamm.testing.rebalances.coordinator import CoordinatorInMemory, MemoryLog, ScriptedTopics
from unit.client.fakes import Asked

GHOST = "ghost"


class ClusterTopics(ScriptedTopics):
    """The topics of the cluster, as they are now."""

    def __init__(self, list_topics: Callable[[], dict[str, KnownTopic]]) -> None:
        super().__init__({})
        self._list_topics = list_topics

    def by_name(self, name: str) -> KnownTopic | None:
        return self._list_topics().get(name)

    def by_id(self, topic_id: bytes) -> KnownTopic | None:
        return next((each for each in self._list_topics().values() if each.topic_id == topic_id), None)


class Token:
    """A request, until it is answered."""

    def __init__(self, keep: Callable[[Any], None]) -> None:
        self.keep = keep


class RealGroup(CoordinatorInMemory[MemoryLog]):
    """Groups; most tests have one. Member ids are `member-1`, `member-2` and so on."""

    def __init__(
        self,
        clock: ManualClock,
        reply: Callable[[Asked, Any], None],
        list_topics: Callable[[], dict[str, KnownTopic]],
    ) -> None:
        config = GroupConfig(group_initial_rebalance_delay_ms=0)
        super().__init__(clock, config, ClusterTopics(list_topics), MemoryLog)
        self._reply = reply
        self._made = count(1)
        self._answered = 0
        self.group_id = "g"  # the last one that was asked for
        self.elect_all()

    # --- requests ---------------------------------------------------------------------------------------

    def handle(self, asked: Asked) -> None:
        """Decide; the answer may come later."""
        self.group_id = getattr(asked.request, "group_id", "") or self.group_id

        def keep(response: Any) -> None:
            self._answered += 1
            self._reply(asked, response)

        self._decide(asked.request, keep)

    def _decide(self, request: Any, keep: Callable[[Any], None]) -> None:
        context = self.context(Token(keep), "member")
        if isinstance(request, JoinGroupRequest) and not request.member_id:
            context.fresh_id = GHOST if request.group_instance_id == GHOST else str(next(self._made))
        self.coordinator.handle(request, context)

    def _ask(self, request: Any) -> Any:
        answers: list[Any] = []
        self._decide(request, answers.append)
        return answers[0]

    def tick_if_due(self) -> bool:
        """Remove members that were silent for too long, and so on; whether anything was answered."""
        before, due_ms = self._answered, self.next_due_ms()
        if due_ms is not None and due_ms <= self.clock.now_ms():
            self.tick()
        return self._answered != before

    # --- what tests arrange and look at -----------------------------------------------------------------

    @property
    def live(self) -> ClassicMembership:
        return classic_membership(self.state.of(self.group_id)) or ClassicMembership(self.group_id)

    @property
    def members(self) -> dict[str, Member]:
        return self.live.members

    @property
    def generation_id(self) -> int:
        return self.live.generation

    def expel(self, member_id: str) -> None:
        """Remove a member without telling it."""
        self._ask(LeaveGroupRequest(self.group_id, [MemberIdentity(member_id)]))

    def rebalance(self) -> None:
        """Begin a rebalance: another member comes, and goes at once."""
        protocols = next(iter(self.members.values())).protocols
        join = JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=45_000,
            rebalance_timeout_ms=45_000,
            group_instance_id=GHOST,
            protocol_type="consumer",
            protocols=protocols,
        )
        self._decide(join, lambda _refused: None)
        self._ask(LeaveGroupRequest(self.group_id, [MemberIdentity("", GHOST)]))

    @property
    def committed(self) -> dict[TopicPartition, tuple[int, int, str]]:
        """(offset, leader epoch, metadata) of what was committed, in all groups."""
        groups = [OffsetFetchRequestGroup(group_id=each, topics=None) for each in self.state.groups]
        request = OffsetFetchRequest(groups=groups, is_batched=True, has_top_level_error=True)
        return {
            TopicPartition(topic.name, each.partition_index): (
                each.committed_offset,
                each.committed_leader_epoch,
                each.metadata,
            )
            for group in self._ask(request).groups
            for topic in group.topics
            for each in topic.partitions
        }

    def commit(self, partition: TopicPartition, offset: int, leader_epoch: int = -1) -> None:
        """Commit for a group without members."""
        request = OffsetCommitRequest(
            group_id=self.group_id,
            generation_id_or_member_epoch=-1,
            topics=[
                OffsetCommitRequestTopic(
                    name=partition.topic,
                    partitions=[OffsetCommitRequestPartition(partition.partition, offset, leader_epoch, "")],
                )
            ],
        )
        (topic,) = self._ask(request).topics
        assert topic.partitions[0].error_code == 0

    def topic_deleted(self, topic: str) -> None:
        self.coordinator.topic_deleted(topic, self.context())
