"""Leadership of a coordinator's log moves between two brokers, by plan and after a crash."""

from __future__ import annotations

from typing import cast

import pytest

from klamm.coordinator.runtime.shard import Shard, ShardStatus
from klamm.protocol.errors import ErrorCode
from klamm.protocol.placement import partition_for
from simulation.admins import committed
from simulation.clients import Client
from simulation.nodes import LogAt, Node
from simulation.offsets import Offsets
from simulation.realm import CONSUMER_GROUPS, GROUPS, LEDGERS, TOPIC, Clerk, Drifter, Realm, Settler, Wire
from simulation.seeds import seeds
from simulation.world import BrokenPromiseError, World


def settle(realm: Realm) -> None:
    world = cast(World, realm)  # as far as its clients can tell
    movers, stayers = GROUPS
    for name in ("fred", "gina", "hugo"):
        realm.add(Settler(world, name, movers, (TOPIC.name,)))
    for name in ("ilse", "jens"):
        realm.add(Settler(world, name, stayers, (TOPIC.name,), name))
    drifters, dwellers = CONSUMER_GROUPS
    for name in ("olga", "paul", "rosa"):
        realm.add(Drifter(world, name, drifters, (TOPIC.name,)))
    for name in ("sven", "tina"):
        realm.add(Drifter(world, name, dwellers, (TOPIC.name,), name))
    for ledger in LEDGERS:
        for name, reads in (("karl", 0.1), ("lena", 0.1), ("mona", 0.9), ("nils", 1.0)):
            realm.employ(Clerk(world, name, ledger, reads=reads))


def test_the_groups_live_in_different_partitions() -> None:
    assert {partition_for(group, 2) for group in GROUPS} == {0, 1}
    assert {partition_for(group, 2) for group in CONSUMER_GROUPS} == {0, 1}
    assert {partition_for(group, 2) for group in LEDGERS} == {0, 1}


@pytest.mark.parametrize("seed", seeds(40, also=[100000739]))
def test_whoever_leads_promises_are_kept(seed: int) -> None:
    with Realm(seed, drop=0.01, flush_error=0.05, stumble=0.01) as realm:
        settle(realm)
        realm.run(for_ms=20_000)
        realm.heal()
        assert realm.groups.rebalances
        assert realm.consumer_groups.grants
        assert realm.offsets.reads
        assert realm.stumbles


def first_complaint(flush_error: float = 0.05) -> str:
    for seed in range(10):
        try:
            with Realm(seed, drop=0.01, flush_error=flush_error, stumble=0.01) as realm:
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
        assert old.coordinator.shards.by_partition[partition].status is ShardStatus.ACTIVE
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


# --- faults of ours, planted -------------------------------------------------------------------------------


def test_flushes_fail_while_shards_are_loading() -> None:
    failed = 0
    for seed in range(10):
        with Realm(seed, drop=0.01, flush_error=0.05, stumble=0.01) as realm:
            settle(realm)
            realm.run(for_ms=20_000)
            failed += realm.failed_loads
    assert failed


@pytest.mark.plain
def test_a_shard_that_is_active_before_its_data_is_durable_is_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def load_everything(self: Shard, max_bytes: int) -> bool:
        log = cast(LogAt, self._log)
        self._has_tail_to_cut = False
        for batch in log._shared.batches:
            self.machine.load(batch)
        self._end_offset = log.end_offset
        self._read_durable_offset()
        return True

    monkeypatch.setattr(Shard, "_load_part", load_everything)
    assert "is said to stand at" in first_complaint(flush_error=0.2)


@pytest.mark.plain
def test_a_shard_that_does_not_hear_of_failed_flushes_while_loading_is_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Shard, "_load_on", lambda self: None)
    assert "did not come to rest" in first_complaint()


@pytest.mark.plain
def test_a_shard_that_goes_on_after_half_a_decision_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Shard, "_start_over", lambda self: None)
    assert "seed" in first_complaint()


def test_a_shard_that_is_not_loaded_again_after_a_fault_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Node, "_retry_later", lambda self, shard: None)
    assert "did not come to rest" in first_complaint()
