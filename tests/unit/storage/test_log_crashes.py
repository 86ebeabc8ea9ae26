"""The power goes at any moment: what was promised is still there."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from klamm.records.batch import parse_header
from klamm.records.markers import ControlType
from klamm.storage.engines.simulated_disk import FailingOperation, PowerLossError
from klamm.storage.log import LogError
from unit.storage.log_samples import T, a_batch, append, append_marker, loaded, read_all, repair, sync
from unit.storage.log_world import A, World


@pytest.mark.parametrize("flush_on_commit", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_whenever_the_power_goes_a_beginning_is_left_and_nothing_flushed_is_lost(
    seed: int, flush_on_commit: bool
) -> None:
    rehearsal = World(seed, flush_on_commit=flush_on_commit)
    rehearsal.run(rehearsal.start())
    moments = rehearsal.files.counters.total
    assert moments > 100
    # Every moment would take minutes: each seed takes its share of them.
    for moment in range(1 + seed, moments, 12):
        world = World(seed * 10_000 + moment, flush_on_commit=flush_on_commit)
        world.files.power_fails_at = moment
        with pytest.raises(PowerLossError):
            world.run(world.start())
        world.files.crash()
        log = world.start()
        world.check(log)
        del world.appended[log.log_end_offset :]
        # Life goes on, and a second crash finds what the first start made of it.
        world.durable_end = log.log_end_offset
        before = read_all(log)
        world.files.crash()
        log = world.start()
        assert read_all(log) == before
        world.check(log)


@pytest.mark.parametrize("seed", range(8))
def test_a_crash_during_recovery_is_recovered_from(seed: int) -> None:
    world = World(seed)
    world.files.power_fails_at = 150 + 7 * seed
    with pytest.raises(PowerLossError):
        world.run(world.start())
    world.files.crash()
    for moment in range(1, 40, 3):
        world.files.power_fails_at = world.files.counters.total + moment
        try:
            log = world.start()
        except PowerLossError:
            world.files.crash()
            continue
        world.files.power_fails_at = None
        world.check(log)
        world.files.crash()
    world.check(world.start())


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32), moment=st.integers(1, 250), flush_on_commit=st.booleans())
def test_any_crash_at_any_time(seed: int, moment: int, flush_on_commit: bool) -> None:
    world = World(seed, flush_on_commit=flush_on_commit)
    world.files.power_fails_at = moment
    try:
        world.run(world.start())
    except PowerLossError:
        world.files.crash()
        world.check(world.start())


def test_what_may_be_written_later_is_written_together_and_in_order() -> None:
    world = World(1)
    log = world.start()

    def writes() -> int:
        return world.files.counters.by_operation.get("write", 0)

    before = writes()
    for n in range(5):
        append(log, a_batch(value=b"%d" % n), write_later=True)
    assert writes() == before
    append(log, a_batch(value=b"5"))  # of which somebody is told at once
    assert writes() == before + 2
    append(log, a_batch(value=b"6"), write_later=True)
    assert len(read_all(log, until_offset=7)) == 7
    for n in range(1000):
        append(log, a_batch(value=b"%d" % n), write_later=True)
    sync(log)
    assert [parse_header(batch).base_offset for batch in read_all(log)] == list(range(1007))


@pytest.mark.parametrize("seed", range(10))
def test_a_segment_that_began_while_a_flush_ran_is_on_disk_after_the_next_one(seed: int) -> None:
    world = World(seed)
    log = world.start()
    append(log, a_batch(value=b"first" * 100))
    ticket = log.start_sync()
    assert ticket is not None
    ticket.run()
    append(log, a_batch(value=b"again" * 100))
    log.roll(0)
    log.finish_sync(ticket)
    append(log, a_batch(value=b"later"))
    sync(log)
    world.files.crash()
    assert world.start().log_end_offset == 3


def test_the_indexes_of_a_segment_that_was_rolled_while_a_flush_ran_are_still_to_be_flushed() -> None:
    world = World(1)
    log = world.start()
    append(log, a_batch())
    ticket = log.start_sync()
    assert ticket is not None
    ticket.run()
    log.roll(0)
    log.finish_sync(ticket)
    assert log.high_watermark == 1
    assert log.segments[0].is_unsynced


@pytest.mark.parametrize("seed", range(10))
def test_what_a_failed_write_left_never_shows_through_a_later_crash(seed: int) -> None:
    world = World(seed)
    log = world.start()
    append(log, a_batch(value=b"first"))
    sync(log)
    syncs = world.files.counters.by_operation["sync"]
    world.files.faults = [FailingOperation("write")]
    with pytest.raises(LogError):
        append(log, a_batch(value=b"never" * 9))
    # Only a durable cut keeps the failed batch from standing where a lost one should.
    with pytest.raises(LogError, match="is being removed"):
        log.append(a_batch(value=b"early" * 9), now_ms=0, timestamp_ms=T)
    repair(log)
    assert world.files.counters.by_operation["sync"] == syncs + 1
    for value in (b"after" * 9, b"later" * 9, b"again" * 9):
        append(log, a_batch(value=value))
    world.files.crash()
    values = [batch[-6:-1] for batch in read_all(world.start())]
    assert values == [b"first", b"after", b"later", b"again"][: len(values)]


@pytest.mark.parametrize("seed", range(10))
def test_what_a_killed_process_left_in_the_page_cache_is_flushed_before_it_is_shown(seed: int) -> None:
    world = World(seed)
    log = world.start()
    for n in range(20):
        append(log, a_batch(value=b"%d" % n + bytes(200)))
    world.files.kill()
    log = world.start()
    shown = read_all(log)
    assert len(shown) == 20
    world.files.crash()
    assert read_all(world.start()) == shown


def test_a_checkpoint_that_was_held_up_replaces_none_that_came_later() -> None:
    world = World(1)
    log = world.start()
    for _ in range(5):
        append(log)
    sync(log)
    held_up = world.store.start_checkpoint()
    log.delete_records(3)
    world.store.start_saving_log_starts()()
    held_up()
    world.files.crash()
    assert world.start().log_start_offset == 3


@pytest.mark.parametrize("kind", [ControlType.COMMIT, ControlType.ABORT])
@pytest.mark.parametrize("seed", range(5))
def test_a_marker_that_counted_still_counts_after_a_crash(seed: int, kind: ControlType) -> None:
    # scenario 90 of transactions
    world = World(seed)
    log = world.start()
    append(log, a_batch(2, producer_id=A, producer_epoch=0, sequence=0, transactional=True))
    append_marker(log, kind, producer_id=A)
    append(log, a_batch(2, producer_id=A, producer_epoch=0, sequence=2, transactional=True))
    sync(log)
    before = (log.last_stable_offset, log.aborted_transactions(0, 9), log.producers())
    assert before[0] == 3
    world.files.crash()
    log = world.start()
    assert (log.last_stable_offset, log.aborted_transactions(0, 9), log.producers()) == before


@pytest.mark.parametrize("seed", range(20))
def test_a_producer_is_known_after_a_crash_although_all_of_its_records_are_deleted(seed: int) -> None:
    world = World(seed)
    log = world.start()
    append(log, a_batch(producer_id=A, producer_epoch=0, sequence=0))
    sync(log)
    log.delete_records(1)
    world.store.start_saving_log_starts()()
    assert loaded(lambda: log.delete_old_segments(0, T)) == 1
    world.files.crash()
    log = world.start()
    assert [each.last_sequence for each in log.producers()] == [0]
