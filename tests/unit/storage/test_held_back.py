"""Batches that are held back: none survives a crash without what it comes after."""

from __future__ import annotations

import errno

import pytest

from klamm.storage.durability import SyncTicket
from klamm.storage.engines.segments.holding_back import HoldingBack
from klamm.storage.engines.segments.sync import SegmentSyncTicket
from klamm.storage.engines.simulated_disk import FailingOperation, PowerLossError
from unit.storage.journal_world import ALWAYS, TOPICS, JournalWorld
from unit.storage.log_samples import read_all

DEPENDENT = "b"


class OrderedWorld(JournalWorld):
    """Decisions in one log, and in another what may only be there if they are."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.needed: dict[int, int] = {}  # offset of a dependent batch -> where the decisions must end

    @property
    def held_back(self) -> HoldingBack:
        held_back = self.logs[DEPENDENT].held_back
        assert isinstance(held_back, HoldingBack)
        return held_back

    def decide(self, size: int = 10) -> None:
        """Append a decision, and what depends on it."""
        self.append(ALWAYS, size)
        self.held_back.begin()
        dependent = self.logs[DEPENDENT]
        self.needed[dependent.log_end_offset] = self.logs[ALWAYS].log_end_offset
        self.append(DEPENDENT, size)

    def round(self) -> bool:
        """A round as the broker runs it; whether the dependent batches shared that of the decisions."""
        lagging = self.journal.lagging()
        tickets: dict[str, SegmentSyncTicket] = {}
        for topic, log in self.logs.items():
            ticket = log.start_segment_sync() if log in lagging else log.start_sync()
            if isinstance(ticket, SegmentSyncTicket):
                tickets[topic] = ticket
        dependent = tickets.get(DEPENDENT)
        waits = self.held_back.is_active and self.logs[ALWAYS].is_dirty
        after: dict[SyncTicket, list[SyncTicket | None]] = {}
        after |= {dependent: [tickets.get(ALWAYS)]} if dependent is not None and waits else {}
        with_journal = [ticket for ticket in tickets.values() if ticket.journal is not None]
        started = self.journal.start_round(with_journal, after)
        if dependent is not None and waits and not dependent.is_journaled:
            is_new = dependent.end_offset > self.logs[DEPENDENT].high_watermark
            tickets = {topic: each for topic, each in tickets.items() if topic != DEPENDENT or not is_new}
        for topic, ticket in tickets.items():
            if not ticket.is_journaled:
                self._settle(self.logs[topic], ticket, self._run(ticket))
        if started is not None:
            # The broker writes the segments while the disk works: before the frame is durable, or after.
            is_slow = self.count % 2 == 0
            if is_slow:
                started.write_segments()
            started.run()
            if not is_slow:
                started.write_segments()
            self.journal.finish_round()
            for topic, ticket in tickets.items():
                if ticket.is_journaled:
                    self._settle(self.logs[topic], ticket, True)
        if not self.logs[ALWAYS].is_dirty:
            self.held_back.end()
        return dependent is not None and dependent.is_journaled

    def run(self) -> None:
        """Rounds that are shared and rounds that cannot be, rolls, reads, a checkpoint, a stop."""
        for n in range(30):
            self.decide(60 * (n % 4))
            if n % 4 == 1:
                self.append(DEPENDENT, 20, write_later=False)
            if n % 5 == 2:
                read_all(self.logs[DEPENDENT], until_offset=self.logs[DEPENDENT].log_end_offset)
            if n in (6, 19):
                self.append(DEPENDENT, 2800)  # too large for a round of the journal
            if n == 13:
                self.logs[DEPENDENT].roll(0)
            if n in (9, 22):
                self.journal.end_file()
            if n % 3:
                self.round()
            if n == 16:
                self.store.start_checkpoint()()
            if n == 25:
                self.store.abandon(DEPENDENT, 0)  # what is not durable may go with it
                self.epoch += 1
                opened = self.open(DEPENDENT)
                del self.promised[DEPENDENT].appended[opened.log_end_offset :]
        self.round()
        self.round()
        self.store.close()

    def check_order(self) -> None:
        """After a crash: every dependent batch has its decision."""
        self.check()
        decided = self.logs[ALWAYS].log_end_offset
        for offset in range(self.logs[DEPENDENT].log_end_offset):
            assert self.needed.get(offset, 0) <= decided, f"offset {offset} is there, its decision is not"


def a_world(seed: int = 1) -> OrderedWorld:
    """A world whose logs have durable names: the next round is in the journal."""
    world = OrderedWorld(seed)
    world.start()
    for topic in TOPICS:
        world.append(topic)
    world.flush()
    return world


def in_segment(world: OrderedWorld) -> int:
    return world.logs[DEPENDENT].segments[-1].written_bytes


def crashes(part: int, parts: int, *, loses_power: bool) -> None:
    rehearsal = a_world()
    rehearsal.run()
    first = a_world().files.counters.total
    moments = rehearsal.files.counters.total
    assert moments > first + 100
    for moment in range(first + 1 + part, moments + 1, parts):
        for seed in range(4):
            world = a_world(seed * 10_000 + moment)
            world.files.power_fails_at = moment
            with pytest.raises(PowerLossError):
                world.run()
            if loses_power:
                world.files.crash()
            else:
                world.files.power_fails_at = None
                world.files._is_off = False
                world.files.kill()
            world.start()
            world.check_order()


@pytest.mark.parametrize("part", range(4))
def test_the_power_may_go_at_every_operation(part: int) -> None:
    crashes(part, 4, loses_power=True)


def test_the_process_may_end_at_every_operation() -> None:
    crashes(0, 1, loses_power=False)


def test_what_is_not_held_back_survives_without_its_decision(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HoldingBack, "begin", lambda self: None)
    with pytest.raises(AssertionError, match="its decision is not"):
        crashes(0, 1, loses_power=True)


def test_it_is_in_memory_until_the_journal_has_it() -> None:
    world = a_world()
    before = in_segment(world)
    world.decide()
    world.append(DEPENDENT, write_later=False)
    log = world.logs[DEPENDENT]
    assert in_segment(world) == before
    assert len(read_all(log, until_offset=log.log_end_offset)) == 3
    assert world.round()
    assert in_segment(world) == log.segments[-1].size_bytes > before
    assert not world.held_back.is_active


def test_a_segment_sync_leaves_it_out() -> None:
    world = a_world()
    world.append(DEPENDENT)
    assert world.flush() == 1  # durable in the journal only
    world.decide()
    log = world.logs[DEPENDENT]
    ticket = log.start_segment_sync()
    assert ticket is not None
    ticket.run()
    log.finish_sync(ticket)
    assert (log.recovery_point, log.high_watermark, log.log_end_offset) == (2, 2, 3)
    assert world.round()
    assert log.high_watermark == 3


def test_a_flush_of_its_own_files_fails() -> None:
    world = a_world()
    world.decide()
    log = world.logs[DEPENDENT]
    ticket = log.start_sync()
    assert ticket is not None
    assert ticket.files_only() is None
    with pytest.raises(OSError, match="held back"):
        ticket.run()
    log.fail_sync(ticket)
    assert log.log_end_offset == 1


def test_a_log_that_is_closed_drops_it() -> None:
    world = a_world()
    world.append(ALWAYS)
    world.held_back.begin()
    world.append(DEPENDENT)
    asked: list[str] = []
    world.logs[DEPENDENT].flush_soon = lambda: asked.append("a flush")
    world.logs[DEPENDENT].close()
    assert asked == []  # it may be on another thread, at a stop
    world.files.kill()
    world.start()
    assert world.logs[DEPENDENT].log_end_offset == 1


def test_a_full_disk_after_the_round_loses_nothing() -> None:
    world = a_world()
    world.decide()
    log = world.logs[DEPENDENT]
    # The frame is written; the segment of what depends on the decisions is not.
    world.files.faults = [
        FailingOperation("write", let_through=1, error_number=errno.ENOSPC, is_lasting=True)
    ]
    assert world.round()
    assert log.high_watermark == 2
    assert in_segment(world) < log.segments[-1].size_bytes
    assert len(read_all(log, until_offset=2)) == 2
    world.append(DEPENDENT)
    world.round()  # now it is reported: the next flush fails
    assert (log.high_watermark, log.log_end_offset) == (2, 2)
    world.files.faults = []
    world.append(DEPENDENT)
    world.round()
    assert log.high_watermark == 3
    assert in_segment(world) == log.segments[-1].size_bytes
    world.files.crash()
    world.start()
    world.check_order()
    assert world.logs[DEPENDENT].log_end_offset == 3


def test_a_log_that_is_let_go_during_a_round_leaves_the_files_to_whoever_has_them_then() -> None:
    world = a_world()
    world.decide()
    log = world.logs[DEPENDENT]
    tickets = [log.start_sync(), world.logs[ALWAYS].start_sync()]
    started = world.journal.start_round([each for each in tickets if isinstance(each, SegmentSyncTicket)])
    assert started is not None
    started.write_segments()
    path = log.segments[-1].log_path
    # When the topic is deleted, and another one of that name is created, while the disk works on the round
    world.delete(DEPENDENT)
    world.files.make_directory(log.directory)
    world.files.write_file(path, b"of another topic", sync=False)
    started.run()
    world.journal.finish_round()
    (ticket,) = [each for each in started.tickets if each.log is log] or tickets[:1]
    assert ticket is not None
    log.finish_sync(ticket)
    # Then its file is as it was
    assert world.files.read_file(path) == b"of another topic"
