"""Whichever decision about groups raises, its shard goes on serving, and nothing is lost but that answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from klamm.coordinator.group.classic.membership import ClassicMembership
from klamm.coordinator.group.config import GroupConfig
from klamm.coordinator.group.machine import DECISIONS
from klamm.coordinator.runtime.shard import ShardStatus
from klamm.protocol.errors import ErrorCode
from klamm.protocol.message import Request
from klamm.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from klamm.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from klamm.protocol.messages.delete_groups import DeleteGroupsRequest
from klamm.protocol.messages.describe_groups import DescribeGroupsRequest
from klamm.protocol.messages.heartbeat import HeartbeatRequest
from klamm.protocol.messages.inspect_groups import InspectGroupsRequest
from klamm.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from klamm.protocol.messages.list_groups import ListGroupsRequest
from klamm.protocol.messages.offset_commit import OffsetCommitRequest
from klamm.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from unit.coordinator.asking import DELAY_MS, Call, assignment, commit_errors
from unit.coordinator.driver import World
from unit.coordinator.faults import Faults
from unit.coordinator.group.consumer.user_assignors import CONFIG as USERS

OK = ErrorCode.none
MINUTE_MS = 60_000
CONFIG = GroupConfig(
    offsets_retention_minutes=10,
    offsets_retention_check_interval_ms=MINUTE_MS,
    group_consumer_assignors=USERS.group_consumer_assignors,
)
KINDS = sorted(DECISIONS, key=lambda kind: kind.__name__)
SIGNALS = [kind for kind in KINDS if not issubclass(kind, Request)]


def test_the_day_has_every_decision() -> None:
    faults = Faults()
    day = Day(faults)
    day.pass_by()
    day.end()
    assert set(faults.decided) == set(DECISIONS)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("is_lasting", [False, True])
def test_a_decision_that_raises_leaves_its_shard_serving(kind: type, is_lasting: bool) -> None:
    day = Day(Faults(kind, is_lasting))
    day.pass_by()
    assert day.faults.raised
    day.end()


@pytest.mark.parametrize("kind", SIGNALS)
def test_a_signal_whose_decision_raised_is_decided_again(kind: type) -> None:
    day = Day(Faults(kind))
    day.pass_by(until=lambda: bool(day.faults.raised))
    day.world.pass_ms(1_000)
    assert day.faults.is_decided_again


class Day:
    """Clients that take every way through the coordinator, whatever they are answered."""

    def __init__(self, faults: Faults) -> None:
        self.faults = faults
        self.world = World(CONFIG, make_machine=faults.groups())
        kind, faults.kind = faults.kind, None
        (self.bystander,) = self.world.stable(1, group="calm", session_ms=1_800_000)
        faults.kind = kind

    def pass_by(self, until: Callable[[], bool] = lambda: False) -> None:
        """Take one step after the other; nobody else notices."""
        for step in (
            self._join_and_work,
            self._are_refused_by_the_log,
            self._do_not_sync,
            self._restart_as_static_members,
            self._leave,
            self._use_the_consumer_protocol,
            self._use_an_assignor_of_their_own,
            self._use_both_protocols,
            self._are_too_many,
            self._are_forgotten,
        ):
            step()
            if until():
                return
            assert self.world.shard.status is ShardStatus.ACTIVE, step.__name__
            assert not self.world.loading, f"loaded again after {step.__name__}"
            if self.faults.kind is not HeartbeatRequest:
                assert self.world.heartbeat(self.bystander, 1, group="calm") is OK
            if self.faults.kind is not OffsetCommitRequest:
                commit = self.world.commit(group="calm", member_id=self.bystander, generation=1)
                assert commit_errors(commit) == {("t", 0): OK}

    def end(self) -> None:
        """The fault is gone: after a while all that was due is done, and everybody is served."""
        world = self.world
        self.faults.heal()
        world.pass_ms(2 * MINUTE_MS)
        assert not world.shard.postponed_count
        assert world.state.expiry_timer.due_at_ms is not None
        for group in world.state.groups.values():
            if isinstance(group.membership, ClassicMembership):
                for member in group.membership.members.values():
                    is_parked = member.parked_join is not None or member.parked_sync is not None
                    assert is_parked or member.due_at_ms is not None, f"{member.member_id} never expires"
        (member_id,) = world.stable(1, group="after")
        assert world.heartbeat(member_id, 1, group="after") is OK
        assert world.commit_error(group="after", member_id=member_id, generation=1) is OK
        assert world.fetch(("t", 0), group="after") == {("t", 0): (1, OK)}
        world.leave(member_id, group="after")
        assert world.listed()["after"] == "Empty"
        assert world.delete("after") == {"after": OK}

    # --- steps ---------------------------------------------------------------------------------------

    def _member(self, call: Call[Any]) -> str:
        return call.answers[0].member_id if call.answers else ""

    def _stable(self, group: str, size: int = 2, **arguments: Any) -> list[str]:
        """A group that works, if it is let."""
        joins = [self.world.join(group=group, **arguments) for _ in range(size)]
        self.world.pass_ms(2 * DELAY_MS)
        members = [self._member(join) for join in joins]
        self._sync(group, members, 1, **arguments)
        return members

    def _sync(self, group: str, members: list[str], generation: int, **arguments: Any) -> None:
        given = {member_id: assignment(("t", number)) for number, member_id in enumerate(members)}
        instance = arguments.get("instance")
        for number, member_id in enumerate(members):
            self.world.sync(
                member_id, generation, given if number == 0 else None, group=group, instance=instance
            )

    def _join_and_work(self) -> None:
        world = self.world
        self.members = self._stable("g", session_ms=60_000)
        member_id = self.members[0]
        world.heartbeat_later(member_id, 1)
        world.commit({("t", 0): 1, ("t1", 0): 1, ("t2", 0): 1}, member_id=member_id, generation=1)
        world.fetch_later(("t", 0))
        world.txn_commit({("t3", 0): 1}, group="x")
        world.end_transaction(commit=True)
        world.ask(DescribeGroupsRequest(groups=["g"]))
        world.ask(InspectGroupsRequest(["g"]))
        world.ask(ListGroupsRequest())

    def _are_refused_by_the_log(self) -> None:
        world, members = self.world, self.members
        world.log.refuse_with = ErrorCode.kafka_storage_error
        world.commit({("t", 0): 2}, member_id=members[0], generation=1)
        world.txn_commit({("t3", 0): 2}, group="x")
        world.ask(
            OffsetDeleteRequest("g", [OffsetDeleteRequestTopic("t2", [OffsetDeleteRequestPartition(0)])])
        )
        del world.topics.known["t1"]
        world.coordinator.topic_deleted("t1", world.context())
        for member_id in members:
            world.join(member_id, session_ms=60_000)
        self._sync("g", members, 2)
        world.log.refuse_with = None
        world.pass_ms(12_000)  # the topics are checked again

    def _do_not_sync(self) -> None:
        self.world.join(group="s", rebalance_ms=5_000)
        self.world.pass_ms(2 * DELAY_MS)
        self.world.pass_ms(5_000)

    def _restart_as_static_members(self) -> None:
        world = self.world
        self._stable("st", 1, instance="a", version=9, session_ms=1_800_000)
        world.log.refuse_with = ErrorCode.kafka_storage_error
        world.join(group="st", instance="a", version=9, session_ms=1_800_000)
        world.log.refuse_with = None

    def _leave(self) -> None:
        world = self.world
        (member_id,) = self._stable("l", 1)
        world.log.refuse_with = ErrorCode.kafka_storage_error
        world.ask(LeaveGroupRequest(group_id="l", members=[MemberIdentity(member_id)]))
        world.log.refuse_with = None
        world.ask(DeleteGroupsRequest(["l"]))
        self._stable("silent", 1)
        world.pass_ms(30_000)

    def _use_the_consumer_protocol(self) -> None:
        world = self.world

        def beat(member_id: str, epoch: int, regex: str | None = None) -> None:
            is_join = epoch == 0
            world.ask(
                ConsumerGroupHeartbeatRequest(
                    group_id="consumers",
                    member_id=member_id,
                    member_epoch=epoch,
                    rebalance_timeout_ms=5_000 if is_join else -1,
                    subscribed_topic_names=["t"] if is_join else None,
                    subscribed_topic_regex=regex,
                    topic_partitions=[] if is_join else None,
                )
            )

        beat("slow", 0)
        beat("new", 0, "t")
        world.log.refuse_with = ErrorCode.kafka_storage_error
        world.pass_ms(1)  # what the expression matches is refused
        beat("other", 0)
        world.log.refuse_with = None
        world.pass_ms(10_000)
        beat("new", 2)
        world.pass_ms(1)  # it is matched again
        beat("slow", 1)
        world.ask(ConsumerGroupDescribeRequest(["consumers"]))
        world.pass_ms(10_000)  # it has not given up its partitions
        world.log.refuse_with = ErrorCode.kafka_storage_error
        world.pass_ms(45_000)  # the session of the other is over
        world.log.refuse_with = None
        world.pass_ms(2_000)

    def _use_an_assignor_of_their_own(self) -> None:
        world = self.world
        for refusal in (ErrorCode.kafka_storage_error, None):
            world.ask(
                ConsumerGroupHeartbeatRequest(
                    group_id="computed",
                    member_id="a",
                    rebalance_timeout_ms=5_000,
                    subscribed_topic_names=["t"],
                    server_assignor="first",
                    topic_partitions=[],
                )
            )
            world.log.refuse_with = refusal
            world.pass_ms(1)
        world.pass_ms(50_000)

    def _use_both_protocols(self) -> None:
        world = self.world

        def beat(member_id: str, epoch: int, group: str = "mixed") -> None:
            world.ask(
                ConsumerGroupHeartbeatRequest(
                    group_id=group,
                    member_id=member_id,
                    member_epoch=epoch,
                    rebalance_timeout_ms=60_000 if epoch == 0 else -1,
                    subscribed_topic_names=["t"] if epoch == 0 else None,
                    topic_partitions=[] if epoch == 0 else None,
                )
            )

        beat("consumer", 0)
        for name in ("slow", "lazy"):
            world.join(name, group="mixed", rebalance_ms=5_000, session_ms=60_000)
        world.join("silent", group="mixed")
        world.sync("slow", 2, group="mixed")  # it should join again
        world.log.refuse_with = ErrorCode.kafka_storage_error
        world.join("refused", group="mixed")
        world.ask(LeaveGroupRequest(group_id="mixed", members=[MemberIdentity("slow")]))
        world.log.refuse_with = None
        world.pass_ms(12_000)  # nobody has done what it was told, and the silent one is gone
        world.join("last", group="mixed", session_ms=1_800_000)
        beat("consumer", -1)
        world.restart()  # before the members could join again

    def _are_too_many(self) -> None:
        world = self.world
        self._stable("big", session_ms=1_800_000)
        world.config = replace(CONFIG, group_max_size=1)
        world.restart()
        world.pass_ms(30_000)

    def _are_forgotten(self) -> None:
        self.world.pass_ms(11 * MINUTE_MS)
