"""A member of the consumer protocol joins a group of the classic one, which changes over with its members."""

from __future__ import annotations

import pytest

from klamm.coordinator.group.classic.phases import Phase
from klamm.coordinator.group.consumer.remembered import ReconciliationState
from klamm.coordinator.group.events import GroupConverted, GroupEventCause
from klamm.protocol.errors import ErrorCode
from unit.coordinator.asking import commit_errors
from unit.coordinator.group.consumer.names import ALL
from unit.coordinator.group.mixed.driver import CLASSIC_SESSION_MS, MixedWorld, assigned, metadata

OK = ErrorCode.none
REJOIN = ErrorCode.rebalance_in_progress


@pytest.fixture
def world() -> MixedWorld:
    return MixedWorld()


def test_the_members_keep_what_they_were_assigned(world: MixedWorld) -> None:
    # scenario 64 of consumer groups
    a, b = world.classics("t-0 t-1 t-2", "t-3 t-4 t-5")
    beat = world.beat("C", 0)
    assert (beat.epoch, beat.got) == (2, "")
    assert world.epochs_of() == (2, 2)
    assert (world.assigned(a), world.assigned(b)) == ("t-0 t-1 t-2", "t-3 t-4 t-5")
    assert [world.current(each).epoch for each in (a, b)] == [1, 1]
    assert world.state_of() == "Reconciling"


def test_the_records_are_those_of_kafka_in_one_batch(world: MixedWorld) -> None:
    world.classics("t-0 t-1 t-2", "t-3 t-4 t-5")
    batches = len(world.log.batches)
    world.beat("C", 0)
    assert len(world.log.batches) == batches + 1
    joined = [5, 3, 7, 7, 7, 6, 8]
    assert world.kinds() == [5, 5, 3, 7, 7, 6, 8, 8, *joined]
    assert world.group().memory.registration is None


def test_a_member_says_what_it_is(world: MixedWorld) -> None:
    (a,) = world.classics("t-0 t-1", client_id="old")
    world.beat("C", 0)
    member = world.members().memory.members[a]
    assert (member.client_id, member.topics, member.rebalance_timeout_ms) == ("old", ("t",), 60_000)
    assert member.classic is not None
    assert member.classic.session_timeout_ms == CLASSIC_SESSION_MS
    assert [name for name, _ in member.classic.protocols] == ["range"]
    kinds = {each.member_id: each.member_type for each in world.described().members}
    assert kinds == {a: 0, "C": 1}


def test_offsets_stay_and_a_member_still_commits_in_its_generation(world: MixedWorld) -> None:
    (a,) = world.classics("t-0 t-1")
    world.commit({("t", 0): 7}, member_id=a, generation=1)
    world.beat("C", 0)
    assert world.fetch(("t", 0)) == {("t", 0): (7, OK)}
    assert commit_errors(world.commit({("t", 0): 8}, member_id=a, generation=1)) == {("t", 0): OK}


def test_an_event_tells_of_it(world: MixedWorld) -> None:
    world.classics("t-0")
    world.beat("C", 0)
    (converted,) = [event for event in world.events if isinstance(event, GroupConverted)]
    assert (converted.type_before, converted.type_after) == ("classic", "consumer")
    assert (converted.cause, converted.member_id) == (GroupEventCause.CONSUMER_JOINED, "C")
    assert (converted.generation, converted.member_count) == (1, 1)


def test_joins_and_syncs_that_wait_are_told_to_come_again(world: MixedWorld) -> None:
    # scenario 66 of consumer groups
    (a,) = world.classics("t-0 t-1")
    parked = world.join()
    world.beat("C", 0)
    assert parked.error is REJOIN
    assert world.heartbeat(a, 1) is REJOIN
    other = MixedWorld()
    members = other.joined(2)
    (waits,) = [each for each in members if each != other.live().leader_id]
    sync = other.sync(waits, 1)
    other.beat("C", 0)
    assert sync.error is REJOIN


def test_a_group_in_its_first_rebalance_changes_over_too(world: MixedWorld) -> None:
    parked = world.join()
    assert world.phase() is Phase.PREPARING
    assert world.beat("C", 0).epoch == 1
    assert parked.error is REJOIN
    assert world.members().member_count == 2


def test_its_rebalance_is_over_and_its_timers_are_gone(world: MixedWorld) -> None:
    world.classics("t-0", rebalance_ms=5_000)
    world.join()
    world.beat("C", 0)
    world.pass_ms(9_000)
    assert world.members().member_count == 3
    world.pass_ms(CLASSIC_SESSION_MS)
    assert set(world.members().memory.members) == {"C"}


def test_an_assignment_that_is_not_durable_yet_does_not_count(world: MixedWorld) -> None:
    (a,) = world.joined(1)
    world.log.is_holding = True
    sync = world.sync(a, 1, {a: b""})
    world.beat("C", 0)
    world.log.is_holding = False
    world.flush()
    assert sync.error is REJOIN
    assert world.is_mixed()


def test_what_a_cooperative_member_still_gives_up_is_not_free(world: MixedWorld) -> None:
    # It had t-2 when it joined; the leader took it away, and the member has not joined again yet.
    (a,) = world.classics("t-0 t-1", owned=("t-0 t-1 t-2",))
    beat = world.beat("C", 0)
    assert beat.got == "t-3 t-4"
    assert world.current(a).state == ReconciliationState.UNREVOKED
    assert world.pending(a) == "t-2"
    assert world.rejoin(a, "t-0 t-1 t-2").response.generation_id == 1
    assert world.beat("C", 2).got is None
    assert world.rejoin(a, "t-0 t-1").response.generation_id == 2
    assert world.beat("C", 2).got == "t-2 t-3 t-4"


def test_topics_that_are_gone_are_left_out(world: MixedWorld) -> None:
    (a,) = world.classics("t-0 gone-1")
    world.beat("C", 0)
    assert world.assigned(a) == "t-0"


def test_the_rack_of_a_member_counts(world: MixedWorld) -> None:
    call = world.join(protocols={"range": metadata(rack="r1")})
    world.beat("C", 0)
    assert call.error is REJOIN
    assert {each.rack_id for each in world.members().memory.members.values()} == {"r1", None}


def test_a_static_member_that_changes_its_protocol_keeps_its_place(world: MixedWorld) -> None:
    call = world.join(instance="i", version=9, protocols={"range": metadata()})
    world.pass_ms(6_000)
    old = call.response.member_id
    assert world.sync(old, 1, {old: assigned("t-0 t-5")}).error is OK
    assert world.beat("C", 0, instance="i").got == ALL  # also what the leader had left unassigned
    assert set(world.members().memory.members) == {"C"}
    assert world.epochs_of() == (2, 2)
    assert world.heartbeat(old, 1, instance="i") is ErrorCode.fenced_instance_id


def test_the_rebalance_that_it_interrupts_is_made_up_for(world: MixedWorld) -> None:
    call = world.join(instance="i", version=9, protocols={"range": metadata()})
    world.pass_ms(6_000)
    old = call.response.member_id
    world.sync(old, 1, {old: assigned(ALL)})
    newcomer = world.join()
    assert newcomer.is_answered is False
    world.beat("C", 0, instance="i")
    assert world.epochs_of() == (2, 2)  # although nobody has subscribed anew
    (b,) = set(world.members().memory.members) - {"C"}
    assert len(world.members().memory.targets[b]) == 1


def test_a_member_that_changes_its_protocol_under_its_id_keeps_what_it_has(world: MixedWorld) -> None:
    (a,) = world.classics("t-0 t-1 t-2 t-3 t-4 t-5")
    beat = world.beat(a, 0)
    assert beat.got == "t-0 t-1 t-2 t-3 t-4 t-5"
    assert world.members().memory.members[a].classic is None
    world.pass_ms(CLASSIC_SESSION_MS)  # the session of the classic protocol does not count any more
    assert world.members().member_count == 1


# --- what is refused ---------------------------------------------------------------------------------------


def refused(world: MixedWorld) -> str:
    phase = world.phase()
    beat = world.beat("C", 0)
    assert beat.error is ErrorCode.group_id_not_found
    assert world.phase() is phase
    assert not world.kinds()
    prefix, _, problem = beat.message.partition(" because ")
    assert prefix == "Cannot upgrade classic group g to consumer group"
    return problem


@pytest.mark.parametrize("policy", ["disabled", "downgrade", "DISABLED"])
def test_the_policy_may_forbid_it(policy: str) -> None:
    # scenario 65 of consumer groups
    world = MixedWorld(group_consumer_migration_policy=policy)
    world.classics("t-0")
    assert refused(world) == "the online upgrade is disabled."


def test_a_group_without_members_changes_over_whatever_the_policy() -> None:
    # scenario 65 of consumer groups
    world = MixedWorld(group_consumer_migration_policy="disabled")
    (a,) = world.classics("t-0")
    world.commit({("t", 0): 7}, member_id=a, generation=1)
    world.leave(a)
    assert world.beat("C", 0).error is OK
    assert world.fetch(("t", 0)) == {("t", 0): (7, OK)}


def test_another_protocol_type_is_refused(world: MixedWorld) -> None:
    # scenario 66 of consumer groups
    world.join(protocol_type="connect")
    assert refused(world) == "the group does not use the consumer embedded protocol."


def test_a_group_that_is_too_large_is_refused() -> None:
    world = MixedWorld(group_consumer_max_size=1)
    world.classics("t-0", "t-1")
    assert refused(world) == "the group size exceeds the consumer group maximum size."


def test_metadata_that_cannot_be_read_is_refused(world: MixedWorld) -> None:
    world.join(protocols={"range": b"\0"})
    assert refused(world) == "the embedded consumer protocol is malformed."


def test_user_data_of_an_assignor_is_refused(world: MixedWorld) -> None:
    world.classics("t-0", user_data=b"x")
    assert refused(world).startswith("an unsupported custom assignor is in use.")


def test_a_partition_that_several_members_have_is_refused(world: MixedWorld) -> None:
    # scenario 66 of consumer groups
    world.classics("t-0 t-1", "t-1")
    assert refused(world) == "it assigns a partition to several members."


def test_a_newcomer_that_is_refused_changes_nothing() -> None:
    world = MixedWorld(group_consumer_max_size=1)
    world.classics("t-0")
    assert world.beat("C", 0).error is ErrorCode.group_max_size_reached
    assert world.phase() is Phase.STABLE
    assert not world.kinds()


def test_a_log_that_refuses_leaves_the_group_as_it_was(world: MixedWorld) -> None:
    (a,) = world.classics("t-0")
    world.log.refuse_with = ErrorCode.kafka_storage_error
    assert world.beat("C", 0).error is ErrorCode.not_coordinator
    world.log.refuse_with = None
    assert world.phase() is Phase.STABLE
    assert world.heartbeat(a, 1) is OK
    assert world.beat("C", 0).epoch == 2
