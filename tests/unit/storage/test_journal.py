"""The journal: what it holds is durable, and no crash loses, doubles or resurrects anything."""

from __future__ import annotations

from contextlib import suppress
from typing import cast

import pytest

from klamm.protocol.errors import DecodeError
from klamm.records.batch import parse_header
from klamm.records.checksum import crc32c
from klamm.storage.engines.segments import SegmentStore
from klamm.storage.engines.segments.journal_file import JournaledLog, JournalFile
from klamm.storage.engines.segments.journal_format import Entry, decode_frames, encode_frame
from klamm.storage.engines.segments.journal_reading import JournalContent, read_journal
from klamm.storage.engines.segments.log import SegmentLog
from klamm.storage.engines.segments.sync import SegmentSyncTicket
from klamm.storage.engines.simulated_disk import FailingOperation, PowerLossError
from klamm.storage.log import LogError
from unit.storage.journal_world import ALWAYS, TOPICS, JournalWorld, opened, topic_id
from unit.storage.log_samples import a_batch, append, read_all

JOURNAL = "/data/journal"


def stored(log: SegmentLog) -> list[bytes]:
    return [bytes(batch) for batch in read_all(log, until_offset=log.log_end_offset)]


def syncs(world: JournalWorld) -> int:
    return world.files.counters.by_operation.get("sync", 0)


def a_world(seed: int = 1) -> JournalWorld:
    """A world whose logs have durable names: the next round is in the journal."""
    world = JournalWorld(seed)
    world.start()
    for topic in TOPICS:
        world.append(topic)
    assert world.flush() == 0
    return world


# --- what it is for


def test_a_round_of_several_logs_takes_one_sync() -> None:
    world = a_world()
    for _ in range(2):
        for topic in TOPICS:
            world.append(topic)
        before = syncs(world)
        assert world.flush() == len(TOPICS)
        assert syncs(world) == before + 1
    assert [log.high_watermark for log in world.logs.values()] == [3] * 3
    assert [log.recovery_point for log in world.logs.values()] == [1] * 3


@pytest.mark.parametrize("seed", range(20))
def test_what_is_only_in_the_journal_is_there_after_a_power_loss(seed: int) -> None:
    world = a_world(seed)
    for n in range(5):
        world.append("a", 30 * n)
        world.append(ALWAYS, write_later=False)
        assert world.flush() == 2
    world.files.crash()
    world.start()
    world.restarted()
    assert [log.log_end_offset for log in world.logs.values()] == [6, 1, 6]
    # And the segments have it now: the journal is not needed for a second loss.
    world.files.crash()
    for entry in world.files.scan(JOURNAL):
        world.files.remove(f"{JOURNAL}/{entry.name}")
    world.start()
    world.check()


def test_a_log_that_is_always_journaled_is_written_to_its_segment_when_the_journal_needs_room() -> None:
    world = a_world()
    log = world.logs[ALWAYS]
    in_segment = [log.segments[-1].written_bytes]
    for count in range(2, 60):
        world.append(ALWAYS, 100)
        world.flush()
        assert log.high_watermark == count  # durable, and readable
        in_segment.append(log.segments[-1].written_bytes)
    world.check()
    assert in_segment[0] == in_segment[10]  # no write for each round
    assert len(set(in_segment)) > 2
    assert log.recovery_point > 1


def test_a_clean_shutdown_leaves_no_journal() -> None:
    world = a_world()
    world.append("a")
    assert world.flush() == 1
    assert world.files.scan(JOURNAL)
    world.store.close()
    assert not world.files.exists(JOURNAL)
    assert world.files.exists("/data/.kafka_cleanshutdown")
    world.files.crash()
    world.start()
    world.check()


def test_a_large_round_flushes_its_own_files_except_for_logs_that_are_always_journaled() -> None:
    world = a_world()
    world.append("a", 2000)
    world.append("b", 1500)
    world.append(ALWAYS, 2500)
    assert world.flush() == 2  # the larger of the two others is left out
    assert world.logs["a"].recovery_point == 2
    assert world.logs["b"].recovery_point == 1
    assert world.logs[ALWAYS].recovery_point == 1


def test_files_are_used_again_when_the_segments_are_synced() -> None:
    world = a_world()
    sizes = set()
    for _ in range(300):
        world.append("a", 200)
        world.append("b", 10)
        world.flush()
        sizes.add(len(world.files.scan(JOURNAL)))
    assert max(sizes) == 2
    assert max(entry.size_bytes for entry in world.files.scan(JOURNAL)) < 1_000_000


def test_a_log_that_is_not_synced_keeps_the_files_and_the_others_go_on() -> None:
    world = a_world()
    world.append("b")
    world.flush()
    rounds = [0]
    for _ in range(300):
        world.append("a", 200)
        rounds.append(world.flush(("a",)))  # b is never synced
    assert len(world.files.scan(JOURNAL)) == 6
    assert rounds[-1] == 0  # no file is free: the log's own files are flushed
    world.files.crash()
    world.start()
    world.check()


class SyncedLog:
    """What a file of the journal asks a log, counted."""

    def __init__(self) -> None:
        self.synced_to = 0
        self.asked = 0
        self.is_writable = True

    @property
    def recovery_point(self) -> int:
        self.asked += 1
        return self.synced_to


def a_full_file(*logs: SyncedLog) -> JournalFile:
    """A file that holds ten records of each log."""
    file = JournalFile(0, "/journal", 1, 0)
    file.logs = dict.fromkeys(cast("tuple[JournaledLog, ...]", logs), 10)
    return file


def first_lagging(file: JournalFile) -> list[SyncedLog]:
    return cast("list[SyncedLog]", file.first_lagging(2))


def test_the_rounds_after_a_file_is_full_ask_only_the_logs_that_are_next() -> None:
    # Given a full file with batches of a thousand logs
    logs = [SyncedLog() for _ in range(1000)]
    file = a_full_file(*logs)
    # When rounds ask for two at a time, and these are synced a round later
    seen: list[SyncedLog] = []
    while due := first_lagging(file):
        assert first_lagging(file) == due  # their syncs are under way
        for log in due:
            log.synced_to = 10
        seen += due
    # Then each log was asked a few times, not once a round
    assert seen == logs
    assert max(log.asked for log in logs) <= 4
    assert not file.is_lagging


def test_a_log_whose_disk_has_failed_is_not_synced_and_keeps_its_file() -> None:
    good, bad = SyncedLog(), SyncedLog()
    bad.is_writable = False
    file = a_full_file(bad, good)
    assert first_lagging(file) == [good]
    good.synced_to = 10
    assert first_lagging(file) == []
    assert file.is_lagging
    file.use(2)
    assert not file.is_lagging


def test_without_settings_the_journal_of_the_last_run_is_read_and_none_is_written() -> None:
    world = a_world()
    world.append("a")
    world.flush()
    world.files.crash()
    world.start(settings=None)
    world.restarted()
    world.append("a")
    assert world.flush() == 0
    world.store.close()
    assert not world.files.exists(JOURNAL)


def test_another_broker_replays_what_the_journal_of_the_last_leader_holds() -> None:
    world = a_world(5)
    for n in range(4):
        world.append("a", n)
        world.flush()
    world.files.crash()
    for entry in world.files.scan(JOURNAL):
        world.files.rename(f"{JOURNAL}/{entry.name}", f"{JOURNAL}/{entry.name.replace('1-', '7-')}")
    before = [world.files.read_file(f"{JOURNAL}/{entry.name}") for entry in world.files.scan(JOURNAL)]
    world.promised["a"].is_deleted = True
    world.start()
    assert world.open("a").log_end_offset == 5
    world.check()
    after = [world.files.read_file(f"{JOURNAL}/{entry.name}") for entry in world.files.scan(JOURNAL)]
    assert after == before
    world.store.leaders_changed()  # frees the memory


def test_a_log_that_another_broker_leads_is_not_written_when_it_is_abandoned() -> None:
    # Given a leader with a durable batch that only the journal has, and one that is not durable
    world = a_world(3)
    for topic in ("a", ALWAYS):
        world.append(topic)
    world.flush()
    for topic in ("a", ALWAYS):
        world.append(topic, 100)
    # And another broker that leads the partitions now, and has acknowledged something
    world.store.share()
    other = world.another_broker(7)
    acknowledged = {topic: append_at_next_epoch(world, other, topic) for topic in ("a", ALWAYS)}
    # When the former leader learns of it
    operations = world.files.counters.total
    for topic in ("a", ALWAYS):
        world.store.abandon(topic, 0)
    # Then it writes nothing, and what the others acknowledged is there after a power loss
    assert world.files.counters.total == operations
    world.files.crash()
    last = world.another_broker(8)
    for topic in ("a", ALWAYS):
        log = opened(last, topic, world.epoch + 2)
        assert log.log_end_offset == 3
        assert stored(log)[2][16:] == acknowledged[topic]


def append_at_next_epoch(world: JournalWorld, store: SegmentStore, topic: str) -> bytes:
    log = opened(store, topic, world.epoch + 1)
    assert log.log_end_offset == 2  # with what the journal has
    batch = a_batch(value=b"of the next leader")
    append(log, batch)
    ticket = log.start_sync()
    assert isinstance(ticket, SegmentSyncTicket)
    ticket.run()
    log.finish_sync(ticket)
    return batch[16:]


def test_an_abandoned_log_keeps_the_journal_until_its_next_leader_has_it() -> None:
    # Given a log that was abandoned, with a durable batch that only the journal has
    world = a_world(3)
    world.append("a")
    world.flush()
    world.store.share()
    world.store.abandon("a", 0)
    world.files.kill()  # as far as locks are concerned
    # When another broker has opened it
    log = opened(world.another_broker(7), "a", world.epoch + 1)
    assert log.log_end_offset == 2
    # Then the next checkpoint frees the journal
    former = world.logs["a"]
    assert world.journal.has(former)
    world.store.start_checkpoint()()
    assert not world.journal.has(former)


def test_a_broker_that_leads_an_abandoned_log_again_finds_what_its_journal_has() -> None:
    world = a_world(3)
    world.append(ALWAYS)
    world.flush()
    world.append(ALWAYS)
    former = world.logs[ALWAYS]
    ticket = former.start_sync()
    assert isinstance(ticket, SegmentSyncTicket)
    started = world.journal.start_round([ticket])
    assert started is not None
    # Given a log that was abandoned while a round was under way
    world.store.abandon(ALWAYS, 0)
    # When it is opened again
    log = opened(world.store, ALWAYS, world.epoch + 1)
    assert log.log_end_offset >= 2
    started.run()
    world.journal.finish_round()
    # Then the journal does not keep what it has no more use for
    assert not world.journal.has(former)


def test_while_a_round_is_under_way_another_broker_of_the_process_flushes_its_own_files() -> None:
    world = a_world()
    for topic in ("a", "b"):
        world.append(topic)
    first, second = world.logs["a"].start_sync(), world.logs["b"].start_sync()
    assert isinstance(first, SegmentSyncTicket)
    assert isinstance(second, SegmentSyncTicket)
    started = world.journal.start_round([first])
    assert started is not None
    assert world.journal.start_round([second]) is None
    assert (first.is_journaled, second.is_journaled) == (True, False)
    started.run()
    world.journal.finish_round()
    world.logs["a"].finish_sync(first)
    assert world.logs["a"].high_watermark == 2


def test_segments_are_written_when_the_journal_is_on_its_way_to_the_disk() -> None:
    world = a_world()
    for topic in TOPICS:
        world.append(topic)
    before = written_bytes(world)
    tickets = [cast(SegmentSyncTicket, log.start_sync()) for log in world.logs.values()]
    started = world.journal.start_round(tickets)
    assert started is not None
    assert written_bytes(world) == before
    started.write_segments()
    assert [now > then for now, then in zip(written_bytes(world), before, strict=True)] == [True, True, False]
    started.run()
    world.journal.finish_round()


def written_bytes(world: JournalWorld) -> list[int]:
    return [len(world.files.read_file(f"/data/{topic}-0/{0:020}.log")) for topic in TOPICS]


@pytest.mark.parametrize("seed", range(20))
def test_a_file_of_a_run_that_ended_before_its_name_was_on_disk_loses_nothing(seed: int) -> None:
    # Given a process that was killed while its first round was under way
    world = a_world(seed)
    world.append("a")
    ticket = world.logs["a"].start_sync()
    assert isinstance(ticket, SegmentSyncTicket)
    assert world.journal.start_round([ticket]) is not None
    world.files.kill()
    world.start()
    world.restarted()
    # When the next one uses the file that it finds, and the power goes after a round
    for _ in range(3):
        world.append("a")
        world.flush()
    world.files.crash()
    # Then what was flushed is there
    world.start()
    world.check()


def test_a_log_whose_first_flush_after_a_roll_fails_is_flushed_again() -> None:
    # Given a batch that only the journal has, at the end of a segment
    world = a_world()
    world.append("a")
    world.flush()
    log = world.logs["a"]
    log.roll(world.clock.now_ms())
    # When the flush of the next segment fails, and that segment is empty again
    world.append("a")
    failed = log.start_sync()
    assert failed is not None
    world.files.faults.append(FailingOperation("sync"))
    with pytest.raises(OSError, match="error"):
        failed.run()
    log.fail_sync(failed)
    assert log.log_end_offset == 2
    # Then both are written again, and the log goes on
    world.append("a")
    ticket = log.start_sync()
    assert ticket is not None
    ticket.run()
    log.finish_sync(ticket)
    assert (log.high_watermark, log.recovery_point) == (3, 3)


@pytest.mark.parametrize("seed", range(20))
def test_a_segment_that_cannot_be_written_loses_nothing_and_its_next_flush_fails(seed: int) -> None:
    world = a_world(seed)
    full_disk = FailingOperation("write", is_lasting=True, happens=lambda path: path.endswith(".log"))
    # Given a round whose batch is in the journal, and could not be written to its segment
    world.append("a")
    world.files.faults = [full_disk]
    assert world.flush() == 1
    log = world.logs["a"]
    assert (log.high_watermark, len(stored(log))) == (2, 2)
    # When the next one is to be flushed, it is refused, and what was promised is still there
    world.append("a")
    assert world.flush() == 0
    assert (log.high_watermark, log.log_end_offset) == (2, 2)
    if seed % 2:
        # Then the disk has room again, and both are written
        world.files.faults = []
        world.append("a")
        assert world.flush() == 1
    world.files.faults = []
    world.files.crash()
    world.start()
    world.check()
    assert world.logs["a"].log_end_offset == 2 + seed % 2


# --- any crash


@pytest.mark.parametrize("part", range(8))
def test_the_power_may_go_at_every_single_operation(part: int) -> None:
    rehearsal = JournalWorld(0)
    rehearsal.start()
    rehearsal.run()
    moments = rehearsal.files.counters.total
    assert moments > 150
    for moment in range(1 + part, moments + 1, 8):
        for seed in range(3):
            world = JournalWorld(seed * 10_000 + moment)
            world.files.power_fails_at = moment
            try:
                world.start()
                world.run()
            except PowerLossError:
                world.files.crash()
            else:
                raise AssertionError(f"operation {moment} did not happen")
            world.start()
            world.restarted()
            # Once more, in the middle of the next day.
            world.files.power_fails_at = world.files.counters.total + 5 + moment % 60
            try:
                world.run()
            except PowerLossError:
                world.files.crash()
                world.start()
                world.check()


@pytest.mark.parametrize("part", range(4))
def test_the_power_may_go_at_every_operation_of_a_recovery(part: int) -> None:
    for seed in range(part, 24, 4):
        world = JournalWorld(seed)
        world.start()
        world.files.power_fails_at = world.files.counters.total + 20 + 5 * seed
        with pytest.raises(PowerLossError):
            world.run()
        world.files.crash()
        for moment in range(1, 80, 2):
            world.files.power_fails_at = world.files.counters.total + moment
            try:
                world.start()
            except PowerLossError:
                world.files.crash()
                continue
            world.files.power_fails_at = None
            world.restarted()
            world.files.crash()
        world.start()
        world.check()


@pytest.mark.parametrize("operation", ["sync", "write"])
@pytest.mark.parametrize("part", range(4))
def test_any_operation_may_fail_once_and_a_power_loss_follow(operation: str, part: int) -> None:
    rehearsal = JournalWorld(0)
    rehearsal.start()
    rehearsal.run()
    for number in range(part, rehearsal.files.counters.by_operation[operation], 4):
        world = JournalWorld(number)
        world.start()
        world.files.faults = [
            FailingOperation("sync" if operation == "sync" else "write", let_through=number)
        ]
        try:
            world.run()
        except LogError:
            pass  # this log is given up; the disk has everything that was promised
        except OSError:
            pass
        world.files.crash()
        world.start()
        world.check()


@pytest.mark.parametrize("operation", ["sync", "write"])
@pytest.mark.parametrize("part", range(4))
def test_what_a_new_process_finds_after_a_failed_operation_survives_a_power_loss(
    operation: str, part: int
) -> None:
    rehearsal = JournalWorld(0)
    rehearsal.start()
    rehearsal.run()
    for number in range(part, rehearsal.files.counters.by_operation[operation], 4):
        for times in (1, 2):
            world = JournalWorld(number)
            world.start()
            world.files.faults = [
                FailingOperation("sync" if operation == "sync" else "write", let_through=number)
                for _ in range(times)
            ]
            with suppress(LogError, OSError):
                world.run()
            world.files.kill()
            world.start()
            world.check()
            found = {topic: stored(log) for topic, log in world.logs.items()}
            world.files.crash()
            world.start()
            for topic, log in world.logs.items():
                # One that was cut, and whose cut could not be synced, may be back.
                assert stored(log)[: len(found[topic])] == found[topic]


# --- failures


def test_a_failed_round_is_cut_back_everywhere_and_never_comes_back() -> None:
    for seed in range(20):
        world = a_world(seed)
        for topic in TOPICS:
            world.append(topic)
        world.files.faults = [FailingOperation("sync")]
        assert world.flush() == len(TOPICS)
        assert [log.log_end_offset for log in world.logs.values()] == [1] * 3
        world.append("a")
        world.flush()
        world.files.crash()
        world.start()
        world.check()
        assert [log.log_end_offset for log in world.logs.values()] == [2, 1, 1]


def test_the_journal_rests_while_a_failed_round_cannot_be_cut_off() -> None:
    world = a_world()
    for topic in TOPICS:
        world.append(topic)
    world.files.faults = [FailingOperation("sync"), FailingOperation("truncate")]
    with pytest.raises(OSError, match="error"):
        world.flush()
    assert world.journal.start_round([]) is None
    world.files.crash()
    world.start()
    for topic, log in world.logs.items():
        assert log.log_end_offset in (1, 2), topic


def test_a_segment_that_could_not_be_synced_is_written_again_before_the_journal_lets_it_go() -> None:
    for seed in range(20):
        world = a_world(seed)
        for _ in range(3):
            world.append("a")
            assert world.flush() == 1
        log = world.logs["a"]
        for fails in (True, False):
            ticket = log.start_segment_sync()
            assert ticket is not None
            world.files.faults = [FailingOperation("sync")] if fails else []
            if fails:
                with pytest.raises(OSError, match="error"):
                    ticket.run()
                log.fail_sync(ticket)
                assert (log.log_end_offset, log.recovery_point) == (4, 1)
            else:
                ticket.run()
                log.finish_sync(ticket)
        assert log.recovery_point == 4
        for entry in world.files.scan(JOURNAL):
            world.files.remove(f"{JOURNAL}/{entry.name}")
        world.files.crash()
        world.start()
        assert world.logs["a"].log_end_offset == 4


def test_batches_that_are_missing_before_the_journal_fail_their_partition_only() -> None:
    world = a_world()
    for topic in ("a", "b"):
        world.append(topic)
    world.flush()
    world.store.files.truncate(world.files.open("/data/a-0/00000000000000000000.log"), 0)
    world.files.kill()
    with pytest.raises(LogError, match="but the journal continues at 1"):
        world.start()
    assert world.epoch == 1


# --- its bytes


def entries() -> list[Entry]:
    batch = a_batch()
    return [
        Entry("topic", topic_id("a"), 3, 7, 100, batch),
        Entry("täglich", topic_id("b"), 0, 0, 5, None),
        Entry("empty", topic_id("c"), 1, 1, 0, b""),
    ]


def test_frames_are_read_as_they_were_written() -> None:
    data = encode_frame(4, 9, entries()) + encode_frame(4, 10, []) + bytes(100)
    frames = list(decode_frames(data))
    assert [(frame.number, frame.sequence) for frame in frames] == [(4, 9), (4, 10)]
    assert frames[0].entries == entries()


def test_a_frame_that_is_damaged_or_incomplete_ends_the_file() -> None:
    frame = encode_frame(1, 1, entries())
    for length in range(len(frame)):
        assert list(decode_frames(frame[:length])) == []
    for position in range(0, len(frame), 7):
        damaged = bytearray(frame)
        damaged[position] ^= 0x40
        assert list(decode_frames(bytes(damaged))) == []


@pytest.mark.parametrize(("number", "sequence"), [(3, 2), (4, 3), (4, 1)])
def test_a_frame_of_an_earlier_use_ends_the_file(number: int, sequence: int) -> None:
    data = encode_frame(4, 1, entries()) + encode_frame(number, sequence, entries())
    assert len(list(decode_frames(data))) == 1


def test_a_valid_frame_with_impossible_entries_is_not_skipped() -> None:
    content = bytearray(encode_frame(1, 1, entries())[:-4])
    content[24] = 9  # where the first entry has its kind
    with pytest.raises(DecodeError, match="kind 9"):
        list(decode_frames(bytes(content) + crc32c(content).to_bytes(4, "big")))


def test_a_later_entry_replaces_what_was_at_its_offsets() -> None:
    world = JournalWorld(1)
    world.start()
    for n in range(4):
        append(world.logs["a"], a_batch(value=b"%d" % n))
    batches = read_all(world.logs["a"], until_offset=4)
    content = JournalContent()
    key = ("a", topic_id("a"), 0)
    content.add(Entry(*key, 0, 0, b"".join(batches)))
    content.add(Entry(*key, 0, 2, batches[2]))
    assert [batch.data for batch in content.of(*key)] == batches[:3]
    content.add(Entry(*key, 0, 1, None))
    assert [batch.data for batch in content.of(*key)] == batches[:1]
    assert content.of(*key)[0].header == parse_header(batches[0])


def test_no_journal_is_an_empty_one() -> None:
    world = JournalWorld(1)
    assert read_journal(world.files, JOURNAL, 1).batches == {}
