"""Members of the classic protocol in a group of the consumer protocol: what each of their requests does."""

from __future__ import annotations

import pytest

from klamm.coordinator.group.events import GroupEpochBumped, GroupEventCause, MemberRemoved
from klamm.protocol.consumer_protocol import decode_assignment
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from unit.coordinator.asking import at_version, commit_errors
from unit.coordinator.group.mixed.driver import CLASSIC_REVOKE_MS, CLASSIC_SESSION_MS, MixedWorld, metadata

OK = ErrorCode.none
REJOIN = ErrorCode.rebalance_in_progress
UNKNOWN = ErrorCode.unknown_member_id
STALE = ErrorCode.illegal_generation
FENCED = ErrorCode.fenced_instance_id


@pytest.fixture
def world() -> MixedWorld:
    """A and B are members of the classic protocol, C has just joined with the other one."""
    world = MixedWorld()
    world.classics("t-0 t-1 t-2", "t-3 t-4 t-5")
    world.beat("C", 0)
    return world


def first(world: MixedWorld) -> str:
    return sorted(world.members().memory.members)[1]


def second(world: MixedWorld) -> str:
    return sorted(world.members().memory.members)[2]


# --- step by step --------------------------------------------------------------------------------------


def test_a_cooperative_member_gives_up_and_gets_like_any_other(world: MixedWorld) -> None:
    # scenario 64 of consumer groups
    a, b = first(world), second(world)
    assert world.heartbeat(a, 1) is REJOIN
    joined = world.rejoin(a, "t-0 t-1 t-2").response
    assert (joined.generation_id, joined.leader, list(joined.members)) == (1, "", [])
    assert (joined.protocol_type, joined.protocol_name) == ("consumer", "range")
    assert world.fetched(a, 1) == "t-0 t-1"
    assert world.heartbeat(a, 1) is REJOIN  # it has to say that it gave up t-2
    assert world.beat("C", 2).got is None
    assert world.rejoin(a, "t-0 t-1").response.generation_id == 2
    assert world.fetched(a, 2) == "t-0 t-1"
    assert world.heartbeat(a, 2) is OK
    assert world.beat("C", 2).got == "t-2"
    world.follow(b, "t-3 t-4 t-5")
    assert world.beat("C", 2).got == "t-2 t-5"
    assert world.state_of() == "Stable"


@pytest.mark.parametrize("version", [0, 1, 3])
def test_an_eager_member_has_nothing_when_it_joins(world: MixedWorld, version: int) -> None:
    # scenario 67 of consumer groups
    a = first(world)
    joined = world.rejoin(a, protocols={"range": metadata(version=version)})
    assert joined.response.generation_id == 2
    assert world.fetched(a, 2) == "t-0 t-1"
    assert world.beat("C", 2).got == "t-2"


def test_a_member_that_waits_is_told_when_what_it_waits_for_is_free(world: MixedWorld) -> None:
    a, b = first(world), second(world)
    world.follow(a, "t-0 t-1 t-2")
    world.follow(b, "t-3 t-4 t-5")
    newcomer = world.rejoin(version=3).response.member_id
    generation = world.current(newcomer).epoch
    assert world.current(newcomer).state == 2
    assert world.heartbeat(newcomer, generation) is OK  # nothing is free yet
    for _ in range(3):
        for member_id in (a, b):
            world.follow(member_id, world.assigned(member_id))
        world.beat("C", world.current("C").epoch, owned=world.current("C").assigned)
    assert world.heartbeat(newcomer, generation) is REJOIN


def test_what_is_sent_has_the_version_of_the_members_own_metadata(world: MixedWorld) -> None:
    a = first(world)
    world.rejoin(a, protocols={"range": metadata(version=1)})
    call = world.sync(a, 2)
    assert call.response.assignment[:2] == b"\x00\x01"
    assert decode_assignment(call.response.assignment).user_data is None


def test_a_new_member_joins_in_two_steps_and_nothing_is_remembered_of_the_first(world: MixedWorld) -> None:
    offsets = world.log.end_offset
    asked = world.rejoin()
    assert asked.error is ErrorCode.member_id_required
    assert world.log.end_offset == offsets
    assert world.members().member_count == 3
    assert world.rejoin(asked.response.member_id).response.generation_id == 3
    assert world.members().member_count == 4
    assert world.rejoin(version=3).error is OK
    assert world.members().member_count == 5


# --- joins that are refused ----------------------------------------------------------------------------


def test_a_join_needs_a_protocol_that_all_classic_members_have(world: MixedWorld) -> None:
    # scenario 69 of consumer groups
    for call in (
        world.rejoin(protocol_type="connect"),
        world.rejoin(first(world), protocol_type="connect"),
        world.rejoin(protocols={"other": metadata()}),
    ):
        assert call.error is ErrorCode.inconsistent_group_protocol
        assert call.response.member_id == ""
    assert world.rejoin("x", protocols={"other": metadata(), "range": metadata()}).error is OK


def test_a_group_without_classic_members_takes_any_protocol_but_one_it_must_have() -> None:
    world = MixedWorld()
    world.beat("C", 0)
    assert world.rejoin("x", protocols={}).error is ErrorCode.inconsistent_group_protocol
    assert world.rejoin("x", protocols={"any": metadata()}).error is OK


def test_a_full_group_takes_known_members_only() -> None:
    world = MixedWorld(group_consumer_max_size=3)
    a, _ = world.classics("t-0", "t-1")
    world.beat("C", 0)
    assert world.rejoin("new").error is ErrorCode.group_max_size_reached
    assert world.rejoin(a).error is OK


def test_metadata_that_cannot_be_read_changes_nothing(world: MixedWorld) -> None:
    offsets = world.log.end_offset
    for content in (b"", b"\0"):
        call = world.rejoin("x", protocols={"range": content})
        assert call.error is ErrorCode.unknown_server_error
    assert world.log.end_offset == offsets


def test_a_member_that_was_removed_begins_anew_before_it_claims_partitions(world: MixedWorld) -> None:
    a = first(world)
    world.leave(a)
    assert world.rejoin(a, "t-0 t-1").error is UNKNOWN
    assert world.rejoin(a).error is OK


def test_session_timeouts_have_their_bounds(world: MixedWorld) -> None:
    assert world.rejoin("x", session_ms=1).error is ErrorCode.invalid_session_timeout


def test_a_log_that_refuses_leaves_the_group_as_it_was(world: MixedWorld) -> None:
    a = first(world)
    world.log.refuse_with = ErrorCode.kafka_storage_error
    assert world.rejoin(a, "t-0 t-1 t-2").error is ErrorCode.not_coordinator
    left = world.leave(a)
    assert [each.error_code for each in left.members] == [ErrorCode.not_coordinator]
    assert world.leave(a, version=2).error_code == ErrorCode.not_coordinator
    world.log.refuse_with = None
    assert world.current(a).state == 0
    assert world.heartbeat(a, 1) is REJOIN


# --- sync and heartbeat --------------------------------------------------------------------------------


def test_sync_and_heartbeat_are_for_classic_members_in_their_generation(world: MixedWorld) -> None:
    a = first(world)
    for member_id in ("C", "nobody"):
        assert world.heartbeat(member_id, 2) is UNKNOWN
        assert world.fetched(member_id, 2) is UNKNOWN
    assert world.heartbeat(a, 2) is STALE
    assert world.fetched(a, 2) is STALE
    assert world.heartbeat(a, 1, instance="i") is UNKNOWN
    assert world.fetched(a, 1, instance="i") is UNKNOWN


def test_a_sync_names_the_members_own_protocol(world: MixedWorld) -> None:
    a = first(world)
    world.rejoin(a, "t-0 t-1")
    inconsistent = ErrorCode.inconsistent_group_protocol
    for kind, name, expected in (
        ("consumer", "other", inconsistent),
        ("connect", "range", inconsistent),
        ("consumer", "range", "t-0 t-1"),
        (None, None, "t-0 t-1"),
    ):
        assert world.fetched(a, 2, protocol_type=kind, protocol_name=name) == expected


def test_a_member_joins_again_for_a_target_and_not_for_an_epoch_that_has_none(world: MixedWorld) -> None:
    a, b = first(world), second(world)
    world.follow(a, world.assigned(a))
    world.leave(b)
    assert world.epochs_of() == (3, 2)
    assert world.heartbeat(a, 2) is OK
    assert world.fetched(a, 2) == "t-0 t-1"
    world.beat("C", 2)  # as every member of its protocol does every few seconds
    assert world.epochs_of() == (3, 3)
    assert world.heartbeat(a, 2) is REJOIN
    assert world.fetched(a, 2) is REJOIN


def test_a_sync_in_an_old_epoch_sends_the_member_back(world: MixedWorld) -> None:
    assert world.fetched(first(world), 1) is REJOIN


# --- sessions and time ---------------------------------------------------------------------------------


def removed(world: MixedWorld) -> list[tuple[str, str]]:
    return [(event.member_id, event.cause) for event in world.events if isinstance(event, MemberRemoved)]


def test_heartbeats_keep_the_session_of_its_own_timeout(world: MixedWorld) -> None:
    a, b = first(world), second(world)
    for _ in range(3):
        world.pass_ms(CLASSIC_SESSION_MS - 1)
        assert world.heartbeat(a, 1) is REJOIN
    assert removed(world) == [(b, GroupEventCause.SESSION_EXPIRED)]


def test_a_member_that_was_told_to_join_has_its_rebalance_timeout(world: MixedWorld) -> None:
    # scenario 68 of consumer groups
    a, b = first(world), second(world)
    passed_ms = 0
    while passed_ms < CLASSIC_REVOKE_MS:
        assert world.heartbeat(a, 1) is REJOIN
        world.follow(b, world.assigned(b))
        world.beat("C", 2)
        world.pass_ms(5_000)
        passed_ms += 5_000
    assert removed(world) == [(a, GroupEventCause.JOIN_MISSED)]


def test_a_member_that_does_not_fetch_what_it_got_is_removed(world: MixedWorld) -> None:
    # scenario 68 of consumer groups
    a, b = first(world), second(world)
    world.rejoin(a, "")
    for _ in range(CLASSIC_REVOKE_MS // 5_000):
        world.heartbeat(a, 2)
        world.follow(b, world.assigned(b))
        world.beat("C", 2)
        world.pass_ms(5_000)
    assert removed(world) == [(a, GroupEventCause.SYNC_MISSED)]


def test_a_member_that_does_both_stays(world: MixedWorld) -> None:
    a, b = first(world), second(world)
    for _ in range(CLASSIC_REVOKE_MS // 5_000 + 2):
        world.follow(a, world.assigned(a))
        world.follow(b, world.assigned(b))
        world.beat("C", 2, owned=world.current("C").assigned)
        world.pass_ms(5_000)
    assert removed(world) == []
    assert world.state_of() == "Stable"


def test_a_join_may_bring_another_session_timeout(world: MixedWorld) -> None:
    a = first(world)
    world.rejoin(a, "", session_ms=30_000)
    world.fetched(a, 2)
    world.pass_ms(20_000)
    assert a in world.members().memory.members
    world.pass_ms(10_000)
    assert a not in world.members().memory.members


# --- leaving -------------------------------------------------------------------------------------------


def test_one_request_removes_members_of_both_protocols_with_one_bump(world: MixedWorld) -> None:
    # scenario 73 of consumer groups
    a = first(world)
    world.beat("S", 0, instance="i")
    world.beat("D", 0)
    epoch, _ = world.epochs_of()
    bumps = sum(isinstance(event, GroupEpochBumped) for event in world.events)
    left = world.leave(a, ("", "i"), ("nope", None), ("other", "i"), ("", "nope"), ("D", None))
    errors = [each.error_code for each in left.members]
    assert errors == [OK, OK, UNKNOWN, FENCED, UNKNOWN, OK]
    assert [each.member_id for each in left.members] == [a, "", "nope", "other", "", "D"]
    assert world.epochs_of() == (epoch + 1, epoch)
    assert sum(isinstance(event, GroupEpochBumped) for event in world.events) == bumps + 1
    assert world.beat("D", 3).error is UNKNOWN


def test_a_leave_of_nobody_changes_nothing(world: MixedWorld) -> None:
    offsets = world.log.end_offset
    assert world.leave("nope", version=2).error_code == UNKNOWN
    assert world.log.end_offset == offsets


def test_the_old_form_of_the_request_has_one_answer(world: MixedWorld) -> None:
    assert world.leave(first(world), version=2).error_code == OK
    assert world.members().member_count == 2


# --- static members ------------------------------------------------------------------------------------


def test_a_static_member_changes_its_protocol_without_losing_its_place(world: MixedWorld) -> None:
    world.beat("S", 0, instance="i")
    world.beat("D", 0)
    epochs = world.epochs_of()
    classic = world.rejoin(instance="i").response
    assert classic.generation_id == epochs[1]
    assert "S" not in world.members().memory.members
    assert world.beat("S", 3, instance="i").error is FENCED
    assert world.rejoin("x", instance="i").error is FENCED
    assert world.rejoin("x", instance="other").error is UNKNOWN
    again = world.rejoin(instance="i").response
    assert again.member_id != classic.member_id
    assert world.heartbeat(classic.member_id, epochs[1], instance="i") is FENCED
    assert world.beat("S2", 0, instance="i").error is OK  # nothing of it needs to be released
    assert again.member_id not in world.members().memory.members
    assert world.epochs_of() == epochs


def test_a_consumer_member_may_go_on_with_the_classic_protocol_under_its_id(world: MixedWorld) -> None:
    world.beat("D", 0)
    assert world.rejoin("C").error is OK
    member = world.members().memory.members["C"]
    assert member.classic is not None
    assert world.heartbeat("C", world.current("C").epoch) in (OK, REJOIN)
    world.pass_ms(CLASSIC_SESSION_MS)
    assert "C" not in world.members().memory.members


# --- offsets -------------------------------------------------------------------------------------------


def committed(world: MixedWorld, member_id: str, generation: int, *names: str) -> list[ErrorCode]:
    offsets = {("t", int(name.split("-")[1])): 5 for name in names}
    call = world.commit(offsets, member_id=member_id, generation=generation)
    return [error for _, error in sorted(commit_errors(call).items())]


def test_a_commit_needs_the_generation_or_a_partition_held_since_then(world: MixedWorld) -> None:
    # scenario 69 of consumer groups
    a = first(world)
    assert committed(world, a, 1, "t-0") == [OK]
    world.rejoin(a, "")
    assert committed(world, a, 2, "t-0") == [OK]
    assert committed(world, a, 1, "t-0") == [OK]
    assert committed(world, a, 1, "t-0", "t-2") == [OK, STALE]
    assert committed(world, a, 3, "t-0") == [STALE]
    assert committed(world, "nobody", 2, "t-0") == [UNKNOWN]
    assert committed(world, "", -1, "t-0") == [UNKNOWN]


def test_an_older_client_commits_without_knowing_of_epochs(world: MixedWorld) -> None:
    call = world.commit({("t", 0): 5}, member_id=first(world), generation=1, version=5)
    assert commit_errors(call) == {("t", 0): OK}


@pytest.mark.parametrize(("generation", "error"), [(1, OK), (0, STALE), (2, STALE)])
def test_a_fetch_of_offsets_needs_the_generation(
    world: MixedWorld, generation: int, error: ErrorCode
) -> None:
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", first(world), generation, None)])
    (answer,) = world.ask(at_version(request, 9)).response.groups
    assert answer.error_code == error


def test_it_is_described_as_a_consumer_group(world: MixedWorld) -> None:
    assert world.describe(version=5).group_state == "Dead"
    assert world.describe(version=6).error_code == ErrorCode.group_id_not_found
    assert world.listed() == {"g": "Reconciling"}
