"""Requests about many groups: decided a few in each turn of the loop, so that others are answered between."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial

import pytest

from klamm.coordinator.group.coordinator import GroupCoordinator
from klamm.coordinator.runtime.coordinator import AT_ONCE
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from klamm.protocol.messages.describe_groups import DescribeGroupsRequest
from klamm.protocol.messages.inspect_groups import InspectGroupsRequest
from klamm.protocol.messages.list_groups import ListGroupsRequest
from klamm.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from unit.coordinator.asking import Call
from unit.coordinator.driver import World

GROUPS = [f"g{number}" for number in range(3 * AT_ONCE)]


class WorldOfTurns(World):
    """As in a broker: what is to be done soon is done in the next turn."""

    def __init__(self, partition_count: int = 1) -> None:
        self.later: deque[Callable[[], None]] = deque()
        super().__init__(partition_count=partition_count)
        for group_id in GROUPS:
            self.commit({("t", 0): 5}, group=group_id)
        self.flush()

    def _coordinator(self) -> GroupCoordinator:
        return GroupCoordinator(
            self.config,
            partition_count=self.partition_count,
            topics=self.topics,
            host=self,
            soon=self.later.append,
        )

    def turn(self) -> None:
        self.later.popleft()()


def _fetch() -> OffsetFetchRequest:
    groups = [OffsetFetchRequestGroup(group_id=group_id, topics=None) for group_id in GROUPS]
    return OffsetFetchRequest(groups=groups, is_batched=True)


@pytest.mark.parametrize(
    "request_of",
    [
        partial(DescribeGroupsRequest, GROUPS),
        partial(InspectGroupsRequest, GROUPS),
        partial(ConsumerGroupDescribeRequest, GROUPS),
        _fetch,
    ],
)
def test_a_few_groups_are_looked_at_in_each_turn(request_of: Callable[[], object]) -> None:
    world = WorldOfTurns()
    call: Call[object] = world.ask(request_of())
    for _ in range(2):
        assert not call.is_answered
        # Others are answered in the meantime
        assert world.heartbeat("nobody", 1) is ErrorCode.unknown_member_id
        world.turn()
    assert not world.later
    answer = call.response
    assert [group.group_id for group in answer.groups] == GROUPS  # type: ignore[attr-defined]


def test_a_list_looks_at_one_shard_in_each_turn() -> None:
    world = WorldOfTurns(partition_count=3)
    call = world.ask(ListGroupsRequest())
    world.turn()
    assert not call.is_answered
    world.turn()
    assert sorted(group.group_id for group in call.response.groups) == sorted(GROUPS)


def test_a_list_that_lost_a_shard_meanwhile_is_an_error_not_half_a_list() -> None:
    world = WorldOfTurns(partition_count=3)
    call = world.ask(ListGroupsRequest())
    world.coordinator.shards.resign(2, 9)
    world.turn()
    world.turn()
    assert (call.error, list(call.response.groups)) == (ErrorCode.not_coordinator, [])
