"""Consumer groups at the edges: no coordinator, racks, admin requests, answers that are lost."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from klamm.assignors.base import PartitionView
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from unit.coordinator.group.consumer.driver import GroupWorld
from unit.coordinator.group.consumer.names import ALL


@pytest.fixture
def world() -> GroupWorld:
    return GroupWorld()


def test_a_coordinator_that_loads_has_moved_or_stops_says_so(world: GroupWorld) -> None:
    # scenario 7 of consumer groups
    world.elect(0)
    assert world.beat("A", 0).error is ErrorCode.coordinator_load_in_progress
    world.load_all()
    world.coordinator.shards.resign(0, world.epochs[0] + 1)
    assert world.beat("A", 0).error is ErrorCode.not_coordinator
    world.coordinator.shards.stop()
    assert world.beat("A", 0).error is ErrorCode.coordinator_not_available


def test_other_racks_of_a_topics_replicas_raise_the_epoch_and_another_leader_does_not(
    world: GroupWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    # scenario 24 of consumer groups
    racks, leader = ["r1", "r2"], "r1"

    def views(name: str) -> Sequence[PartitionView]:
        return [PartitionView(frozenset(racks), leader)] * 6

    monkeypatch.setattr(world.topics, "partition_views", views)
    world.beat("A", 0)
    leader = "r2"
    world.topics.version += 1
    assert world.beat("A", 1).epoch == 1
    racks.append("r3")
    world.topics.version += 1
    assert world.beat("A", 1).epoch == 2


def test_a_classic_group_is_not_described_as_a_consumer_group(world: GroupWorld) -> None:
    # scenario 75 of consumer groups
    world.joined(group="classic")
    for group in ("classic", "absent"):
        (described,) = world.ask(ConsumerGroupDescribeRequest([group])).response.groups
        assert described.error_code == ErrorCode.group_id_not_found
    world.beat("A", 0)
    assert world.described().members[0].subscribed_topic_regex == ""  # as Kafka where there is none
    for version, error in ((5, ErrorCode.none), (6, ErrorCode.group_id_not_found)):
        found = world.describe("g", version=version)
        assert (found.error_code, found.group_state) == (error, "Dead")


def test_a_group_is_listed_with_its_type_and_state(world: GroupWorld) -> None:
    # scenario 76 of consumer groups
    world.beat("A", 0)
    world.beat("B", 0)
    (listed,) = world.list_groups(states=("reconciling",)).groups
    assert (listed.group_type, listed.group_state) == ("consumer", "Reconciling")


def test_a_group_is_deleted_with_the_tombstones_of_its_offsets_first(world: GroupWorld) -> None:
    # scenario 77 of consumer groups
    world.beat("A", 0)
    world.commit({("t", 0): 1}, member_id="A", generation=1, version=9)
    assert world.delete("g") == {"g": ErrorCode.non_empty_group}
    world.beat("A", -1)
    records = world.log.end_offset
    assert world.delete("g") == {"g": ErrorCode.none}
    assert world.kinds(records, of=range(17)) == [1, 6, 3]


def test_an_answer_that_was_lost_with_its_broker_is_given_again(world: GroupWorld) -> None:
    # scenario 81 of consumer groups
    world.beat("A", 0)
    world.beat("B", 0)
    kept = world.beat("A", 1).got
    world.beat("A", 1, owned=kept)  # it is at epoch 2 now, and never hears of it
    world.restart()
    again = world.beat("A", 1, owned=kept)
    assert (again.epoch, again.error) == (2, ErrorCode.none)
    assert world.beat("B", 2).got == " ".join(sorted(set(ALL.split()) - set((kept or "").split())))
