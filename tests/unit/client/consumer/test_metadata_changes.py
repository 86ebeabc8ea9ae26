"""Topics that come, grow and move: who joins again because of it."""

from __future__ import annotations

import pytest

from klamm.protocol.api import ApiKey
from unit.client.consumer.fake_cluster import FakeLog, partitions
from unit.client.consumer.world import Heard, World

REFRESH_MS = 300_000


@pytest.fixture
def world() -> World:
    world = World()
    world.cluster.create("t", 2)
    return world


def wait_for_metadata(world: World, *consumers: object) -> None:
    """Let the metadata grow old, while the consumers go on polling."""
    for _ in range(32):
        for consumer in consumers:
            consumer.poll(0)  # type: ignore[attr-defined]  # consumers, all of them
        world.pass_time(10_000)
    for _ in range(30):
        for consumer in consumers:
            consumer.poll(0)  # type: ignore[attr-defined]  # as above
        world.pass_time(100)


def test_the_leader_joins_again_when_partitions_are_added(world: World) -> None:
    consumer = world.consumer("t", group_id="g")
    consumer.poll(1)
    world.cluster.topics["t"].append(FakeLog())
    wait_for_metadata(world, consumer)
    assert consumer.assignment() == set(partitions("t", [0, 1, 2]))
    assert "metadata changed" in consumer.rebalances()[-1].cause


def test_the_leader_joins_again_for_partitions_that_are_added_during_a_join(world: World) -> None:
    world.cluster.hold(ApiKey.SYNC_GROUP)
    consumer = world.consumer("t", group_id="g", metadata_max_age_ms=1_000)
    consumer.poll(1)
    world.cluster.topics["t"].append(FakeLog())
    consumer.poll(3)
    world.cluster.release(ApiKey.SYNC_GROUP)
    consumer.poll(1)
    assert consumer.assignment() == set(partitions("t", [0, 1, 2]))


def test_a_follower_leaves_that_to_the_leader(world: World) -> None:
    leader = world.consumer("t", group_id="g")
    leader.poll(1)
    follower = world.consumer("t", group_id="g")
    world.settle(leader, follower)
    joined = len(follower.rebalances())
    assert [entry.is_leader for entry in follower.rebalances()][-1] is False
    world.cluster.topics["t"].append(FakeLog())
    wait_for_metadata(world, leader, follower)
    assert "metadata changed" in [entry.cause for entry in leader.rebalances()][-1]
    assert [entry.cause for entry in follower.rebalances()][joined:] == ["the group is rebalancing"]


@pytest.mark.parametrize(("replicas", "joins_again"), [((1, 3), True), ((2,), False)])
def test_a_leader_with_a_rack_watches_the_racks_of_replicas(
    world: World, replicas: tuple[int, ...], joins_again: bool
) -> None:
    world.cluster.racks = {1: "a", 2: "a", 3: "b"}
    consumer = world.consumer("t", group_id="g", client_rack="a")
    consumer.poll(1)
    for log in world.cluster.topics["t"]:
        log.replicas = replicas
    wait_for_metadata(world, consumer)
    assert len(consumer.rebalances()) == (2 if joins_again else 1)


@pytest.mark.parametrize("assignor", ["range", "sticky", "cooperative-sticky", "rack-leader"])
def test_members_read_what_lies_in_their_rack(world: World, assignor: str) -> None:
    world.cluster.racks = {1: "a", 2: "b"}
    world.cluster.topics["t"] = [FakeLog(1 + n % 2, replicas=(1 + n % 2,)) for n in range(4)]
    near_b, near_a = (
        world.consumer("t", group_id="g", client_rack=rack, partition_assignment_strategy=assignor)
        for rack in ("b", "a")
    )
    world.settle(near_b, near_a)
    assert near_a.assignment() == set(partitions("t", [0, 2]))
    assert near_b.assignment() == set(partitions("t", [1, 3]))


def test_a_pattern_takes_topics_that_come_and_match_wholly(world: World) -> None:
    heard = Heard()
    consumer = world.consumer(group_id="g")
    consumer.subscribe(pattern="t.*", listener=heard)
    consumer.poll(1)
    assert consumer.subscription() == {"t"}
    world.cluster.create("t9", 1)
    world.cluster.create("xt9", 1)
    wait_for_metadata(world, consumer)
    assert consumer.subscription() == {"t", "t9"}
    assert consumer.assignment() == {*partitions("t", [0, 1]), *partitions("t9", [0])}
    assert len(consumer.rebalances()) == 2


def test_a_pattern_asks_for_all_topics_and_asks_again_before_each_join(world: World) -> None:
    consumer = world.consumer(group_id="g")
    consumer.subscribe(pattern="t.*")
    consumer.poll(1)
    assert world.cluster.requests(ApiKey.METADATA)[-1].topics is None
    world.cluster.create("t2", 1)
    consumer.enforce_rebalance()
    consumer.poll(1)
    assert consumer.assignment() == {*partitions("t", [0, 1]), *partitions("t2", [0])}
    assert len(consumer.rebalances()) == 2


@pytest.mark.parametrize(("excludes", "expected"), [(True, {"t"}), (False, {"t", "__t"})])
def test_internal_topics_match_only_if_asked_for(world: World, excludes: bool, expected: set[str]) -> None:
    world.cluster.create("__t", 1)
    world.cluster.internal.add("__t")
    consumer = world.consumer(group_id="g", exclude_internal_topics=excludes)
    consumer.subscribe(pattern=".*t")
    consumer.poll(1)
    assert consumer.subscription() == expected


def test_a_changed_subscription_joins_again(world: World) -> None:
    world.cluster.create("u", 1)
    consumer = world.consumer("t", group_id="g")
    consumer.poll(1)
    consumer.subscribe(["t", "u"])
    consumer.poll(1)
    assert consumer.assignment() == {*partitions("t", [0, 1]), *partitions("u", [0])}
    assert consumer.rebalances()[-1].cause == "the subscription has changed"


def test_the_same_subscription_again_does_not(world: World) -> None:
    consumer = world.consumer("t", group_id="g")
    consumer.poll(1)
    consumer.subscribe(["t"])
    consumer.poll(1)
    assert len(consumer.rebalances()) == 1


def test_a_topic_that_does_not_exist_yet_is_waited_for(world: World) -> None:
    consumer = world.consumer("later", group_id="g")
    consumer.poll(1)
    assert consumer.assignment() == set()
    world.cluster.create("later", 1)
    for _ in range(30):
        consumer.poll(0.2)
    assert consumer.assignment() == set(partitions("later", [0]))
