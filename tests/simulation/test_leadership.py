"""Leadership of a coordinator's log moves between two brokers, by plan and after a crash."""

from __future__ import annotations

from typing import cast

import pytest

from klamm.coordinator.runtime.placement import partition_for
from klamm.coordinator.runtime.shard import Status
from klamm.protocol.errors import ErrorCode
from simulation.admins import committed
from simulation.clients import Client
from simulation.nodes import LogAt, Node
from simulation.offsets import Offsets
from simulation.realm import GROUPS, TOPIC, Realm, Settler, Wire
from simulation.seeds import seeds
from simulation.world import BrokenPromiseError, World


def settle(realm: Realm) -> None:
    world = cast(World, realm)  # as far as its clients can tell
    movers, stayers = GROUPS
    for name in ("fred", "gina", "hugo"):
        realm.add(Settler(world, name, movers, (TOPIC.name,)))
    for name in ("ilse", "jens"):
        realm.add(Settler(world, name, stayers, (TOPIC.name,), name))


def test_the_groups_live_in_different_partitions() -> None:
    assert {partition_for(group, 2) for group in GROUPS} == {0, 1}


@pytest.mark.parametrize("seed", seeds(40))
def test_whoever_leads_promises_are_kept(seed: int) -> None:
    with Realm(seed, drop=0.01, flush_error=0.01) as realm:
        settle(realm)
        realm.run(for_ms=20_000)
        realm.heal()
        assert realm.groups.rebalances
        assert realm.offsets.reads


def first_complaint() -> str:
    for seed in range(10):
        try:
            with Realm(seed, drop=0.01, flush_error=0.01) as realm:
                settle(realm)
                realm.run(for_ms=20_000)
                realm.heal()
        except BrokenPromiseError as error:
            return str(error)
    return ""


def test_a_store_that_does_not_fence_older_leaders_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LogAt, "freeze", lambda self: None)
    assert "seed" in first_complaint()


def test_the_older_leader_is_fenced_and_the_new_one_knows_all_that_was_promised() -> None:
    group, place = "clerk", (TOPIC.name, 0)
    with Realm(1) as realm:
        partition = partition_for(group, 2)
        client = Client(cast(World, realm), "clerk")
        offsets = Offsets(client, group)

        async def commit(offset: int, node: Node) -> ErrorCode:
            wire = await client.link()
            cast(Wire, wire).node = node
            client.topic_ids = {TOPIC.name: TOPIC.topic_id}
            return ErrorCode(await offsets.commit({place: offset}, -1, "", None))

        old, new = realm.nodes[1], realm.nodes[2]
        realm.pass_ms(100)
        assert realm.do(commit(1, old)) is ErrorCode.none
        # The first leader hears nothing of it, and goes on to believe in itself.
        realm.hand_over(partition, to=2, told=False)
        realm.pass_ms(200)
        assert old.coordinator.shards.by_partition[partition].status is Status.ACTIVE
        assert realm.do(commit(2, old)) is ErrorCode.not_coordinator
        assert realm.do(committed(client, group)) == {place: 1}, "old news, but no lies"
        assert realm.do(commit(3, new)) is ErrorCode.none
        assert realm.do(committed(client, group)) == {place: 3}
        # And back again, after the new one is gone without a word.
        realm.crash(2)
        realm.pass_ms(3_000)
        assert realm.leader_id(partition) == 1
        assert realm.do(commit(4, old)) is ErrorCode.none
        assert realm.do(committed(client, group)) == {place: 4}
        realm.heal()
