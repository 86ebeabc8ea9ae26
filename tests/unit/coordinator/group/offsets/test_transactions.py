"""Offsets within transactions: pending until the marker, in memory as after a reload.

Numbers are those of the conformance scenarios of transactions.
"""

from __future__ import annotations

from klamm.coordinator.group.records import encode_records
from klamm.coordinator.group.remembered import OffsetPended
from klamm.coordinator.runtime.shard import ShardStatus
from klamm.protocol.errors import ErrorCode
from unit.coordinator.asking import commit_errors
from unit.coordinator.driver import World

OK = ErrorCode.none
T0 = ("t", 0)


def pend(world: World, offset: int, *, group: str = "g", producer: int = 1, partition: int = 0) -> None:
    errors = commit_errors(world.txn_commit({("t", partition): offset}, group=group, producer=producer))
    assert errors == {("t", partition): OK}


def end(world: World, *, commit: bool, producer: int = 1) -> None:
    world.end_transaction(commit=commit, producer=producer)


def both(world: World, expected: int, partition: int = 0, group: str = "g") -> None:
    """What is in memory is also what a reload finds, from the log and from its compacted copy."""
    key = ("t", partition)
    assert world.fetch(key, group=group) == {key: (expected, OK)}
    remembered = world.state.remembered()
    log = world.log
    for copy in (log.compacted(), log):
        world.logs[0] = copy
        world.restart()
        assert world.state.remembered() == remembered
    assert world.fetch(key, group=group) == {key: (expected, OK)}


def test_an_open_transaction_shows_the_old_value_and_is_unstable() -> None:
    """Scenario 74."""
    world = World()
    world.commit({T0: 1})
    pend(world, 2)
    both(world, 1)
    assert world.fetch(T0, stable=True) == {T0: (-1, ErrorCode.unstable_offset_commit)}


def test_a_commit_marker_brings_the_new_value() -> None:
    """Scenario 75, commit."""
    world = World()
    world.commit({T0: 1})
    pend(world, 2)
    end(world, commit=True)
    both(world, 2)
    assert world.fetch(T0, stable=True) == {T0: (2, OK)}


def test_an_abort_marker_leaves_the_old_value() -> None:
    """Scenario 75, abort."""
    world = World()
    world.commit({T0: 1})
    pend(world, 2)
    end(world, commit=False)
    both(world, 1)
    assert world.fetch(T0, stable=True) == {T0: (1, OK)}


def test_a_second_commit_marker_has_no_effect() -> None:
    world = World()
    pend(world, 2)
    end(world, commit=True)
    world.commit({T0: 7})
    end(world, commit=True)
    both(world, 7)


def test_a_later_plain_commit_beats_an_older_transactional_one() -> None:
    """Scenario 76."""
    world = World()
    pend(world, 2)
    world.commit({T0: 7})
    end(world, commit=True)
    both(world, 7)


def test_a_later_transactional_commit_beats_an_older_plain_one() -> None:
    world = World()
    world.commit({T0: 7})
    pend(world, 2)
    end(world, commit=True)
    both(world, 2)


def test_markers_touch_only_their_own_producer() -> None:
    world = World()
    pend(world, 1, producer=1, partition=0)
    pend(world, 2, producer=2, partition=1)
    pend(world, 3, producer=1, group="other")
    end(world, commit=True, producer=1)
    both(world, 1, partition=0)
    both(world, -1, partition=1)
    both(world, 3, group="other")
    unstable = ErrorCode.unstable_offset_commit
    assert world.fetch(("t", 1), stable=True) == {("t", 1): (-1, unstable)}
    end(world, commit=True, producer=2)
    both(world, 2, partition=1)


def test_the_transaction_that_wrote_last_wins_whichever_commits_last() -> None:
    world = World()
    pend(world, 1, producer=1)
    pend(world, 2, producer=2)
    end(world, commit=True, producer=2)
    end(world, commit=True, producer=1)
    both(world, 2)


def test_a_producer_without_offsets_here_may_end_its_transaction() -> None:
    world = World()
    world.commit({T0: 1})
    end(world, commit=True, producer=99)
    both(world, 1)


def test_a_tombstone_in_a_transaction_takes_its_own_offset_back() -> None:
    world = World()
    pend(world, 2)
    record = OffsetPended("g", "t", 0, None, 1, 0)
    offset = world.log.append(encode_records([record], 0), now_ms=0, timestamp_ms=0)
    world.shard.on_written_by_others(record, offset)
    end(world, commit=True)
    both(world, -1)


def test_a_deleted_offset_is_not_brought_back_by_a_marker() -> None:
    world = World()
    world.commit({T0: 1})
    pend(world, 2)
    world.delete_offsets(T0)
    end(world, commit=True)
    both(world, -1)


def test_a_deleted_group_is_not_brought_back_by_a_marker() -> None:
    world = World()
    pend(world, 2)
    assert world.listed() == {"g": "Empty"}
    assert world.delete("g") == {"g": OK}
    end(world, commit=True)
    both(world, -1)
    assert world.listed() == {}


def test_offsets_of_an_open_transaction_do_not_expire_nor_does_their_group() -> None:
    world = World()
    world.commit({T0: 1})
    pend(world, 2)
    world.jump_ms(8 * 24 * 3_600_000)
    assert world.fetch(T0) == {T0: (1, OK)}
    end(world, commit=False)
    world.pass_ms(600_000)
    assert world.listed() == {}


def test_a_group_whose_only_transaction_was_aborted_goes_with_the_next_pass() -> None:
    world = World()
    pend(world, 2)
    end(world, commit=False)
    assert world.listed() == {"g": "Empty"}
    world.pass_ms(600_000)
    assert world.listed() == {}


def test_an_offset_that_is_only_pending_is_not_listed() -> None:
    world = World()
    pend(world, 2)
    assert world.fetch() == {}
    assert world.fetch(stable=True) == {}


def test_a_pending_offset_survives_a_restart_and_appears_with_the_marker() -> None:
    """Scenario 79."""
    world = World()
    world.commit({T0: 1})
    pend(world, 2)
    world.restart()
    assert world.fetch(T0, stable=True) == {T0: (-1, ErrorCode.unstable_offset_commit)}
    end(world, commit=True)
    both(world, 2)


def test_a_marker_that_is_written_while_the_shard_loads_is_found_by_the_load() -> None:
    world = World()
    pend(world, 2)
    world.coordinator = world._coordinator()
    world.elect(0)
    assert world.shard.status is ShardStatus.LOADING
    end(world, commit=True)
    world.load_all()
    both(world, 2)


def test_offsets_of_a_topic_that_is_deleted_in_the_middle_do_not_come_back() -> None:
    """Scenario 88."""
    world = World()
    world.txn_commit({T0: 2, ("t2", 0): 3})
    world.coordinator.topic_deleted("t", world.context())
    end(world, commit=True)
    both(world, -1)
    assert world.fetch(("t2", 0), stable=True) == {("t2", 0): (3, OK)}


def test_a_commit_marker_counts_for_readers_once_it_is_durable() -> None:
    world = World()
    world.commit({T0: 1})
    pend(world, 2)
    world.log.is_holding = True
    end(world, commit=True)
    call = world.fetch_later(T0)
    assert not call.is_answered
    world.flush()
    (topic,) = call.response.topics
    assert [answer.committed_offset for answer in topic.partitions] == [2]


def test_a_marker_that_is_lost_was_seen_by_nobody() -> None:
    world = World()
    world.commit({T0: 1})
    pend(world, 2)
    world.log.is_holding = True
    end(world, commit=True)
    call = world.fetch_later(T0)
    world.fail_flush()
    world.load_all()
    assert call.error is ErrorCode.not_coordinator
    world.log.is_holding = False
    assert world.fetch(T0) == {T0: (1, OK)}
    assert world.fetch(T0, stable=True) == {T0: (-1, ErrorCode.unstable_offset_commit)}
    end(world, commit=True)
    both(world, 2)


def test_a_transactional_commit_is_answered_once_it_is_durable() -> None:
    world = World()
    world.log.is_holding = True
    call = world.txn_commit({T0: 2})
    assert not call.is_answered
    world.flush()
    assert commit_errors(call) == {T0: OK}


def test_a_transactional_commit_that_is_lost_is_answered_with_an_error_and_leaves_nothing() -> None:
    world = World()
    world.log.is_holding = True
    call = world.txn_commit({T0: 2})
    world.fail_flush()
    world.load_all()
    assert commit_errors(call) == {T0: ErrorCode.not_coordinator}
    world.log.is_holding = False
    end(world, commit=True)
    assert world.fetch(T0, stable=True) == {T0: (-1, OK)}


def test_a_refused_append_leaves_nothing_pending() -> None:
    world = World()
    for refused, told in (
        (ErrorCode.not_enough_replicas, ErrorCode.coordinator_not_available),
        (ErrorCode.request_timed_out, ErrorCode.coordinator_not_available),
        (ErrorCode.kafka_storage_error, ErrorCode.not_coordinator),
        (ErrorCode.message_too_large, ErrorCode.invalid_commit_offset_size),
        (ErrorCode.invalid_producer_epoch, ErrorCode.invalid_producer_epoch),
    ):
        world.log.refuse_with = refused
        assert world.txn_commit_error() is told
    world.log.refuse_with = None
    end(world, commit=True)
    assert world.listed() == {}
    assert world.fetch(T0, stable=True) == {T0: (-1, OK)}
