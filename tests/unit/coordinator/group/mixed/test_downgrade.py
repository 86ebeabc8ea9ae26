"""The last member of the consumer protocol is gone: the others go back to the classic one."""

from __future__ import annotations

from typing import Any

import pytest

from klamm.coordinator.group.classic.phases import Phase
from klamm.coordinator.group.events import GroupConverted, GroupEpochBumped, GroupEventCause
from klamm.protocol.consumer_protocol import decode_assignment
from klamm.protocol.errors import ErrorCode
from unit.coordinator.group.consumer.driver import REVOKE_MS, SESSION_MS
from unit.coordinator.group.consumer.names import ALL, shown
from unit.coordinator.group.mixed.driver import CLASSIC_SESSION_MS, MixedWorld, metadata

OK = ErrorCode.none
REJOIN = ErrorCode.rebalance_in_progress


@pytest.fixture
def world() -> MixedWorld:
    return mixed()


def mixed(**settings: Any) -> MixedWorld:
    """A and B speak the classic protocol, C the other one; A has rejoined since then, B has not."""
    world = MixedWorld(**settings)
    a, _ = world.classics("t-0 t-1 t-2", "t-3 t-4 t-5", session_ms=60_000)
    world.beat("C", 0)
    world.follow(a, "t-0 t-1 t-2")
    return world


def classics(world: MixedWorld) -> list[str]:
    return sorted(each for each in world.members().memory.members if each != "C")


def recorded(world: MixedWorld) -> dict[str, str]:
    registration = world.group().memory.registration
    assert registration is not None
    found = {}
    for member in registration.members:
        held: dict[str, list[int]] = {}
        for each in decode_assignment(member.assignment).partitions:
            held.setdefault(each.topic, []).append(each.partition)
        found[member.member_id] = shown(held)
    return found


def test_the_group_keeps_its_members_their_target_and_its_epoch(world: MixedWorld) -> None:
    a, b = classics(world)
    world.commit({("t", 0): 7}, member_id=a, generation=2)
    target = {each: world.shown(world.members().memory.targets[each]) for each in (a, b)}
    assert world.beat("C", -1).epoch == -1
    assert recorded(world) == target
    live = world.live()
    assert (live.generation, live.phase, live.protocol_name) == (2, Phase.PREPARING, "range")
    assert live.subscribed_topics == frozenset({"t"})
    assert world.fetch(("t", 0)) == {("t", 0): (7, OK)}


def test_the_records_are_those_of_kafka_in_one_batch(world: MixedWorld) -> None:
    batches, offset = len(world.log.batches), world.log.end_offset
    world.beat("C", -1)
    assert len(world.log.batches) == batches + 1
    assert world.kinds(offset) == [8, 8, 8, 7, 7, 7, 6, 5, 5, 5, 3]
    assert world.log.end_offset == offset + 12
    assert world.group().memory.consumer is None


def test_members_of_this_epoch_join_again_and_others_begin_anew(world: MixedWorld) -> None:
    # scenario 70 of consumer groups
    a, b = classics(world)
    world.beat("C", -1)
    assert world.heartbeat(a, 2) is REJOIN
    assert world.heartbeat(b, 1) is ErrorCode.illegal_generation
    assert world.beat("C", 2).error is ErrorCode.group_id_not_found
    calls = [world.rejoin(each) for each in (a, b)]
    assert [call.response.generation_id for call in calls] == [3, 3]
    assert {call.response.leader for call in calls} <= {a, b}


def test_an_event_tells_of_it_and_no_epoch_rises(world: MixedWorld) -> None:
    bumps = sum(isinstance(event, GroupEpochBumped) for event in world.events)
    world.beat("C", -1)
    converted = [event for event in world.events if isinstance(event, GroupConverted)][-1]
    assert (converted.type_before, converted.type_after) == ("consumer", "classic")
    assert (converted.cause, converted.member_id) == (GroupEventCause.LAST_CONSUMER_GONE, "C")
    assert sum(isinstance(event, GroupEpochBumped) for event in world.events) == bumps


def test_a_session_that_is_over_counts_as_leaving(world: MixedWorld) -> None:
    a, b = classics(world)
    world.pass_ms(SESSION_MS - 1)
    assert world.is_mixed()
    world.pass_ms(1)
    assert not world.is_mixed()
    assert set(world.live().members) == {a, b}


def test_a_member_that_keeps_its_partitions_too_long_counts_too() -> None:
    world = MixedWorld()
    world.beat("C", 0, timeout_ms=5_000)
    world.rejoin("a", session_ms=60_000)
    world.beat("C", 1)
    assert world.current("C").state == 1
    world.pass_ms(5_000)
    assert not world.is_mixed()
    assert set(world.live().members) == {"a"}


def test_an_administrator_may_remove_it(world: MixedWorld) -> None:
    a, _ = classics(world)
    assert [each.error_code for each in world.leave("C").members] == [OK]
    assert not world.is_mixed()
    assert world.heartbeat(a, 2) is REJOIN


def test_sessions_and_rebalance_timeouts_of_the_group_before_are_over(world: MixedWorld) -> None:
    a, b = classics(world)
    world.beat("C", -1)
    calls = [world.rejoin(each, session_ms=60_000) for each in (a, b)]
    leader = calls[0].response.leader
    for each in sorted((a, b), key=lambda known: known != leader):
        assert world.sync(each, 3, {} if each == leader else None).error is OK
    for _ in range(REVOKE_MS // 5_000 + 2):
        assert [world.heartbeat(each, 3) for each in (a, b)] == [OK, OK]
        world.pass_ms(5_000)


def test_the_way_back_ends_before_the_group_moves_again(world: MixedWorld) -> None:
    # Until then nobody knows who has what: the record has what members should have.
    a, b = classics(world)
    world.beat("C", -1)
    assert world.beat("D", 0).error is ErrorCode.coordinator_load_in_progress
    calls = [world.rejoin(each, session_ms=60_000) for each in (a, b)]
    leader = calls[0].response.leader
    assert world.beat("D", 0).error is ErrorCode.coordinator_load_in_progress
    assert world.sync(leader, 3, {leader: b""}).error is OK
    assert world.beat("D", 0).epoch == 4


# --- what keeps it from going back ---------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["disabled", "upgrade"])
def test_the_policy_may_forbid_it(policy: str) -> None:
    # scenario 70 of consumer groups
    if policy == "disabled":
        world = MixedWorld(group_consumer_migration_policy=policy)
        world.beat("C", 0)
        world.rejoin("a")
    else:
        world = mixed(group_consumer_migration_policy=policy)
    epoch, _ = world.epochs_of()
    world.beat("C", -1)
    assert world.epochs_of()[0] == epoch + 1
    (first, *_) = classics(world)
    assert world.heartbeat(first, world.current(first).epoch) is REJOIN


def test_a_group_that_would_be_too_large_stays() -> None:
    world = mixed(group_max_size=2)
    world.beat("C", -1)
    assert not world.is_mixed()
    world = MixedWorld(group_max_size=1)
    world.beat("C", 0)
    world.rejoin("a")
    world.rejoin("b")
    world.beat("C", -1)
    assert world.is_mixed()


def test_another_member_of_the_protocol_keeps_it(world: MixedWorld) -> None:
    world.beat("D", 0)
    world.beat("C", -1)
    assert world.is_mixed()


def test_a_group_that_nobody_stays_in_is_empty() -> None:
    world = MixedWorld()
    world.beat("C", 0)
    world.beat("C", -1)
    assert world.is_mixed()
    assert world.state_of() == "Empty"


def test_it_goes_back_when_a_classic_member_leaves_a_group_that_has_no_others() -> None:
    world = MixedWorld()
    world.beat("C", 0)
    world.rejoin("a")
    world.rejoin("C")  # under its id; as in Kafka this alone does not move the group
    assert world.is_mixed()
    world.leave("a")
    assert not world.is_mixed()
    assert set(world.live().members) == {"C"}


def test_a_log_that_refuses_leaves_the_group_as_it_was(world: MixedWorld) -> None:
    world.log.refuse_with = ErrorCode.kafka_storage_error
    assert world.beat("C", -1).error is ErrorCode.not_coordinator
    world.pass_ms(SESSION_MS)  # the session is over, and the log still refuses
    assert world.is_mixed()
    world.log.refuse_with = None
    world.pass_ms(2_000)
    assert not world.is_mixed()


# --- a static member changes its protocol --------------------------------------------------------------


def stable_with_static() -> tuple[MixedWorld, str]:
    world = MixedWorld()
    (a,) = world.classics("t-0 t-1 t-2", session_ms=60_000)
    assert world.beat("C", 0, instance="i").got == "t-3 t-4 t-5"
    assert world.follow(a, "t-0 t-1 t-2") == "t-0 t-1 t-2"
    assert world.state_of() == "Stable"
    return world, a


def test_the_last_one_that_becomes_classic_brings_no_rebalance() -> None:
    # scenario 71 of consumer groups
    world, a = stable_with_static()
    joined = world.rejoin(instance="i").response
    assert joined.generation_id == 2
    assert world.phase() is Phase.STABLE
    assert world.live().leader_id in world.live().members
    assert world.fetched(joined.member_id, 2, instance="i", protocol_name="range") == "t-3 t-4 t-5"
    assert world.heartbeat(joined.member_id, 2, instance="i") is OK
    assert world.heartbeat(a, 2) is OK
    assert recorded(world) == {a: "t-0 t-1 t-2", joined.member_id: "t-3 t-4 t-5"}
    world.pass_ms(CLASSIC_SESSION_MS)
    assert set(world.live().members) == {a}


@pytest.mark.parametrize(("topics", "fetched"), [("t", "t-3 t-4 t-5"), ("t u", REJOIN)])
def test_it_learns_the_protocol_that_the_group_has_chosen_then(topics: str, fetched: str | ErrorCode) -> None:
    # A SyncGroup that names another one is refused, and clients do not try again.
    world, _ = stable_with_static()
    offers = {"sticky": metadata(topics), "range": metadata(topics)}
    joined = world.rejoin(instance="i", protocols=offers).response
    assert joined.protocol_name == world.live().protocol_name == "range"
    generation = joined.generation_id
    assert world.fetched(joined.member_id, generation, instance="i", protocol_name="range") == fetched


def test_a_member_that_has_still_to_fetch_its_assignment_joins_again_instead() -> None:
    # Its SyncGroup names the protocol that it was told, which is not the one of the group any more: clients
    # do not try again when that is refused.
    world = MixedWorld()
    world.beat("C", 0)
    world.rejoin("B", topics="u")
    joined = world.rejoin("A", protocols={"sticky": metadata("u"), "range": metadata("u")}).response
    assert joined.protocol_name == "sticky"
    world.beat("C", -1)
    assert world.live().protocol_name == "range"
    assert world.fetched("A", joined.generation_id, protocol_name="sticky") is REJOIN


def test_a_static_member_that_becomes_classic_brings_a_rebalance_then() -> None:
    world = MixedWorld()
    world.beat("C", 0, instance="i")
    joined = world.rejoin("A", protocols={"sticky": metadata("u"), "range": metadata("u")}).response
    world.beat("C", 1, instance="i")
    assert world.state_of() == "Stable"
    world.rejoin(instance="i")
    assert world.live().protocol_name == "range"
    assert world.fetched("A", joined.generation_id, protocol_name="sticky") is REJOIN


def test_another_subscription_brings_one() -> None:
    world, a = stable_with_static()
    joined = world.rejoin(instance="i", topics="t u").response
    assert world.phase() is Phase.PREPARING
    assert world.heartbeat(a, 2) is REJOIN
    assert world.heartbeat(joined.member_id, joined.generation_id, instance="i") is REJOIN


def test_a_group_that_is_on_its_way_goes_on_with_a_rebalance() -> None:
    # Nobody would read what one member gives up, and the other was not told of yet.
    world = MixedWorld()
    (a,) = world.classics(ALL)
    world.beat("C", 0, instance="i")
    world.rejoin(instance="i")
    assert world.phase() is Phase.PREPARING
    assert world.heartbeat(a, 1) is ErrorCode.illegal_generation


def test_a_log_that_refuses_keeps_the_place_of_the_one_before() -> None:
    world, _ = stable_with_static()
    world.log.refuse_with = ErrorCode.kafka_storage_error
    assert world.rejoin(instance="i").error is ErrorCode.not_coordinator
    world.log.refuse_with = None
    assert world.beat("C", 2, instance="i").error is OK


# --- a group without members ---------------------------------------------------------------------------


@pytest.mark.parametrize("version", [3, 9])
def test_an_empty_consumer_group_becomes_classic_whatever_the_policy(version: int) -> None:
    # scenario 72 of consumer groups
    world = MixedWorld(group_consumer_migration_policy="disabled")
    world.beat("C", 0)
    world.commit({("t", 0): 7}, member_id="C", generation=1, version=9)
    world.beat("C", -1)
    offset = world.log.end_offset
    call = world.rejoin(version=version)
    assert world.kinds(offset) == [6, 3]
    assert world.group().memory.consumer is None
    assert world.fetch(("t", 0)) == {("t", 0): (7, OK)}
    if version == 9:
        assert call.error is ErrorCode.member_id_required
        call = world.rejoin(call.response.member_id)
    world.pass_ms(6_000)
    assert call.response.generation_id == 1


def test_a_join_that_is_refused_changes_no_protocol() -> None:
    world = MixedWorld()
    world.beat("C", 0)
    world.beat("C", -1)
    assert world.rejoin("unknown").error is ErrorCode.unknown_member_id
    world.log.refuse_with = ErrorCode.kafka_storage_error
    assert world.rejoin(version=3).error is ErrorCode.not_coordinator
    assert world.is_mixed()
