"""Closing: the listener still has a consumer that can commit."""

from __future__ import annotations

import pytest

from klamm.client.consumer.consumer import Consumer
from klamm.errors import IllegalStateError, KlammTimeoutError, RebalanceListenerError
from klamm.protocol.api import ApiKey
from unit.client.consumer.fake_cluster import partitions
from unit.client.consumer.world import Heard, World

T0, T1 = partitions("t", [0, 1])


@pytest.fixture
def world() -> World:
    world = World()
    world.cluster.create("t", 2)
    world.cluster.produce(T0, b"0", b"1")
    return world


def a_member(world: World, heard: Heard) -> Consumer:
    consumer = world.consumer(group_id="g", enable_auto_commit=False)
    consumer.subscribe(["t"], heard)
    consumer.poll(1)
    return consumer


def test_a_listener_commits_while_the_consumer_closes(world: World) -> None:
    heard = Heard()
    consumer = a_member(world, heard)
    heard.do["revoked"] = lambda given: consumer.commit({item: consumer.position(item) for item in given})
    consumer.close()
    assert world.cluster.group.committed == {T0: (2, -1, ""), T1: (0, -1, "")}
    assert world.cluster.group.members == {}


def test_an_asynchronous_commit_of_the_listener_is_sent_before_the_member_leaves(world: World) -> None:
    heard = Heard()
    consumer = a_member(world, heard)
    heard.do["revoked"] = lambda _: consumer.commit_async({T0: 1})
    consumer.close()
    assert world.cluster.group.committed == {T0: (1, -1, "")}


def test_a_listener_cannot_read_or_subscribe_while_the_consumer_closes(world: World) -> None:
    heard = Heard()
    consumer = a_member(world, heard)
    refused: list[str] = []

    def try_everything(_given: object) -> None:
        for call in (consumer.poll, lambda: consumer.subscribe(["t"]), lambda: consumer.assign([T0])):
            with pytest.raises(IllegalStateError, match="closing"):
                call()
            refused.append("yes")
        consumer.unsubscribe()  # under way already
        consumer.close()

    heard.do["revoked"] = try_everything
    consumer.close()
    assert refused == ["yes"] * 3
    with pytest.raises(IllegalStateError, match="is closed"):
        consumer.commit()


def test_what_the_listener_waits_for_ends_with_the_time_out_of_closing(world: World) -> None:
    heard = Heard()
    consumer = a_member(world, heard)
    heard.do["revoked"] = lambda _: consumer.commit()
    world.cluster.hold(ApiKey.OFFSET_COMMIT, ApiKey.LEAVE_GROUP)
    began_ms = world.clock.now_ms()
    with pytest.raises(RebalanceListenerError) as failed:
        consumer.close(2)
    assert isinstance(failed.value.__cause__, KlammTimeoutError)
    assert world.clock.now_ms() - began_ms < 3_000
