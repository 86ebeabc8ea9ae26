"""Heartbeats of the consumer protocol: what is refused, and when the epoch of a group rises."""

from __future__ import annotations

import pytest

from klamm.coordinator.group.config import GroupConfig
from klamm.coordinator.group.consumer.remembered import ReconciliationState
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from unit.coordinator.group.consumer.driver import REVOKE_MS, SESSION_MS, GroupWorld
from unit.coordinator.group.consumer.names import ALL


@pytest.fixture
def world() -> GroupWorld:
    return GroupWorld()


# --- what is refused -------------------------------------------------------------------------------------


def test_version_1_needs_a_member_id_and_version_0_gets_one(world: GroupWorld) -> None:
    # scenario 1 of consumer groups
    assert world.beat("", 0).error is ErrorCode.invalid_request
    beat = world.beat("", 0, version=0)
    assert beat.epoch == 1
    assert beat.member_id == next(iter(world.members().memory.members))


def test_a_join_must_be_complete(world: GroupWorld) -> None:
    # scenario 2 of consumer groups
    assert world.beat("A", 0, timeout_ms=-1).error is ErrorCode.invalid_request
    assert world.beat("A", 0, owned="t-0").error is ErrorCode.invalid_request
    for left_out in ("topic_partitions", "subscribed_topic_names"):
        request = ConsumerGroupHeartbeatRequest(
            "g", "A", rebalance_timeout_ms=1, subscribed_topic_names=["t"], topic_partitions=[]
        )
        assert world.ask(request.but(**{left_out: None})).error is ErrorCode.invalid_request
    assert world.beat("A", 0, topics="").got == ""


@pytest.mark.parametrize(("member_id", "epoch", "group"), [("A", -3, "g"), ("A", -2, "g"), ("A", 0, " ")])
def test_a_shape_that_no_group_could_accept(
    world: GroupWorld, member_id: str, epoch: int, group: str
) -> None:
    # scenario 3 of consumer groups
    assert world.beat(member_id, epoch, group=group).error is ErrorCode.invalid_request


def test_an_unknown_assignor_is_refused_and_makes_no_group(world: GroupWorld) -> None:
    # scenario 4 of consumer groups
    assert world.beat("A", 0, assignor="nope").error is ErrorCode.unsupported_assignor
    assert not world.state.groups


def test_only_a_join_makes_a_group(world: GroupWorld) -> None:
    # scenario 8 of consumer groups
    assert world.beat("A", 1).error is ErrorCode.group_id_not_found
    assert world.beat("A", -1).error is ErrorCode.group_id_not_found
    assert world.beat("A", 0).epoch == 1


def test_an_unknown_member_is_refused(world: GroupWorld) -> None:
    # scenario 9 of consumer groups
    world.beat("A", 0)
    assert world.beat("B", 5).error is ErrorCode.unknown_member_id
    assert world.beat("B", -1).error is ErrorCode.unknown_member_id


def test_a_full_group_takes_known_members_and_replacements_only() -> None:
    # scenario 10 of consumer groups
    world = GroupWorld(GroupConfig(group_consumer_max_size=2))
    world.beat("A", 0)
    world.beat("B", 0, instance="b")
    assert world.beat("C", 0).error is ErrorCode.group_max_size_reached
    assert world.beat("A", 0).error is ErrorCode.none
    world.beat("B", -2, instance="b")
    assert world.beat("B2", 0, instance="b").error is ErrorCode.none


# --- epochs ----------------------------------------------------------------------------------------------


def test_the_first_member_gets_everything(world: GroupWorld) -> None:
    # scenario 12 of consumer groups
    beat = world.beat("A", 0)
    assert (beat.epoch, beat.got) == (1, ALL)
    assert beat.call.response.heartbeat_interval_ms == 5_000
    assert world.kinds() == [5, 3, 7, 6, 8]
    assert world.state_of() == "Stable"


def test_the_same_join_again_gets_the_same_answer_and_writes_nothing(world: GroupWorld) -> None:
    # scenario 13 of consumer groups
    first, records = world.beat("A", 0), world.log.end_offset
    assert world.beat("A", 0).call.response == first.call.response
    assert world.log.end_offset == records


def three_epochs(world: GroupWorld) -> None:
    """A is at epoch 3, and was at 2 before."""
    world.beat("A", 0)
    world.beat("A", 1, topics="t u")
    world.beat("A", 2, topics="t", owned=ALL)
    assert (world.current("A").epoch, world.current("A").previous_epoch) == (3, 2)


def test_epochs_from_the_future_and_from_long_ago_are_fenced_and_the_member_stays(world: GroupWorld) -> None:
    # scenario 14 of consumer groups
    three_epochs(world)
    assert world.beat("A", 4).error is ErrorCode.fenced_member_epoch
    assert world.beat("A", 1).error is ErrorCode.fenced_member_epoch
    assert world.beat("A", 3).error is ErrorCode.none


def test_the_epoch_before_counts_if_the_member_owns_no_more_than_it_was_given(world: GroupWorld) -> None:
    # scenario 15 of consumer groups
    three_epochs(world)
    assert world.beat("A", 2, owned="t-0 t-1").epoch == 3
    assert world.beat("A", 2).error is ErrorCode.fenced_member_epoch
    assert world.beat("A", 2, owned="t-0 u-0").error is ErrorCode.fenced_member_epoch


def test_a_fenced_member_joins_again_and_keeps_what_it_had(world: GroupWorld) -> None:
    # scenario 16 of consumer groups
    three_epochs(world)
    world.beat("A", 7)
    beat = world.beat("A", 0)
    assert (beat.epoch, beat.got) == (3, ALL)
    assert world.epochs_of() == (3, 3)


def test_keep_alives_write_nothing_and_say_nothing(world: GroupWorld) -> None:
    # scenario 17 of consumer groups
    world.beat("A", 0)
    records = world.log.end_offset
    for _ in range(100):
        assert world.beat("A", 1).got is None
    assert world.beat("A", 1, topics="t", owned=ALL, timeout_ms=REVOKE_MS).got == ALL
    assert world.log.end_offset == records


@pytest.mark.parametrize(
    "change", [{"rack": "r"}, {"client": "other"}, {"timeout_ms": 5}, {"assignor": "range"}]
)
def test_what_does_not_concern_the_subscription_is_only_noted(
    world: GroupWorld, change: dict[str, str]
) -> None:
    # scenarios 18, 19 of consumer groups
    world.beat("A", 0)
    records = world.log.end_offset
    assert world.beat("A", 1, **change).epoch == 1  # type: ignore[arg-type]
    assert world.kinds(records) == [5]


def test_other_topics_are_assigned_in_the_same_answer(world: GroupWorld) -> None:
    # scenario 20 of consumer groups
    world.beat("A", 0, topics="u")
    beat = world.beat("A", 1, topics="t u", owned="u-0 u-1 u-2")
    assert beat.epoch == 2
    assert beat.got == f"{ALL} u-0 u-1 u-2"


def test_a_topic_that_appears_grows_or_goes_is_noticed_at_the_next_heartbeat(world: GroupWorld) -> None:
    # scenarios 21, 22, 23 of consumer groups
    assert world.beat("A", 0, topics="v").got == ""
    world.topics.create("v", 1)
    beat = world.beat("A", 1)
    assert (beat.epoch, beat.got) == (2, "v-0")
    known = world.topics.known["v"]
    world.topics.known["v"] = known._replace(partition_count=2)
    world.topics.version += 1
    assert world.beat("A", 2).got == "v-0 v-1"
    del world.topics.known["v"]
    world.topics.version += 1
    beat = world.beat("A", 3, owned="")
    assert (beat.epoch, beat.got) == (4, "")
    world.topics.create("v", 2)
    assert world.beat("A", 4).got == "v-0 v-1"


def test_topics_that_nobody_reads_change_nothing(world: GroupWorld) -> None:
    world.beat("A", 0)
    records = world.log.end_offset
    world.topics.create("v", 1)
    assert world.beat("A", 1).epoch == 1
    assert world.log.end_offset == records


def test_a_restart_changes_nothing(world: GroupWorld) -> None:
    # scenario 25 of consumer groups
    world.beat("A", 0)
    world.beat("B", 0)
    before = world.state.remembered()
    world.restart()
    assert world.state.remembered() == before
    records = world.log.end_offset
    assert world.beat("A", 1).epoch == 1
    assert world.state_of() == "Reconciling"
    # A gives up half: its state, not the group's epoch, is written.
    assert world.kinds(records) == [8]
    assert world.epochs_of() == (2, 2)


def test_a_refused_append_leaves_everything_as_it_was(world: GroupWorld) -> None:
    # scenario 29 of consumer groups
    world.beat("A", 0)
    before = world.state.remembered()
    world.log.refuse_with = ErrorCode.not_leader_or_follower
    assert world.beat("B", 0).error is ErrorCode.not_coordinator
    assert world.state.remembered() == before
    assert set(world.members().sessions) == {"A"}
    world.log.refuse_with = None
    assert world.beat("B", 0).epoch == 2


def test_the_assignor_that_most_members_ask_for_is_used(world: GroupWorld) -> None:
    # scenario 27 of consumer groups
    world.beat("A", 0, assignor="range")
    world.beat("B", 0, assignor="range")
    world.beat("C", 0, assignor="uniform")
    assert world.described().assignor_name == "range"
    world.beat("A", 1, assignor="uniform")
    assert world.described().assignor_name == "uniform"
    assert world.epochs_of() == (3, 3)  # the next change is assigned by it
    world.beat("A", 0, group="h")
    assert world.described("h").assignor_name == "uniform"


def test_assignments_keep_their_distance_if_that_is_set() -> None:
    # scenario 28 of consumer groups
    world = GroupWorld(GroupConfig(group_consumer_assignment_interval_ms=1_000))
    world.beat("A", 0)
    for number in range(49):
        world.pass_ms(2)
        world.beat(f"B{number}", 0)
    assert world.epochs_of() == (50, 1)
    assert world.state_of() == "Assigning"
    world.pass_ms(1_000)
    world.beat("A", 1)
    assert world.epochs_of() == (50, 50)


# --- sessions --------------------------------------------------------------------------------------------


def test_a_silent_member_is_removed_and_the_next_heartbeat_assigns(world: GroupWorld) -> None:
    # scenario 37 of consumer groups
    world.beat("A", 0)
    world.beat("B", 0)
    world.settle(["A", "B"])
    world.pass_ms(SESSION_MS - 1)
    assert world.beat("B", 2).epoch == 2
    world.pass_ms(1)
    assert world.state_of() == "Assigning"
    assert world.epochs_of() == (3, 2)
    assert world.beat("A", 2).error is ErrorCode.unknown_member_id
    assert world.beat("B", 2).got == ALL


def test_errors_do_not_keep_a_session_alive(world: GroupWorld) -> None:
    # scenario 38 of consumer groups
    world.beat("A", 0)
    world.beat("B", 0)
    for _ in range(10):
        world.pass_ms(SESSION_MS // 10)
        world.beat("A", 9)
        world.commit({("t", 0): 1}, member_id="A", generation=1, version=9)
        world.beat("B", 2)
    assert set(world.members().memory.members) == {"B"}


def test_the_last_member_leaves_the_group_empty_and_it_can_be_deleted(world: GroupWorld) -> None:
    world.beat("A", 0)
    assert world.delete("g") == {"g": ErrorCode.non_empty_group}
    assert world.beat("A", -1).epoch == -1
    assert world.state_of() == "Empty"
    assert world.epochs_of() == (2, 2)
    records = world.log.end_offset
    assert world.delete("g") == {"g": ErrorCode.none}
    assert world.kinds(records) == [6, 3]
    assert not world.state.groups
    world.restart()
    assert not world.state.groups


def test_a_consumer_group_is_no_classic_group(world: GroupWorld) -> None:
    world.beat("A", 0)
    assert world.describe("g").group_state == "Dead"
    (listed,) = world.list_groups().groups
    assert (listed.group_type, listed.protocol_type, listed.group_state) == ("consumer", "consumer", "Stable")


# --- reconciliation --------------------------------------------------------------------------------------


def test_partitions_move_from_one_member_to_another_step_by_step(world: GroupWorld) -> None:
    # scenario 30 of consumer groups
    world.beat("A", 0)
    joined = world.beat("B", 0)
    assert (joined.epoch, joined.got) == (2, "")
    assert world.current("B").state == ReconciliationState.UNRELEASED
    told = world.beat("A", 1)
    kept, moving = world.assigned("A"), world.pending("A")
    assert (told.epoch, told.got) == (1, kept)
    assert len(kept.split()) == len(moving.split()) == 3
    assert world.beat("B", 2).got is None
    assert world.beat("A", 1, owned=f"{kept} {moving.split()[0]}").epoch == 1
    assert world.current("A").state == ReconciliationState.UNREVOKED
    acknowledged = world.beat("A", 1, owned=kept)
    assert (acknowledged.epoch, acknowledged.got) == (2, None)
    assert world.beat("B", 2).got == moving
    assert world.state_of() == "Stable"


def test_a_member_that_does_not_give_up_its_partitions_in_time_is_removed(world: GroupWorld) -> None:
    # scenario 31 of consumer groups
    world.beat("A", 0)
    world.beat("B", 0)
    world.beat("A", 1)
    for _ in range(REVOKE_MS // 10_000):
        world.pass_ms(10_000 - 1)
        assert world.beat("A", 1).epoch == 1
        world.beat("B", 2)
    world.pass_ms(REVOKE_MS // 10_000)
    assert world.beat("A", 1).error is ErrorCode.unknown_member_id
    assert world.epochs_of() == (3, 2)
    assert world.beat("B", 2).got == ALL


def test_one_that_does_so_a_moment_earlier_stays(world: GroupWorld) -> None:
    # scenario 32 of consumer groups
    world.beat("A", 0)
    world.beat("B", 0)
    world.beat("A", 1)
    kept = world.assigned("A")
    world.pass_ms(30_000)
    world.beat("A", 1)
    world.beat("B", 2)
    world.pass_ms(REVOKE_MS - 30_001)
    world.beat("A", 1, owned=kept)
    world.beat("B", 2)
    world.pass_ms(10_000)
    assert world.beat("A", 2).epoch == 2


def test_what_comes_back_while_it_is_given_up_stays(world: GroupWorld) -> None:
    # scenario 33 of consumer groups
    world.beat("A", 0)
    world.beat("B", 0)
    world.beat("A", 1)
    kept = world.assigned("A")
    world.beat("B", -1)
    assert world.beat("A", 1, owned=kept).got == ALL


def test_a_second_target_is_followed_after_the_first_release(world: GroupWorld) -> None:
    # scenario 34 of consumer groups
    world.beat("A", 0)
    world.beat("B", 0)
    world.beat("A", 1)
    world.beat("C", 0)
    kept = world.assigned("A")
    beat = world.beat("A", 1, owned=kept)
    assert world.current("A").state == ReconciliationState.UNREVOKED
    assert len((beat.got or "").split()) == 2
    assert world.beat("A", 1, owned=beat.got).epoch == 3


def test_what_a_member_lacks_of_its_assignment_stays_assigned(world: GroupWorld) -> None:
    # scenario 35 of consumer groups
    world.beat("A", 0)
    assert world.beat("A", 1, owned="t-0").epoch == 1
    assert world.assigned("A") == ALL


def test_an_unsubscribed_topic_is_given_up_at_once_also_while_others_are(world: GroupWorld) -> None:
    # scenario 36 of consumer groups
    world.beat("A", 0, topics="t u")
    world.beat("B", 0, topics="t u")
    world.beat("A", 1)
    held = f"{world.assigned('A')} {world.pending('A')}".split()
    beat = world.beat("A", 1, topics="")
    assert beat.got == ""
    assert sorted(world.pending("A").split()) == sorted(held)
    (described,) = [each for each in world.described().members if each.member_id == "A"]
    assert described.assignment is not None
    shown = {each.topic_id: each.partitions for each in described.assignment.topic_partitions}
    assert sorted(world.shown(shown).split()) == sorted(held)


def test_a_member_in_an_unknown_state_starts_again_with_nothing(world: GroupWorld) -> None:
    # scenario 39 of consumer groups
    world.beat("A", 0)
    memory = world.members().memory
    memory.current["A"] = memory.current["A"]._replace(state=ReconciliationState.UNKNOWN)
    memory.settled = 0
    assert world.beat("A", 1, owned="t-0").got is None
    assert world.beat("A", 1, owned="").epoch == 1
    assert world.current("A").state == ReconciliationState.STABLE


def test_the_epoch_before_counts_until_a_waiting_member_is_heard_of_in_the_new_one(world: GroupWorld) -> None:
    world.beat("A", 0)
    world.beat("B", 0)
    world.beat("C", 0)
    assert world.beat("B", 2).epoch == 3
    assert world.current("B")[:3] == (3, 2, ReconciliationState.UNRELEASED)
    offset = world.log.end_offset
    for _ in range(5):
        assert world.beat("B", 3).epoch == 3
    assert world.kinds(offset) == [8]
    assert world.beat("B", 2, owned="").error is ErrorCode.fenced_member_epoch


# --- static members --------------------------------------------------------------------------------------


def test_a_static_member_that_comes_back_gets_what_it_had(world: GroupWorld) -> None:
    # scenario 40 of consumer groups
    world.beat("A", 0, instance="a")
    world.beat("B", 0)
    world.settle(["A", "B"])
    held = world.assigned("A")
    assert world.beat("A", -2, instance="a").epoch == -2
    assert world.state_of() == "Reconciling"
    assert world.beat("B", 2).got is None
    beat = world.beat("A2", 0, instance="a")
    assert (beat.epoch, beat.got) == (2, held)
    assert world.epochs_of() == (2, 2)
    assert world.beat("A", 2, instance="a").error is ErrorCode.fenced_instance_id
    assert world.beat("A", -1, instance="a").error is ErrorCode.fenced_instance_id
    world.restart()
    assert world.beat("A2", 2, instance="a").epoch == 2


def test_a_static_member_that_does_not_come_back_is_removed(world: GroupWorld) -> None:
    # scenario 41 of consumer groups
    world.beat("A", 0, instance="a")
    world.beat("B", 0)
    world.settle(["A", "B"])
    world.beat("A", -2, instance="a")
    world.pass_ms(SESSION_MS - 1)
    world.beat("B", 2)
    world.pass_ms(1)
    assert set(world.members().memory.members) == {"B"}
    assert world.epochs_of() == (3, 2)


def test_an_instance_in_use_is_not_given_to_another_id(world: GroupWorld) -> None:
    # scenarios 42, 43 of consumer groups
    world.beat("A", 0, instance="a")
    assert world.beat("A2", 0, instance="a").error is ErrorCode.unreleased_instance_id
    assert world.beat("A", 0, instance="a").epoch == 1
    world.pass_ms(SESSION_MS)
    assert world.beat("A2", 0, instance="a").error is ErrorCode.none


def test_what_a_static_member_was_giving_up_is_free_when_it_leaves(world: GroupWorld) -> None:
    # scenario 44 of consumer groups
    world.beat("A", 0, instance="a")
    world.beat("B", 0)
    world.beat("A", 1, instance="a")
    moving = world.pending("A")
    world.beat("A", -2, instance="a")
    assert world.pending("A") == ""
    assert world.beat("B", 2).got == moving


def test_a_replacement_with_other_topics_raises_the_epoch(world: GroupWorld) -> None:
    # scenario 45 of consumer groups
    world.beat("A", 0, instance="a")
    world.beat("A", -2, instance="a")
    beat = world.beat("A2", 0, instance="a", topics="u")
    assert (beat.epoch, beat.got) == (2, "u-0 u-1 u-2")


@pytest.mark.parametrize("held", ["t-3 t-4 t-5", ""])
def test_a_member_that_takes_another_place_leaves_its_own(world: GroupWorld, held: str) -> None:
    # Two processes, or one with two consumers, use one member id. Nothing stays without a reader.
    world.beat("X", 0)
    world.beat("Y", 0, instance="i", topics="t" if held else "")
    world.settle(["X", "Y"])
    assert world.assigned("Y") == held
    world.beat("Y", -2, instance="i")
    epoch, _ = world.epochs_of()
    assert world.beat("X", 0, instance="i").got == ALL
    assert set(world.members().memory.members) == {"X"}
    assert world.epochs_of() == (epoch + 1, epoch + 1)
    assert world.beat("X", 0, instance="i").epoch == epoch + 1  # asked once more, it is in its place


def test_an_unknown_instance_is_refused(world: GroupWorld) -> None:
    # scenario 46 of consumer groups
    world.beat("A", 0, instance="a")
    assert world.beat("A", 1, instance="b").error is ErrorCode.unknown_member_id
    assert world.beat("C", 3, instance="b").error is ErrorCode.unknown_member_id
    assert world.beat("C", 3, instance="a").error is ErrorCode.fenced_instance_id


# --- when the log does not take it ------------------------------------------------------------------------


def test_a_removal_that_cannot_be_written_is_tried_again(world: GroupWorld) -> None:
    world.beat("A", 0)
    world.log.refuse_with = ErrorCode.kafka_storage_error
    world.pass_ms(SESSION_MS + 5_000)
    assert world.beat("A", 1).epoch == 1  # it is still there, and heard of
    world.pass_ms(SESSION_MS)
    world.log.refuse_with = None
    world.pass_ms(1_000)
    assert world.state_of() == "Empty"
