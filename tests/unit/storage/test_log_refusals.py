"""The disk fills up, or fails: an error where it belongs, nothing half done, and the rest goes on."""

from __future__ import annotations

from contextlib import suppress
from errno import EIO, ENOSPC
from threading import Thread

import pytest

from klamm.protocol.errors import ErrorCode
from klamm.protocol.types import TopicPartition
from klamm.records.batch import parse_header
from klamm.storage.engines.segments import SegmentStore
from klamm.storage.engines.simulated_disk import FailingOperation, Operation
from klamm.storage.log import EngineLog, LogError
from klamm.storage.topic_config import TopicConfig
from unit.storage.log_samples import TOPIC_ID, T, a_batch, append, read_all, repair, sync
from unit.storage.log_world import CONFIG, A, World


@pytest.mark.parametrize(
    ("operation", "error_number"), [("write", EIO), ("write", ENOSPC), ("create", ENOSPC), ("rename", EIO)]
)
def test_a_failed_write_is_a_storage_error_and_leaves_nothing_half_done(
    operation: Operation, error_number: int
) -> None:
    world = World(1)
    log = world.start()
    for n in range(30):
        before = log.log_end_offset
        world.files.faults = [FailingOperation(operation, error_number=error_number)]
        with suppress(LogError):  # most appends neither create nor rename a file
            append(log, a_batch(value=b"%d" % n))
            before += 1
        assert log.log_end_offset == before
        world.files.faults = []
        append(log, a_batch(value=b"%d" % n))
    sync(log)
    values = [batch[16:] for batch in read_all(log)]
    world.files.crash()
    assert [batch[16:] for batch in read_all(world.start())] == values


def test_what_was_sent_behind_a_refused_batch_does_not_take_its_place() -> None:
    world = World(1)
    log = world.start()
    world.files.faults = [FailingOperation("write")]
    with pytest.raises(LogError):
        append(log, a_batch(3, producer_id=A, producer_epoch=0, sequence=0))
    with pytest.raises(LogError) as refused:
        append(log, a_batch(producer_id=A, producer_epoch=0, sequence=3))
    assert refused.value.error_code is ErrorCode.out_of_order_sequence_number
    # A producer that gives up begins a new epoch, and is free.
    assert append(log, a_batch(producer_id=A, producer_epoch=1, sequence=0)).base_offset == 0


@pytest.mark.parametrize("let_through", [0, 1])
def test_what_was_to_be_written_later_and_cannot_be_fails_its_flush_and_is_cut_off(let_through: int) -> None:
    world = World(1)
    log = world.start()
    append(log, a_batch(producer_id=A, producer_epoch=0, sequence=0))
    sync(log)
    append(log, a_batch(producer_id=A, producer_epoch=0, sequence=1), write_later=True)
    append(log, a_batch(producer_id=A, producer_epoch=0, sequence=2), write_later=True)
    world.files.faults = [FailingOperation("write", is_lasting=True)]
    if let_through:  # somebody else comes to grief first
        with pytest.raises(LogError):
            append(log)
        repair(log)
    ticket = log.start_sync()
    assert ticket is not None
    assert ticket.files_only() is None
    with pytest.raises(OSError, match="error"):
        ticket.run()
    log.fail_sync(ticket)
    assert (log.log_end_offset, log.high_watermark) == (1, 1)
    world.files.faults = []
    assert (
        append(log, a_batch(producer_id=A, producer_epoch=1, sequence=0), write_later=True).base_offset == 1
    )
    sync(log)
    world.files.crash()
    assert [parse_header(batch).producer_epoch for batch in read_all(world.start())] == [0, 1]


def test_a_failed_roll_leaves_nothing() -> None:
    world = World(1)
    log = world.start()
    append(log, a_batch())
    for operations in range(6):
        world.files.faults = [FailingOperation("truncate", let_through=operations)]
        with suppress(OSError):
            log.roll(0)
        assert world.files.exists("/data/t-0/00000000000000000001.log") is (len(log.segments) > 1)
    assert len(log.segments) > 1


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("rolls_again", [True, False])
def test_what_a_failed_roll_leaves_stands_in_nobodys_way(is_clean: bool, rolls_again: bool) -> None:
    world = World(1)
    log = world.start()
    append(log, a_batch(value=b"first"))
    # The disk refused to go on, and to remove the file.
    world.files.write_file("/data/t-0/00000000000000000001.log", b"", sync=True)
    world.files.sync_directory("/data/t-0")
    append(log, a_batch(value=b"again"))
    if rolls_again:
        log.roll(0)
        append(log, a_batch(value=b"later"))
    sync(log)
    end_offset = log.log_end_offset
    if is_clean:
        world.store.close()
    else:
        world.files.crash()
    log = world.start()
    assert log.log_end_offset == end_offset
    assert len(read_all(log)) == end_offset


def test_a_full_disk_refuses_appends_until_there_is_room() -> None:
    world = World(1)
    log = world.start()
    append(log)
    sync(log)
    world.files.capacity_bytes = world.files._used_bytes() + 40
    size_bytes = log.size_bytes
    for _ in range(3):
        with pytest.raises(LogError) as refused:
            append(log)
        assert refused.value.error_code is ErrorCode.kafka_storage_error
    assert (log.log_end_offset, log.size_bytes) == (1, size_bytes)
    world.files.capacity_bytes = None
    append(log)
    sync(log)
    assert log.high_watermark == 2
    world.files.crash()
    assert world.start().log_end_offset == 2


def test_a_tail_that_cannot_be_cut_at_once_is_cut_by_the_repair() -> None:
    world = World(1)
    log = world.start()
    append(log)
    sync(log)
    world.files.faults = [FailingOperation("write"), FailingOperation("truncate")]
    with pytest.raises(LogError):
        append(log, a_batch(value=b"x" * 400))
    append(log, a_batch(value=b"y"))
    sync(log)
    world.files.crash()
    log = world.start()
    assert [b"y" in batch for batch in read_all(log)] == [False, True]


@pytest.mark.parametrize("operation", ["truncate", "sync"])
def test_a_tail_that_cannot_be_cut_durably_ends_the_appends(operation: Operation) -> None:
    world = World(1)
    log = world.start()
    append(log)
    sync(log)
    world.files.faults = [FailingOperation("write"), FailingOperation(operation, is_lasting=True)]
    with pytest.raises(LogError):
        append(log, a_batch(value=b"x" * 400))
    with pytest.raises((LogError, OSError)):
        repair(log)
    world.files.faults = []
    with pytest.raises(LogError) as refused:
        log.append(a_batch(), now_ms=0, timestamp_ms=T)
    assert refused.value.error_code is ErrorCode.kafka_storage_error
    assert log.start_sync() is None
    assert len(read_all(log)) == 1


def operations_of_repair(world: World, log: EngineLog) -> list[Operation]:
    operations: list[Operation] = []

    def noting(operation: Operation) -> FailingOperation:
        def happens(_: str) -> bool:
            operations.append(operation)
            return False

        return FailingOperation(operation, happens=happens)

    watched: tuple[Operation, ...] = ("truncate", "sync", "sync_directory")
    world.files.faults = [noting(each) for each in watched]
    repair(log)
    world.files.faults = []
    return operations


def test_a_flush_that_began_before_a_log_was_cut_does_not_end_its_repair() -> None:
    world = World(1)
    log = world.start()
    append(log)
    earlier = log.start_sync()
    assert earlier is not None
    earlier.keep_open()
    log.truncate(0)
    earlier.run()
    log.finish_sync(earlier)
    assert log.is_being_repaired
    repair(log)
    assert not log.is_being_repaired


def test_a_flush_that_fails_while_a_log_is_repaired_has_its_file_cut_again() -> None:
    world = World(1)
    log = world.start()
    append(log)
    earlier = log.start_sync()
    assert earlier is not None
    earlier.keep_open()
    log.truncate(0)
    world.files.faults = [FailingOperation("sync")]
    with pytest.raises(OSError, match="Input/output"):
        earlier.run()
    # When the system reports the failure to the earlier flush, and only to that one
    log.fail_sync(earlier)
    # Then the cut is made once more: the system may have forgotten it
    assert operations_of_repair(world, log) == ["truncate", "sync"]


def test_segments_behind_a_cut_are_gone_before_the_file_is_cut() -> None:
    world = World(1)
    log = world.start()
    append(log, a_batch(value=b"first"))
    sync(log)
    append(log, a_batch(value=b"again"))
    log.roll(0)
    append(log, a_batch(value=b"later"))
    log.truncate(1)
    assert operations_of_repair(world, log) == ["sync_directory", "truncate", "sync"]
    assert append(log).base_offset == 1


def test_a_failed_flush_of_a_producers_batch_lets_it_send_again() -> None:
    world = World(1)
    log = world.start()
    batch = a_batch(producer_id=A, producer_epoch=0, sequence=0)
    append(log, batch)
    ticket = log.start_sync()
    assert ticket is not None
    world.files.faults = [FailingOperation("sync")]
    with pytest.raises(OSError, match="Input/output"):
        ticket.run()
    log.fail_sync(ticket)
    assert (log.log_end_offset, log.high_watermark) == (0, 0)
    again = append(log, batch)
    assert not again.is_duplicate
    sync(log)
    assert log.high_watermark == 1
    # The pages that the first flush lost must not be believed: only what came after counts.
    world.files.crash()
    log = world.start()
    assert log.log_end_offset == 1
    assert append(log, batch).is_duplicate


def test_when_even_the_cut_fails_the_log_refuses_until_it_is_opened_again() -> None:
    world = World(1)
    log = world.start()
    append(log)
    sync(log)
    append(log)
    ticket = log.start_sync()
    assert ticket is not None
    world.files.faults = [
        FailingOperation("sync", is_lasting=True),
        FailingOperation("truncate", is_lasting=True),
    ]
    with pytest.raises(OSError, match="Input/output"):
        ticket.run()
    with pytest.raises(LogError):
        log.fail_sync(ticket)
    world.files.faults = []
    with pytest.raises(LogError) as refused:
        append(log)
    assert refused.value.error_code is ErrorCode.kafka_storage_error
    assert log.start_sync() is None
    log.close()
    reopened = world.store.open("t", TOPIC_ID, 0, leader_epoch=1, config=CONFIG)
    assert reopened.log_end_offset in (1, 2)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("let_through", range(5))
def test_indexes_whose_flush_failed_are_written_again(seed: int, let_through: int) -> None:
    world = World(seed)
    log = world.start()
    for time_ms in (T + 5_000, T, T + 1_000, T + 1_500):
        append(log, a_batch(timestamps_ms=[time_ms]))
    sync(log)
    log.roll(world.clock.now_ms())
    append(log, a_batch(timestamps_ms=[T + 9_000]))
    world.files.faults = [FailingOperation("sync", let_through=let_through)]
    ticket = log.start_sync()
    assert ticket is not None
    with pytest.raises(OSError, match="Input/output error"):
        ticket.run()
    log.fail_sync(ticket)
    append(log, a_batch(timestamps_ms=[T + 9_000]))
    sync(log)
    world.store.start_checkpoint()()
    world.files.crash()
    log = world.start()
    found = log.offset_for_timestamp(T + 2_000, log.log_end_offset)
    assert (found.offset, found.timestamp_ms) == (0, T + 5_000)


def test_log_starts_that_the_disk_refused_are_saved_when_it_takes_them_again() -> None:
    world = World(1)
    log = world.start()
    for _ in range(5):
        append(log)
    sync(log)
    log.delete_records(3)
    world.files.faults = [FailingOperation("sync")]
    with pytest.raises(LogError) as refused:
        world.store.start_saving_log_starts()()
    assert refused.value.error_code is ErrorCode.kafka_storage_error
    assert log.delete_records(3) == 3
    world.store.start_saving_log_starts()()
    world.files.crash()
    assert world.start().log_start_offset == 3


def test_a_stop_that_the_disk_spoils_is_not_called_clean() -> None:
    world = World(1)
    log = world.start()
    append(log)
    world.files.faults = [FailingOperation("sync")]
    world.store.close()
    assert not world.files.exists("/data/.kafka_cleanshutdown")
    assert world.start().log_end_offset == 1


def test_an_index_that_cannot_be_written_yet_does_not_spoil_the_append() -> None:
    world = World(1)
    store = SegmentStore(
        "/other", cluster_id="c", node_id=1, clock=world.clock, flush_on_commit=True, files=world.files
    )
    log = store.open("t", TOPIC_ID, 0, leader_epoch=0, config=TopicConfig(index_interval_bytes=0))
    batch = a_batch()
    for _ in range(1024):
        append(log, batch)
    # The next entry fills a block, which goes to the index file, behind the batch itself.
    world.files.faults = [FailingOperation("write", let_through=1)]
    assert append(log, batch).base_offset == 1024
    assert not world.files.faults
    append(log, batch)
    sync(log)
    assert log.high_watermark == 1026
    store.close()
    assert len(world.files.read_file("/other/t-0/00000000000000000000.index")) == 8 * 1025


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("closes_full", [True, False])
def test_a_flush_that_a_full_disk_fails_after_a_roll_is_made_good_when_there_is_room(
    is_clean: bool, closes_full: bool
) -> None:
    world = World(1)
    log = world.start()
    append(log, a_batch(producer_id=A, producer_epoch=0, sequence=0))
    sync(log)
    # Given a roll, whose small files are not flushed yet, and a batch that is to be written with its flush
    append(log, a_batch(producer_id=A, producer_epoch=0, sequence=1))
    log.roll(0)
    append(log, a_batch(producer_id=A, producer_epoch=0, sequence=2), write_later=True)
    full = FailingOperation(
        "write", error_number=ENOSPC, is_lasting=True, happens=lambda path: "/t-0/" in path
    )
    world.files.faults = [full]
    ticket = log.start_sync()
    assert ticket is not None
    with pytest.raises(OSError, match="No space left"):
        ticket.run()
    # When the flush fails
    log.fail_sync(ticket)
    # Then what was durable can be read, and nothing is appended
    assert (log.log_end_offset, log.high_watermark) == (1, 1)
    assert len(read_all(log)) == 1
    for _ in range(2):
        with pytest.raises(LogError, match="No space left"):
            append(log, a_batch(producer_id=A, producer_epoch=1, sequence=0))
    assert log.start_segment_sync() is None
    if not closes_full:
        # until there is room
        world.files.faults = []
        assert append(log, a_batch(producer_id=A, producer_epoch=1, sequence=0)).base_offset == 1
        log.roll(0)
        append(log, a_batch(producer_id=A, producer_epoch=1, sequence=1))
        sync(log)
    expected = read_all(log)
    if is_clean:
        world.store.close()
    world.files.faults = []
    if not is_clean:
        world.files.crash()
    assert read_all(world.start()) == expected


@pytest.mark.parametrize("runs", ["before the next topic's flush", "after it"])
def test_a_flush_that_comes_late_leaves_the_next_topic_of_that_name_alone(runs: str) -> None:
    world = World(1)
    world.start()
    store, other_id = world.store, bytes(range(16))
    log = store.open("n", TOPIC_ID, 0, leader_epoch=7, config=CONFIG)
    append(log)
    late = log.start_sync()
    assert late is not None
    late.keep_open()
    # Given a topic that is deleted while its first flush waits for a thread, and made anew
    store.delete("n", 0)
    log = store.open("n", other_id, 0, leader_epoch=0, config=CONFIG)
    append(log)
    if runs == "after it":
        sync(log)
    # When the thread comes
    late.run()
    sync(log)
    # Then the new log has its own leader epochs, and can be led at the next
    before = world.files.read_file("/data/n-0/leader-epoch-checkpoint")
    assert before == b"0\n1\n0 0\n"
    store.close()
    world.files.crash()
    world.epoch += 1
    world.start()
    log = world.store.open("n", other_id, 0, leader_epoch=1, config=CONFIG)
    assert log.log_end_offset == 1
    assert not [each.name for each in world.files.scan("/data/n-0") if "tmp" in each.name]


@pytest.mark.parametrize("ends", ["delete", "delete and no more", "abandon"])
def test_a_log_is_let_go_while_a_thread_writes_its_checkpoint(ends: str) -> None:
    world = World(1)
    log = world.start()
    for _ in range(3):
        append(log)
    sync(log)
    log.delete_records(2)
    work, sync_file, is_waiting = world.store.start_saving_log_starts(), world.files.sync, []

    def slow(handle: int) -> None:
        world.files.sync = sync_file  # type: ignore[method-assign]
        # The event loop lets the log go, and another one takes its place
        loop = Thread(target=lambda: getattr(world.store, ends.split(maxsplit=1)[0])("t", 0), daemon=True)
        loop.start()
        loop.join(timeout=10)
        is_waiting.append(loop.is_alive())
        if ends == "delete":
            world.store.open("t", bytes(range(16)), 0, leader_epoch=0, config=CONFIG)
        sync_file(handle)

    world.files.sync = slow  # type: ignore[method-assign]
    before = world.files.read_file("/data/t-0/klamm.checkpoint")
    work()
    assert is_waiting == [False]
    if ends == "delete and no more":
        assert not world.files.exists("/data/t-0")
        return
    left = world.files.read_file("/data/t-0/klamm.checkpoint")
    assert (left == before) is (ends == "abandon")
    assert b"log_start_offset: 2" not in left
    assert not [each.name for each in world.files.scan("/data/t-0") if "tmp" in each.name]


def test_a_log_that_cannot_be_closed_in_order_is_closed_and_not_called_clean() -> None:
    world = World(1)
    log = world.start()
    append(log)
    sync(log)
    append(log)
    log.roll(0)
    full = FailingOperation(
        "write", error_number=ENOSPC, is_lasting=True, happens=lambda path: "/t-0/" in path
    )
    append(log, write_later=True)
    world.files.faults = [full]
    ticket = log.start_sync()
    assert ticket is not None
    with pytest.raises(OSError, match="No space left"):
        ticket.run()
    log.fail_sync(ticket)
    # Given small files of a failed flush that cannot be written again, and a log that is not all on disk
    log._flushing.recovery_point = 0
    with pytest.raises(LogError):
        log.close()
    world.files.faults = []
    log.close()  # is over
    assert not list(world.store._logs)
    left = world.store._checkpoints.read(TopicPartition("t", 0))
    assert left is not None
    assert not left.is_clean
