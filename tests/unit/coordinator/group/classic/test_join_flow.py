"""How a join phase begins, grows and ends."""

from __future__ import annotations

import pytest

from klamm.coordinator.group.classic.phases import Phase
from klamm.coordinator.group.classic.rebalance import ID_USED_AFTER_MS
from klamm.coordinator.group.config import GroupConfig
from klamm.protocol.errors import ErrorCode
from unit.coordinator.asking import assignment, subscription
from unit.coordinator.driver import World


def test_an_old_client_joins_in_one_step_and_leads_alone() -> None:
    world = World()
    call = world.join(version=3)
    world.pass_ms(3_000)
    assert call.error is ErrorCode.none
    assert (call.response.generation_id, call.response.leader) == (1, call.response.member_id)
    assert [member.member_id for member in call.response.members] == [call.response.member_id]
    assert world.phase() is Phase.COMPLETING


def test_a_newer_client_is_given_an_id_first_and_comes_back_with_it() -> None:
    world = World()
    first = world.join(version=4, client_id="anna")
    assert first.error is ErrorCode.member_id_required
    assert first.response.member_id == "anna-id1"
    assert world.phase() is Phase.EMPTY
    second = world.join(first.response.member_id, version=4)
    world.pass_ms(3_000)
    assert second.error is ErrorCode.none
    assert second.response.member_id == "anna-id1"


def test_a_static_member_is_never_sent_away_for_an_id() -> None:
    world = World()
    call = world.join(version=5, instance="i")
    world.pass_ms(3_000)
    assert call.error is ErrorCode.none
    assert call.response.member_id == "i-id1"


def test_a_pending_id_survives_a_bad_attempt() -> None:
    world = World()
    member_id = world.join(version=4).response.member_id
    assert world.join(member_id, protocols=()).error is ErrorCode.inconsistent_group_protocol
    again = world.join(member_id)
    world.pass_ms(3_000)
    assert again.error is ErrorCode.none


def test_an_id_that_is_never_used_is_forgotten_after_the_session_timeout() -> None:
    world = World()
    member_id = world.join(version=4, session_ms=10_000).response.member_id
    world.pass_ms(9_999)
    assert member_id in world.live().pending
    world.pass_ms(1)
    assert member_id not in world.live().pending
    assert world.join(member_id).error is ErrorCode.unknown_member_id


def test_a_single_joiner_waits_for_the_initial_delay_and_not_longer() -> None:
    world = World()
    call = world.join()
    world.pass_ms(2_999)
    assert not call.is_answered
    world.pass_ms(1)
    assert call.is_answered


def test_a_second_member_prolongs_the_initial_delay_once() -> None:
    world = World()
    first = world.join(rebalance_ms=9_000)
    world.pass_ms(2_999)
    second = world.join(rebalance_ms=9_000)
    world.pass_ms(3_000)
    assert not first.is_answered
    world.pass_ms(1)
    assert first.response.generation_id == second.response.generation_id == 1


def test_the_initial_delay_ends_with_the_rebalance_timeout() -> None:
    world = World()
    calls = [world.join(rebalance_ms=6_000), world.join(rebalance_ms=6_000)]
    world.pass_ms(3_001)
    calls.append(world.join(rebalance_ms=6_000))
    world.pass_ms(2_998)
    assert not any(call.is_answered for call in calls)
    world.pass_ms(1)
    assert {call.response.generation_id for call in calls} == {1}


def test_with_an_arrival_in_every_window_the_delay_lasts_as_long_as_the_rebalance_timeout() -> None:
    world = World()
    calls = [world.join(rebalance_ms=10_000)]
    for _ in range(3):
        world.pass_ms(2_500)
        calls.append(world.join(rebalance_ms=10_000))
        world.pass_ms(500)
    world.pass_ms(999)
    assert not any(call.is_answered for call in calls)
    world.pass_ms(1)
    assert all(call.is_answered for call in calls)


def test_a_group_that_was_empty_delays_again_and_counts_on() -> None:
    world = World()
    for _ in range(3):  # two generations each: somebody, nobody
        (member_id,) = world.stable(1)
        world.leave(member_id)
    assert world.live().generation == 6
    calls = [world.join()]
    world.pass_ms(2_000)
    calls.append(world.join())
    world.pass_ms(3_999)
    assert not any(call.is_answered for call in calls)
    world.pass_ms(1)
    assert {call.response.generation_id for call in calls} == {7}


def test_nothing_ends_the_initial_delay_early() -> None:
    world = World()
    call = world.join(version=4)
    member_id = call.response.member_id
    joined = world.join(member_id)
    world.leave(world.join(version=4).response.member_id)
    world.pass_ms(2_999)
    assert not joined.is_answered


def test_a_newcomer_to_a_stable_group_waits_for_the_old_member_only() -> None:
    world = World()
    (old_id,) = world.stable(1)
    newcomer = world.join()
    assert world.phase() is Phase.PREPARING
    assert not newcomer.is_answered
    rejoined = world.join(old_id)
    assert newcomer.response.generation_id == rejoined.response.generation_id == 2
    assert len(rejoined.response.members) == 2
    assert list(newcomer.response.members) == []


def test_a_member_that_does_not_rejoin_is_gone_after_the_rebalance_timeout() -> None:
    world = World()
    leader_id, lazy_id = world.stable(2)
    call = world.join(leader_id)
    for _ in range(6):
        world.pass_ms(9_999)
        assert world.heartbeat(lazy_id, 1) is ErrorCode.rebalance_in_progress
    assert not call.is_answered
    world.pass_ms(6)
    assert call.response.generation_id == 2
    assert world.heartbeat(lazy_id, 1) is ErrorCode.unknown_member_id


def test_the_longest_rebalance_timeout_counts() -> None:
    world = World()
    first, second = world.join(rebalance_ms=5_000), world.join(rebalance_ms=9_000)
    world.pass_ms(6_000)
    world.settle([first.response.member_id, second.response.member_id])
    rejoined = world.join(first.response.member_id, rebalance_ms=5_000)
    world.pass_ms(8_999)
    assert not rejoined.is_answered
    world.pass_ms(1)
    assert rejoined.response.generation_id == 2


def test_a_shorter_timeout_at_the_rejoin_counts_at_once() -> None:
    world = World()
    leader_id, _ = world.stable(2, rebalance_ms=7_000)
    rejoined = world.join(leader_id, rebalance_ms=9_000)
    world.pass_ms(8_999)
    assert not rejoined.is_answered
    world.pass_ms(1)
    assert rejoined.is_answered


def test_a_follower_that_joins_again_unchanged_disturbs_nobody() -> None:
    world = World()
    _, follower_id = world.stable(2)
    call = world.join(follower_id)
    assert (call.error, call.response.generation_id) == (ErrorCode.none, 1)
    assert list(call.response.members) == []
    assert world.phase() is Phase.STABLE


def test_a_leader_that_joins_again_wants_a_rebalance() -> None:
    world = World()
    leader_id, _ = world.stable(2)
    assert not world.join(leader_id).is_answered
    assert world.phase() is Phase.PREPARING


@pytest.mark.parametrize(
    "protocols",
    [
        {"range": subscription("t", "t2"), "sticky": subscription("t")},
        {"sticky": subscription("t"), "range": subscription("t")},
    ],
    ids=["other metadata", "other order"],
)
def test_a_follower_that_changed_its_mind_causes_a_rebalance(protocols: dict[str, bytes]) -> None:
    world = World()
    _, follower_id = world.stable(2, protocols=("range", "sticky"))
    assert not world.join(follower_id, protocols=protocols).is_answered
    assert world.phase() is Phase.PREPARING


def test_a_leader_alone_gets_its_next_generation_at_once() -> None:
    world = World()
    (leader_id,) = world.stable(1)
    assert world.join(leader_id).response.generation_id == 2


def test_while_assignments_are_awaited_a_repeated_join_gets_the_same_answer() -> None:
    world = World()
    leader_id, follower_id = world.joined(2)
    leader, follower = world.join(leader_id), world.join(follower_id)
    assert leader.response.generation_id == follower.response.generation_id == 1
    assert [member.member_id for member in leader.response.members] == [leader_id, follower_id]
    assert list(follower.response.members) == []
    assert world.phase() is Phase.COMPLETING


def test_a_newcomer_sends_those_who_wait_for_assignments_back_to_join() -> None:
    world = World()
    _, follower_id = world.joined(2)
    waiting = world.sync(follower_id, 1)
    assert not waiting.is_answered
    world.join()
    assert waiting.error is ErrorCode.rebalance_in_progress
    assert world.phase() is Phase.PREPARING


def test_a_new_member_does_not_wait_for_a_laggard_for_ever() -> None:
    world = World()
    (old_id,) = world.stable(1, rebalance_ms=1_000_000)
    newcomer = world.join(rebalance_ms=1_000_000)
    for _ in range(300):
        world.pass_ms(1_000)
        world.heartbeat(old_id, 1)
    assert newcomer.error is ErrorCode.unknown_member_id
    assert newcomer.response.member_id == ""
    assert list(world.live().members) == [old_id]


def test_a_new_member_that_settled_lives_on_by_its_session() -> None:
    world = World()
    (member_id,) = world.stable(1)
    for _ in range(60):
        world.pass_ms(9_000)
        assert world.heartbeat(member_id, 1) is ErrorCode.none


@pytest.mark.parametrize("ends_by", ["expiry", "leave"])
def test_an_id_that_is_expected_back_holds_up_the_join_phase(ends_by: str) -> None:
    world = World()
    (old_id,) = world.stable(1)
    pending_id = world.join(version=4, session_ms=6_000).response.member_id
    rejoined = world.join(old_id)
    assert not rejoined.is_answered
    if ends_by == "expiry":
        world.pass_ms(6_000)
    else:
        world.leave(pending_id)
    assert rejoined.response.generation_id == 2


def test_the_protocol_with_most_votes_of_those_that_all_know_wins() -> None:
    world = World()
    for protocols in (("B", "A"), ("A", "B", "C"), ("D", "B", "A")):
        world.join(protocols=protocols)
    world.pass_ms(6_000)
    assert world.live().protocol_name == "B"


def test_only_what_all_know_can_win() -> None:
    world = World()
    world.join(protocols=("range", "rr"))
    world.join(protocols=("rr", "blah"))
    world.pass_ms(6_000)
    assert world.live().protocol_name == "rr"


def test_a_tied_vote_goes_to_the_leaders_favourite() -> None:
    world = World()
    world.join(protocols=("b", "a"))
    world.join(protocols=("a", "b"))
    world.pass_ms(6_000)
    assert world.live().protocol_name == "b"


def test_a_join_that_is_repeated_while_it_waits_ends_the_older_one_without_data() -> None:
    world = World()
    leader_id, _ = world.stable(2)
    older = world.join(leader_id)
    newer = world.join(leader_id)
    assert older.error is ErrorCode.rebalance_in_progress
    assert not newer.is_answered
    assert world.live().awaiting_join == 1


def test_without_an_initial_delay_the_first_joiner_is_answered_at_once() -> None:
    world = World(GroupConfig(group_initial_rebalance_delay_ms=0))
    call = world.join()
    world.pass_ms(0)
    assert call.response.generation_id == 1


def test_the_initial_delay_may_be_longer_than_the_rebalance_timeout() -> None:
    world = World()
    call = world.join(rebalance_ms=1_000)
    world.pass_ms(2_999)
    assert not call.is_answered
    world.pass_ms(1)
    assert call.is_answered


def test_without_an_initial_delay_members_that_have_their_ids_share_the_first_generation() -> None:
    world = World(GroupConfig(group_initial_rebalance_delay_ms=0))
    anna, bert = (world.join(version=4).response.member_id for _ in range(2))
    first = world.join(anna)
    world.pass_ms(5)
    assert not first.is_answered
    second = world.join(bert)
    # at once, without a timer
    assert first.response.generation_id == second.response.generation_id == 1


def test_without_an_initial_delay_an_id_that_is_not_used_delays_the_first_generation_a_little() -> None:
    world = World(GroupConfig(group_initial_rebalance_delay_ms=0))
    anna, _ = (world.join(version=4).response.member_id for _ in range(2))
    call = world.join(anna)
    world.pass_ms(ID_USED_AFTER_MS - 1)
    assert not call.is_answered
    world.pass_ms(1)
    assert call.response.generation_id == 1


def test_without_an_initial_delay_the_wait_for_ids_goes_on_while_members_join() -> None:
    world = World(GroupConfig(group_initial_rebalance_delay_ms=0))
    ids = [world.join(version=4).response.member_id for _ in range(4)]
    calls = []
    for member_id in ids[:3]:
        calls.append(world.join(member_id))
        world.pass_ms(ID_USED_AFTER_MS - 1)
    assert not any(call.is_answered for call in calls)
    world.pass_ms(2 * ID_USED_AFTER_MS)
    assert {call.response.generation_id for call in calls} == {1}


def test_an_initial_delay_is_not_prolonged_by_an_unused_id() -> None:
    world = World(GroupConfig(group_initial_rebalance_delay_ms=100))
    anna, _ = (world.join(version=4).response.member_id for _ in range(2))
    call = world.join(anna)
    world.pass_ms(99)
    assert not call.is_answered
    world.pass_ms(1)
    assert call.is_answered


def test_five_thousand_members_join_and_only_the_leader_gets_the_list() -> None:
    world = World(GroupConfig(group_initial_rebalance_delay_ms=10))
    calls = [world.join() for _ in range(5_000)]
    world.pass_ms(20)
    sizes = [len(call.response.members) for call in calls]
    assert sizes == [5_000] + [0] * 4_999
    members = [call.response.member_id for call in calls]
    world.settle(members, assign=lambda number: assignment(("t", number)))
    assert len(world.live().members) == 5_000
