"""Offsets within transactions, as records and markers in the log."""

from __future__ import annotations

from klamm.coordinator.group.records import encode_end, encode_records
from klamm.coordinator.group.remembered import OffsetPended, TransactionEnded
from klamm.protocol.errors import ErrorCode
from klamm.records.layout import CommittedOffset
from unit.coordinator.driver import World

OK = ErrorCode.none
T0 = ("t", 0)


def pend(
    world: World, offset: int | None, *, group: str = "g", producer: int = 1, partition: int = 0
) -> None:
    """A transactional commit as the log and the machine get it."""
    committed = None if offset is None else CommittedOffset(offset)
    record = OffsetPended(group, "t", partition, committed, producer, 0)
    _write(world, encode_records([record], world.clock.timestamp_ms()), record)


def end(world: World, *, commit: bool, producer: int = 1) -> None:
    record = TransactionEnded(producer, is_commit=commit)
    _write(world, encode_end(record, world.clock.timestamp_ms()), record)


def _write(world: World, batch: bytes, record: OffsetPended | TransactionEnded) -> None:
    offset = world.log.append(batch, now_ms=0, timestamp_ms=0)
    world.shard.on_written_by_others(record, offset)


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
    world = World()
    world.commit({T0: 1})
    pend(world, 2)
    both(world, 1)
    assert world.fetch(T0, stable=True) == {T0: (-1, ErrorCode.unstable_offset_commit)}


def test_a_commit_marker_brings_the_new_value() -> None:
    world = World()
    world.commit({T0: 1})
    pend(world, 2)
    end(world, commit=True)
    both(world, 2)
    assert world.fetch(T0, stable=True) == {T0: (2, OK)}


def test_an_abort_marker_leaves_the_old_value() -> None:
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


def test_a_transaction_may_take_its_own_offset_back() -> None:
    world = World()
    pend(world, 2)
    pend(world, None)
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
