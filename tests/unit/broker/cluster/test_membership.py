"""Brokers of one cluster on virtual time: arrivals, deaths, moves, stops, fencing."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import pytest

from internals.cluster_jar import ClusterJar
from klamm.broker.broker import BrokerNode
from klamm.broker.cluster.image import ClusterImage
from klamm.broker.cluster.topic_names import OFFSETS_TOPIC
from klamm.broker.net.server import StartError
from klamm.broker.partitions.registry import Partition
from klamm.storage.cluster import (
    BrokerRegistration,
    BrokerState,
    ClusterStoreError,
    ConfigResourceType,
    PartitionRegistration,
    TopicState,
)


@pytest.fixture
def three() -> Iterator[ClusterJar]:
    world = ClusterJar(1, 2, 3)
    yield world
    world.close()


def kill(world: ClusterJar, broker_id: int) -> None:
    """The broker does nothing any more; its lease ends at once, as a file lock does."""
    member = world.members.pop(broker_id)
    stop_quietly(world, member.membership)
    world.leases.end(broker_id)


def stop_quietly(world: ClusterJar, membership: object) -> None:
    for chore in membership._chores:  # type: ignore[attr-defined]  # as if the process were gone
        world.loop.run(chore.stop())
    membership._poll_timer.cancel()  # type: ignore[attr-defined]
    world.loop.run(membership._renewing.stop())  # type: ignore[attr-defined]


def states(world: ClusterJar) -> dict[int, BrokerState]:
    return {each.broker_id: each.state for each in world.cluster.brokers()}


def test_every_broker_sees_all_and_each_partition_is_open_at_its_leader(three: ClusterJar) -> None:
    three.create_topic("t", 6)
    assert states(three) == dict.fromkeys((1, 2, 3), BrokerState.RUNNING)
    leaders = [leader for leader, _ in three.leaders("t")]
    assert sorted(leaders) == [1, 1, 2, 2, 3, 3]
    assert three.open_at("t") == {
        each: [number for number, leader in enumerate(leaders) if leader == each] for each in (1, 2, 3)
    }


def test_a_change_is_seen_by_others_within_two_polls(three: ClusterJar) -> None:
    # scenario 71
    three.members[1].cluster.replace_configs(ConfigResourceType.BROKER, "", {"message.max.bytes": "2000"})
    three.pass_ms(45)
    assert {each.services.config.topic_config({}).max_message_bytes for each in three.members.values()} == {
        2000
    }


def test_a_dead_brokers_partitions_are_taken_over_and_no_others_move(three: ClusterJar) -> None:
    three.create_topic("t", 6, 3)
    before = three.leaders("t")
    kill(three, 1)
    three.pass_ms(300)
    after = three.leaders("t")
    assert states(three)[1] is BrokerState.GONE
    for (old, epoch), (new, new_epoch) in zip(before, after, strict=True):
        if old == 1:
            assert new in (2, 3)
            assert new_epoch == epoch + 1
        else:
            assert (new, new_epoch) == (old, epoch)
    assert sorted(leader for leader, _ in after) == [2, 2, 2, 3, 3, 3]
    assert [len(three.open_at("t")[each]) for each in (2, 3)] == [3, 3]


def test_partitions_that_are_taken_over_are_shown_as_they_are_opened_those_of_coordinators_first() -> None:
    two = ClusterJar(1, 2)
    two.create_topic("a", 40)
    assert not two.loop.run(two.members[1].services.topics.ensure([OFFSETS_TOPIC]))
    two.pass_ms(50)
    survivor = two.members[2].services
    opened: list[tuple[str, int]] = []
    shown: list[int] = []  # of those opened before

    def note(partition: Partition) -> None:
        states = [survivor.image.partition(*each) for each in opened]
        shown.append(sum(state is not None and state.leader_id == 2 for state in states))
        opened.append((partition.topic, partition.partition))

    survivor.partitions.opening_watchers.append(note)
    kill(two, 1)
    two.pass_ms(300)
    moved = opened[:45]  # what they caused follows
    assert [topic for topic, _ in moved] == [OFFSETS_TOPIC] * 25 + ["a"] * 20
    assert shown[:45] == [position - position % 8 for position in range(45)]
    two.close()


def test_two_of_three_die_at_once_and_the_third_leads_all(three: ClusterJar) -> None:
    three.create_topic("t", 6)
    kill(three, 1)
    kill(three, 2)
    three.pass_ms(300)
    assert {leader for leader, _ in three.leaders("t")} == {3}
    assert three.open_at("t") == {3: [0, 1, 2, 3, 4, 5]}


def test_a_broker_that_is_back_gets_its_partitions_after_ten_quiet_seconds(three: ClusterJar) -> None:
    three.create_topic("t", 6, 3)
    before = [leader for leader, _ in three.leaders("t")]
    kill(three, 1)
    three.pass_ms(1000)
    three.start(1)
    three.pass_ms(9000)
    assert 1 not in {leader for leader, _ in three.leaders("t")}
    three.pass_ms(5000)
    assert [leader for leader, _ in three.leaders("t")] == before
    assert three.open_at("t")[1] == [number for number, leader in enumerate(before) if leader == 1]


def test_a_fourth_broker_gets_its_share_with_the_least_moves(three: ClusterJar) -> None:
    # scenario 39
    three.create_topic("t", 24)
    before = three.leaders("t")
    three.start(4)
    three.pass_ms(20_000)
    after = three.leaders("t")
    assert sorted(leader for leader, _ in after) == sorted([1, 2, 3, 4] * 6)
    assert sum(old != new for old, new in zip(before, after, strict=True)) == 6
    # It stays so: the moved partitions prefer their new broker.
    three.pass_ms(120_000)
    assert three.leaders("t") == after


def create_again(world: ClusterJar, topic: str, leader_id: int) -> None:
    """Delete a topic, and create one of the same name with one partition at another leader."""
    world.cluster.delete_topic(topic, world.cluster.topics()[topic].topic_id)
    states = (PartitionRegistration(0, (leader_id,), leader_id, 0),)
    world.cluster.create_topic(TopicState(topic, bytes(range(16)), states), {})


def strays(world: ClusterJar) -> list[str]:
    return [each.name for each in world.files.scan("/logs") if each.name.endswith("-stray")]


def test_a_topic_created_again_is_served_when_its_former_leader_has_closed_the_deleted_log(
    three: ClusterJar,
) -> None:
    three.create_topic("t", 1)
    ((former, _),) = three.leaders("t")
    to = former % 3 + 1
    # The former leader is slow to see the deletion: it may still roll, delete or compact files by name.
    membership = three.members[former].membership
    assert membership._poll_timer is not None
    membership._poll_timer.cancel()
    create_again(three, "t", to)
    three.pass_ms(500)
    assert ("t", 0) not in three.members[to].led()
    membership._poll()
    three.pass_ms(100)
    assert three.members[to].led()["t", 0] == 0
    assert ("t", 0) not in three.members[former].led()
    assert strays(three) == []
    told = three.members[to].services.leader_events
    assert told is not None
    assert not told.counts  # it was not moved


def test_a_topic_created_again_does_not_wait_for_ever_for_a_leader_that_is_dead(three: ClusterJar) -> None:
    three.create_topic("t", 1)
    ((former, _),) = three.leaders("t")
    to = former % 3 + 1
    kill(three, former)
    create_again(three, "t", to)
    three.pass_ms(2_500)
    assert three.members[to].led()["t", 0] == 0
    assert len(strays(three)) == 1


def test_an_announced_move_is_carried_out_by_the_leader(three: ClusterJar) -> None:
    three.create_topic("t", 3)
    (leader, epoch), *_ = three.leaders("t")
    to = leader % 3 + 1
    three.move("t", 0, to)
    three.pass_ms(100)
    assert three.leaders("t")[0] == (to, epoch + 1)
    assert three.members[to].led()["t", 0] == epoch + 1
    assert ("t", 0) not in three.members[leader].led()


def test_a_move_to_a_broker_that_died_is_cancelled(three: ClusterJar) -> None:
    three.create_topic("t", 3)
    (leader, epoch), *_ = three.leaders("t")
    to = leader % 3 + 1
    stop_quietly(three, three.members[leader].membership)
    three.move("t", 0, to)
    kill(three, to)
    three.pass_ms(300)
    membership = three.members[leader].membership
    membership._poll()
    three.pass_ms(100)
    assert three.leaders("t")[0] == (leader, epoch)
    assert three.cluster.topics()["t"].partitions[0].moving_to == -1
    assert three.members[leader].led()["t", 0] == epoch


def test_a_broker_that_stops_hands_its_partitions_over_first(three: ClusterJar) -> None:
    three.create_topic("t", 120)
    before = three.leaders("t")
    three.members[1].stop()
    after = three.leaders("t")
    assert states(three)[1] is BrokerState.GONE
    assert all(
        new_epoch == epoch + (old == 1) for (old, epoch), (_, new_epoch) in zip(before, after, strict=True)
    )
    assert sorted({leader for leader, _ in after}) == [2, 3]
    three.pass_ms(100)
    assert sum(len(numbers) for numbers in three.open_at("t").values()) == 120


def test_a_broker_that_stops_without_its_store_waits_for_it_until_its_time_is_over(
    three: ClusterJar, caplog: pytest.LogCaptureFixture
) -> None:
    three.create_topic("t", 6)
    member = three.members[1]
    finish_moves = member.cluster.finish_moves

    def fail(moves: object) -> Any:
        raise ClusterStoreError("the disk is gone")

    member.cluster.finish_moves = fail  # type: ignore[method-assign]  # after the partitions are closed
    began_at_ms = three.clock.now_ms()
    member.stop()
    assert 30_000 <= three.clock.now_ms() - began_at_ms <= 31_500
    assert "a second signal ends the process at once" in caplog.text
    member.cluster.finish_moves = finish_moves  # type: ignore[method-assign]
    three.pass_ms(500)
    assert {leader for leader, _ in three.leaders("t")} == {2, 3}


def test_the_last_broker_keeps_its_partitions_and_the_first_one_back_leads_all(three: ClusterJar) -> None:
    three.create_topic("t", 6)
    for broker_id in (1, 2, 3):
        three.members[broker_id].stop()
    assert {leader for leader, _ in three.leaders("t")} == {3}
    epochs = [epoch for _, epoch in three.leaders("t")]
    three.start(1)
    three.pass_ms(300)
    assert three.leaders("t") == [(1, epoch + 1) for epoch in epochs]
    assert three.open_at("t") == {1: [0, 1, 2, 3, 4, 5]}


def test_a_stopped_brokers_partitions_wait_until_its_lease_is_released(three: ClusterJar) -> None:
    three.create_topic("t", 3)
    leads = [leader for leader, _ in three.leaders("t")].index(1)
    # It left the cluster without handing over, and closes its logs.
    three.loop.run(three.members[1].membership.leave())
    three.pass_ms(500)
    assert three.leaders("t")[leads][0] == 1
    three.loop.run(three.members.pop(1).membership.release())
    three.pass_ms(300)
    assert three.leaders("t")[leads][0] in (2, 3)


def test_a_broker_declared_dead_drops_its_partitions_and_registers_anew(three: ClusterJar) -> None:
    three.create_topic("t", 6, 3)
    first_epoch = {each.broker_id: each.epoch for each in three.cluster.brokers()}[1]
    # It does not renew, but serves on.
    three.loop.run(three.members[1].membership._renewing.stop())  # type: ignore[union-attr]
    three.pass_ms(9500)
    assert 1 not in {leader for leader, _ in three.leaders("t")}
    three.loop.run(three.members[1].membership._renew())
    three.pass_ms(100)
    assert three.members[1].led() == {}
    again = {each.broker_id: each for each in three.cluster.brokers()}[1]
    assert again.epoch > first_epoch
    assert again.state is BrokerState.RUNNING


def test_a_broker_declared_dead_while_it_stops_does_not_register_anew(
    three: ClusterJar, caplog: pytest.LogCaptureFixture
) -> None:
    three.create_topic("t", 6, 3)
    three.loop.run(three.members[1].membership._renewing.stop())  # type: ignore[union-attr]
    three.pass_ms(9500)
    epoch = {each.broker_id: each.epoch for each in three.cluster.brokers()}[1]
    three.members[1].stop()
    three.pass_ms(100)
    (gone,) = [each for each in three.cluster.brokers() if each.broker_id == 1]
    assert (gone.epoch, gone.state) == (epoch, BrokerState.GONE)
    assert "broker 1 was replaced or declared dead: closing all partitions" in caplog.messages


def test_a_broker_that_stops_while_it_registers_anew_is_gone(three: ClusterJar) -> None:
    three.loop.run(three.members[1].membership._renewing.stop())  # type: ignore[union-attr]
    three.pass_ms(9500)
    member = three.members[1]
    register = member.cluster.register
    stopped: list[asyncio.Task[None]] = []

    def register_and_stop(registration: BrokerRegistration) -> BrokerRegistration:
        stopped.append(three.loop.create_task(member.broker.stop()))
        return register(registration)

    member.cluster.register = register_and_stop  # type: ignore[method-assign]  # as a thread that goes on
    three.loop.run(member.membership._renew())
    three.pass_ms(1)
    three.loop.run(asyncio.wait(stopped))
    assert states(three)[1] is BrokerState.GONE
    del three.members[1]


def test_a_broker_that_stood_still_itself_judges_nobody(three: ClusterJar) -> None:
    three.create_topic("t", 6)
    before = three.leaders("t")
    # The whole machine was suspended for a minute.
    three.clock.advance(60_000)
    three.pass_ms(5000)
    assert three.leaders("t") == before
    assert set(states(three).values()) == {BrokerState.RUNNING}


def test_a_broker_whose_store_stood_still_while_it_looked_for_deaths_judges_nobody(
    three: ClusterJar, monkeypatch: pytest.MonkeyPatch
) -> None:
    three.create_topic("t", 6)
    before = three.leaders("t")
    three.pass_ms(3000)
    lease = three.members[2].lease
    is_dead = lease.is_dead

    def stand_still(broker: BrokerRegistration, *, judges_silence: bool) -> bool:
        lease.is_dead = is_dead  # type: ignore[method-assign]  # only once
        three.clock.advance(60_000)
        return is_dead(broker, judges_silence=judges_silence)

    lease.is_dead = stand_still  # type: ignore[method-assign]
    monkeypatch.setattr(lease, "hold", lambda broker: nullcontext(True))  # as a database's does
    three.pass_ms(150)
    assert three.clock.now_ms() > 60_000
    three.pass_ms(5000)
    assert three.leaders("t") == before
    assert set(states(three).values()) == {BrokerState.RUNNING}


def test_a_second_broker_with_the_same_id_refuses_to_start(three: ClusterJar) -> None:
    with pytest.raises(StartError, match=r"broker 2 is already running.*choose another node\.id"):
        three.start(2)


def test_a_broker_waits_for_the_lease_of_its_killed_predecessor(three: ClusterJar) -> None:
    three.create_topic("t", 3)
    member = three.members.pop(2)
    stop_quietly(three, member.membership)
    began_at_ms = three.clock.now_ms()
    three.start(2)
    assert 8000 <= three.clock.now_ms() - began_at_ms <= 9100


def test_an_unavailable_store_is_reported_once_and_followed_again(
    three: ClusterJar, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise ClusterStoreError("disk I/O error")

    with monkeypatch.context() as broken, caplog.at_level(logging.ERROR):
        broken.setattr(three.members[2].cluster, "changes", fail)
        three.create_topic("t", 6)
        three.pass_ms(5000)
    assert [each.getMessage() for each in caplog.records] == [
        "the cluster store is not available, retrying: disk I/O error"
    ]
    three.pass_ms(1100)
    assert len(three.open_at("t")[2]) == 2


def test_a_lease_that_cannot_be_looked_at_is_a_failure_of_the_store(
    three: ClusterJar, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object, **__: object) -> bool:
        raise ClusterStoreError("connection refused")

    with monkeypatch.context() as broken, caplog.at_level(logging.ERROR):
        broken.setattr(three.members[2].lease, "is_dead", fail)
        three.pass_ms(1000)
    assert [each.getMessage() for each in caplog.records] == [
        "the cluster store is not available, retrying: connection refused"
    ]
    kill(three, 3)
    three.pass_ms(300)
    assert states(three)[3] is BrokerState.GONE


def test_a_broker_that_takes_long_to_start_keeps_its_lease(
    three: ClusterJar, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    open_partitions = BrokerNode._open_partitions

    async def slowly(starting: BrokerNode, *arguments: Any) -> None:
        await asyncio.sleep(20)  # more than twice as long as a lease is valid
        await open_partitions(starting, *arguments)

    monkeypatch.setattr(BrokerNode, "_open_partitions", slowly)
    with caplog.at_level(logging.WARNING):
        three.start(4)
    assert states(three)[4] is BrokerState.RUNNING
    assert caplog.messages == []


def test_a_broker_that_is_replaced_while_it_starts_registers_anew(
    three: ClusterJar, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_image = BrokerNode._load_image

    def replaced(starting: BrokerNode) -> ClusterImage:
        image = load_image(starting)
        (me,) = (each for each in three.cluster.brokers() if each.broker_id == 4)
        three.leases.end(4)
        three.members[1].cluster.take_over(me, [])
        return image

    monkeypatch.setattr(BrokerNode, "_load_image", replaced)
    member = three.start(4)
    assert states(three)[4] is BrokerState.RUNNING
    three.pass_ms(20_000)
    assert member.membership.renewals.judge_silence(three.clock.now_ms())


def test_a_store_that_fails_while_a_broker_starts_is_an_error_with_its_reason(
    three: ClusterJar, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: BrokerNode) -> ClusterImage:
        raise ClusterStoreError("connection refused")

    monkeypatch.setattr(BrokerNode, "_load_image", fail)
    with pytest.raises(StartError, match="the cluster store failed: connection refused"):
        three.start(4)
