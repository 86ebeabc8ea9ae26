"""How a shard keeps its promises: order, durability, failure."""

from __future__ import annotations

import logging
from itertools import pairwise

import pytest

from klamm.coordinator.group.classic.membership import Member
from klamm.coordinator.group.classic.phases import Phase
from klamm.coordinator.group.classic.signals import JoinCheck
from klamm.coordinator.group.config import GroupConfig
from klamm.coordinator.group.machine import GroupMachine
from klamm.coordinator.group.offsets.signals import TopicGone
from klamm.coordinator.group.outcomes import GroupOutcome
from klamm.coordinator.runtime import shard
from klamm.coordinator.runtime.outcome import Context
from klamm.coordinator.runtime.shard import ShardStatus
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.offset_commit import OffsetCommitResponse
from unit.coordinator.asking import Call, commit_errors
from unit.coordinator.driver import World

OK = ErrorCode.none
T0 = ("t", 0)


def test_answers_wait_for_the_disk_and_share_one_flush() -> None:
    world = World()
    world.log.is_holding = True
    calls = [world.commit({T0: offset}) for offset in range(20)]
    assert not any(call.is_answered for call in calls)
    assert world.shard.is_waiting_for_disk
    world.flush()
    assert all(call.is_answered for call in calls)
    assert world.fetch(T0) == {T0: (19, OK)}
    assert not world.shard.is_waiting_for_disk


def test_a_request_decides_on_what_was_appended_before_it_even_if_not_flushed() -> None:
    world = World()
    (member_id,) = world.stable(1)
    world.log.is_holding = True
    world.leave_later(member_id)
    assert world.phase() is Phase.EMPTY
    late = world.commit({T0: 1}, member_id=member_id, generation=1)
    assert not late.is_answered  # it saw what is not durable yet
    world.flush()
    assert commit_errors(late) == {T0: ErrorCode.unknown_member_id}


def test_a_heartbeat_does_not_wait_for_commits_of_its_group() -> None:
    world = World()
    (member_id,) = world.stable(1)
    world.log.is_holding = True
    commit = world.commit({T0: 1}, member_id=member_id, generation=1)
    assert world.heartbeat(member_id, 1) is OK
    assert not commit.is_answered


def test_a_flush_that_nothing_waited_for_need_not_be_told() -> None:
    world = World()
    world.stable(1, session_ms=10_000)
    world.log.is_holding = True
    world.pass_ms(10_000)  # the last member is gone, which is written, and nobody waits for it
    assert not world.shard.is_waiting_for_disk
    world.log.durable_offset = world.log.end_offset
    assert world.describe().group_state == "Empty"
    assert world.listed() == {"g": "Empty"}


def test_only_what_is_durable_is_let_go() -> None:
    world = World()
    world.log.is_holding = True
    first = world.commit({T0: 1})
    reached = world.log.end_offset
    second = world.commit({T0: 2})
    world.log.durable_offset = reached
    world.shard.on_durable(world.context)
    assert first.is_answered
    assert not second.is_answered
    assert world.fetch(T0) == {T0: (1, OK)}


def test_when_a_flush_fails_everybody_is_told_and_the_log_is_believed() -> None:
    world = World()
    (member_id,) = world.stable(1)
    world.commit({T0: 1}, member_id=member_id, generation=1)
    world.log.is_holding = True
    commit = world.commit({T0: 2, ("t", 1): 2}, member_id=member_id, generation=1)
    joining = world.join()
    world.fail_flush()
    look_again = ErrorCode.not_coordinator
    assert set(commit_errors(commit).values()) == {look_again}
    assert joining.error is look_again
    assert world.fetch_response(T0).error_code == ErrorCode.coordinator_load_in_progress
    assert world.heartbeat(member_id, 1) is OK
    world.log.is_holding = False
    world.load_all()
    assert world.fetch() == {T0: (1, OK)}
    assert world.heartbeat(member_id, 1) is OK
    assert world.phase() is Phase.STABLE


def test_what_was_answered_survives_every_failed_flush() -> None:
    world = World()
    world.log.is_holding = True
    calls: list[Call[OffsetCommitResponse]] = []
    for offset in range(30):
        calls.append(world.commit({T0: offset}))
        if offset % 3 == 0:
            world.flush()
        if offset % 7 == 0:
            world.fail_flush()
            world.load_all()
        promised = [number for number, call in enumerate(calls) if _is_promised(call)]
        fetched, _ = world.fetch(T0)[T0]
        assert fetched >= max(promised, default=-1)


def _is_promised(call: Call[OffsetCommitResponse]) -> bool:
    return call.is_answered and commit_errors(call) == {T0: OK}


def test_a_decision_that_fails_costs_one_request_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    world = World()
    (member_id,) = world.stable(1)

    with monkeypatch.context() as patch, caplog.at_level(logging.ERROR):
        patch.setattr(GroupMachine, "decide", _broken)
        assert world.heartbeat(member_id, 1) is ErrorCode.unknown_server_error
    assert "failed" in caplog.text
    assert world.heartbeat(member_id, 1) is OK


def test_a_session_whose_end_cannot_be_decided_ends_later_and_with_back_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    silent, alive = world.stable(2, session_ms=10_000)
    tried: list[int] = []

    def _broken_for_one(machine: GroupMachine, request: object, context: Context) -> GroupOutcome:
        if isinstance(request, Member):
            tried.append(context.now_ms)
            _broken()
        return decide(machine, request, context)

    decide = GroupMachine.decide
    with monkeypatch.context() as patch:
        patch.setattr(GroupMachine, "decide", _broken_for_one)
        for _ in range(30):
            world.pass_ms(5_000)
            assert world.heartbeat(alive, 1) is OK
    waits = [later - earlier for earlier, later in pairwise(tried)]
    assert waits == [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000]
    world.pass_ms(60_000)
    assert world.heartbeat(silent, 1) is ErrorCode.unknown_member_id


def test_requests_behind_a_decision_that_was_put_off_are_answered_when_the_shard_goes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    (member_id,) = world.stable(1)
    decide = GroupMachine.decide

    def _broken_check(machine: GroupMachine, request: object, context: Context) -> GroupOutcome:
        if isinstance(request, JoinCheck):
            _broken()
        return decide(machine, request, context)

    with monkeypatch.context() as patch:
        patch.setattr(GroupMachine, "decide", _broken_check)
        leaving = world.leave_later(member_id)
        assert not leaving.is_answered
        world.coordinator.shards.resign(0, 2)
    assert leaving.error is ErrorCode.not_coordinator


def test_a_shard_with_too_many_decisions_put_off_is_loaded_again(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    monkeypatch.setattr(shard, "MAX_POSTPONED", 2)
    with monkeypatch.context() as patch:
        patch.setattr(GroupMachine, "decide", _broken)
        for topic in ("t1", "t2", "t1", "t2"):  # the same again is not one more
            world.shard.signal(TopicGone(topic), world.context())
        assert world.shard.postponed_count == 2
        world.shard.signal(TopicGone("t3"), world.context())
        assert world.shard.status is ShardStatus.LOADING
    world.load_all()
    assert world.commit_error() is OK


def test_a_decision_that_cannot_be_carried_out_makes_the_shard_start_over(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    world = World()
    (member_id,) = world.stable(1)

    with monkeypatch.context() as patch, caplog.at_level(logging.ERROR):
        patch.setattr(GroupMachine, "apply", _broken)
        call = world.join()
    assert call.error is ErrorCode.not_coordinator
    assert world.shard.status is ShardStatus.LOADING
    world.load_all()
    assert world.heartbeat(member_id, 1) is OK


# --- loading ---------------------------------------------------------------------------------------------


def test_what_is_not_durable_is_not_visible_after_a_rebuild(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.commit({T0: 1})
    world.log.is_holding = True
    world.commit({T0: 2})
    with monkeypatch.context() as patch:
        patch.setattr(GroupMachine, "apply", _broken)
        world.join()  # a decision that cannot be carried out: the shard is rebuilt from a log that is ahead
    world.load_all()
    assert world.shard.status is ShardStatus.LOADING
    assert world.fetch_response(T0).error_code == ErrorCode.coordinator_load_in_progress
    assert world.log.flushes_asked == 1  # without this it would wait for the next client
    world.flush()
    world.load_all()
    assert world.fetch(T0) == {T0: (2, OK)}


def test_it_is_loaded_when_its_log_takes_appends_again() -> None:
    world = World()
    world.commit({T0: 1})
    world.log.is_being_repaired = True
    world.log.refuse_with = ErrorCode.kafka_storage_error
    world.fail_flush()
    world.load_all()
    assert world.shard.status is ShardStatus.LOADING
    assert world.log.flushes_asked == 1  # which repairs it
    world.log.is_being_repaired = False
    world.log.refuse_with = None
    world.flush()
    world.load_all()
    world.commit({T0: 2})
    assert world.fetch(T0) == {T0: (2, OK)}


def _broken(*_: object) -> None:
    raise AssertionError("we broke our own promise")


def test_a_flush_that_fails_while_loading_costs_what_was_not_durable() -> None:
    world = World()
    world.commit({T0: 1})
    world.log.is_holding = True
    world.commit({T0: 2})
    world.elect(0)  # again, at the next epoch, on the log as it is
    (shard,) = world.loading
    assert not shard.load_some(world.context(), 1 << 20)
    world.load_all()
    assert world.shard.status is ShardStatus.LOADING
    world.log.cut_back()  # as a log does when its flush fails
    world.fail_flush()
    world.load_all()
    assert world.fetch(T0) == {T0: (1, OK)}


def test_a_flush_that_fails_before_the_tail_is_reached_leaves_a_shard_that_loads() -> None:
    world = World()
    world.commit({T0: 1})
    world.log.is_holding = True
    world.commit({T0: 2})
    world.elect(0)
    world.log.cut_back()
    world.fail_flush()  # nothing waits for it yet
    assert len(world.loading) == 1
    world.load_all()
    assert world.fetch(T0) == {T0: (1, OK)}


def test_a_log_that_was_cut_below_what_is_loaded_is_loaded_again() -> None:
    world = World()
    world.commit({T0: 1})
    world.commit({T0: 2})
    world.elect(0)
    (shard,) = world.loading
    assert not shard.load_some(world.context(), 1 << 20)
    world.log.durable_offset = 1
    world.log.cut_back()
    world.load_all()
    assert world.fetch(T0) == {T0: (1, OK)}


@pytest.mark.parametrize("step", ["load", "loaded"])
def test_whatever_goes_wrong_while_loading_ends_as_failed_and_can_be_tried_again(
    monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    world = World()
    world.commit({T0: 1})
    with monkeypatch.context() as patch:
        patch.setattr(GroupMachine, step, _broken)
        world.elect(0)
        world.load_all()
    assert world.shard.status is ShardStatus.FAILED
    assert world.shard.failure is not None
    assert "we broke our own promise" in str(world.shard.failure.error)
    assert world.commit_error() is ErrorCode.not_coordinator
    world.shard.reload()
    world.load_all()
    assert world.fetch(T0) == {T0: (1, OK)}


def test_the_same_epoch_may_try_again_when_loading_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(elect=False)
    world.elect(0)
    with monkeypatch.context() as patch:
        patch.setattr(GroupMachine, "loaded", _broken)
        world.load_all()
    assert world.commit_error() is ErrorCode.not_coordinator
    assert world.elect(0, 1)
    world.load_all()
    assert world.commit_error() is OK


def test_a_log_that_cannot_be_cut_back_is_cut_before_it_is_loaded() -> None:
    world = World()
    world.commit({T0: 1})
    world.log.is_holding = True
    commit = world.commit({T0: 2})
    world.log.is_readable = False
    world.fail_flush()
    assert commit_errors(commit) == {T0: ErrorCode.not_coordinator}
    world.load_all()
    assert world.shard.status is ShardStatus.FAILED
    world.log.is_readable = True
    world.shard.reload()
    world.load_all()
    assert world.log.end_offset == 1
    assert world.fetch(T0) == {T0: (1, OK)}


def test_a_log_that_is_gone_while_a_request_is_decided_fails_the_shard_and_nothing_else() -> None:
    world = World()
    (member_id,) = world.stable(1)
    joining = world.join()
    world.log.is_readable = False
    assert world.commit_error(member_id=member_id, generation=1) is ErrorCode.not_coordinator
    assert joining.error is ErrorCode.not_coordinator
    world.load_all()
    assert world.shard.status is ShardStatus.FAILED


def test_a_response_that_cannot_be_sent_does_not_stop_a_rebuild(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.log.is_holding = True
    calls = [world.commit({T0: offset}) for offset in range(3)]
    monkeypatch.setattr(calls[0], "keep", _broken)
    world.fail_flush()
    assert [call.is_answered for call in calls] == [False, True, True]
    world.load_all()
    assert world.shard.status is ShardStatus.ACTIVE


def test_an_answer_that_cannot_be_released_makes_the_shard_start_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    world.log.is_holding = True
    calls = [world.commit({T0: offset}) for offset in range(3)]
    monkeypatch.setattr(calls[0], "keep", _broken)
    world.flush()
    assert [call.is_answered for call in calls] == [False, True, True]
    world.load_all()
    assert world.fetch(T0) == {T0: (2, OK)}


def test_a_burst_of_timers_fires_in_portions() -> None:
    world = World(GroupConfig(group_initial_rebalance_delay_ms=0))
    for number in range(30):
        world.join(version=4, group=f"g{number}")
    world.clock.advance(10_000)
    world.shard.tick(world.context(), limit=10)
    assert sum(len(world.live(f"g{number}").pending) for number in range(30)) == 20
    assert world.shard.next_check_ms() == 10_000
    world.shard.tick(world.context(), limit=100)
    assert not any(world.live(f"g{number}").pending for number in range(30))


def test_an_unloaded_shard_ignores_what_comes_late() -> None:
    world = World()
    world.log.is_holding = True
    commit = world.commit()
    shard = world.shard
    world.coordinator.shards.resign(0, 1)
    assert commit_errors(commit) == {T0: ErrorCode.not_coordinator}
    shard.on_durable(world.context)
    shard.on_flush_failed()
    shard.unload()
    shard.tick(world.context())
    assert shard.load_some(world.context(), 1)
    assert shard.status is ShardStatus.CLOSED
    assert commit_errors(commit) == {T0: ErrorCode.not_coordinator}


def test_a_disk_that_takes_too_long_costs_the_answer_and_not_the_commit() -> None:
    world = World()
    world.log.is_holding = True
    early = world.commit({("t", 0): 1})
    world.pass_ms(4_000)
    late = world.commit({("t", 1): 2})
    world.pass_ms(1_000)
    assert set(commit_errors(early).values()) == {ErrorCode.coordinator_not_available}
    assert not late.is_answered
    assert world.fetch(("t", 0), stable=True) == {("t", 0): (-1, ErrorCode.unstable_offset_commit)}
    world.flush()
    assert set(commit_errors(late).values()) == {ErrorCode.none}
    assert world.fetch(stable=True) == {("t", 0): (1, ErrorCode.none), ("t", 1): (2, ErrorCode.none)}
    world.pass_ms(60_000)  # nobody is left to be told anything
