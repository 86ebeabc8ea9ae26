"""A machine whose logs share a journal, and what was promised to its clients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from klamm.clock import ManualClock
from klamm.storage.engines.segments import SegmentStore
from klamm.storage.engines.segments.journal import Journal, JournalSettings
from klamm.storage.engines.segments.log import SegmentLog
from klamm.storage.engines.segments.sync import SegmentSyncTicket
from klamm.storage.engines.simulated_disk import SimulatedFiles
from klamm.storage.topic_config import TopicConfig
from unit.storage.log_samples import T, a_batch, append, loaded, read_all, repair

CONFIG = TopicConfig(segment_bytes=3000, index_interval_bytes=200)
SETTINGS = JournalSettings(file_bytes=4000, round_bytes=3000)
ALWAYS = "internal"
TOPICS = ("a", "b", ALWAYS)


def topic_id(topic: str) -> bytes:
    return topic.encode().ljust(16, b"\1")


@dataclass
class Promised:
    """One log as its clients know it."""

    appended: list[bytes] = field(default_factory=list)  # from offset 0 on, each of one record
    durable_end: int = 0
    start: int = 0
    is_deleted: bool = False


def opened(store: SegmentStore, topic: str, leader_epoch: int) -> SegmentLog:
    """A log, which may have to be recovered first."""

    log = loaded(lambda: store.open(topic, topic_id(topic), 0, leader_epoch=leader_epoch, config=CONFIG))
    assert isinstance(log, SegmentLog)
    return log


class JournalWorld:
    """Three logs, of which one is always in the journal."""

    def __init__(self, seed: int) -> None:
        self.clock = ManualClock(timestamp_ms=T)
        self.files = SimulatedFiles(Random(seed), self.clock)
        self.epoch = -1
        self.promised = {topic: Promised() for topic in TOPICS}
        self.count = 0

    def start(self, settings: JournalSettings | None = SETTINGS) -> None:
        self.store = SegmentStore(
            "/data",
            cluster_id="c",
            node_id=1,
            clock=self.clock,
            flush_on_commit=True,
            committed_topics=(ALWAYS,),
            files=self.files,
            journal=settings,
        )
        self.epoch += 1
        self.logs: dict[str, SegmentLog] = {}
        for topic in TOPICS:
            if not self.promised[topic].is_deleted:
                self.open(topic)

    def another_broker(self, node_id: int) -> SegmentStore:
        """The store of another broker on the same directory, which flushes its own files."""
        store = SegmentStore(
            "/data",
            cluster_id="c",
            node_id=node_id,
            clock=self.clock,
            flush_on_commit=True,
            files=self.files,
        )
        store.share()
        return store

    def open(self, topic: str) -> SegmentLog:
        log = self.logs[topic] = opened(self.store, topic, self.epoch)
        return log

    @property
    def journal(self) -> Journal:
        return self.store.journal

    def append(self, topic: str, size: int = 10, *, write_later: bool = True) -> None:
        self.count += 1
        batch = a_batch(timestamps_ms=[T + self.count], value=b"%d" % self.count + bytes(size))
        self.promised[topic].appended.append(batch[16:])  # before the call: a crash may keep the batch
        if topic == ALWAYS and write_later:
            self.logs[topic].append_own(batch, 0)  # as coordinators do
        else:
            append(self.logs[topic], batch, write_later=write_later)

    def flush(self, topics: Sequence[str] = TOPICS) -> int:
        """A round as the broker runs it; how many logs were in the journal."""
        self.repair_journal()
        lagging = self.journal.lagging()
        tickets: list[tuple[SegmentLog, SegmentSyncTicket]] = []
        for topic in topics:
            log = self.logs.get(topic)
            if log is not None:
                ticket = log.start_segment_sync() if log in lagging else log.start_sync()
                if isinstance(ticket, SegmentSyncTicket):
                    tickets.append((log, ticket))
        with_journal = [ticket for _, ticket in tickets if ticket.journal is not None]
        journaled = self.journal.start_round(with_journal) if with_journal else None
        for log, ticket in tickets:
            if not ticket.is_journaled:
                self._settle(log, ticket, self._run(ticket))
        if journaled is None:
            return 0
        # The broker writes the segments while the disk works: before the frame is durable, or after.
        is_slow = self.count % 2 == 0
        if is_slow:
            journaled.write_segments()
        is_good = True
        try:
            journaled.run()
        except OSError:
            is_good = False
        if not is_slow:
            journaled.write_segments()
        if is_good:
            self.journal.finish_round()
        else:
            self.journal.fail_round()
            self.repair_journal()
        for log, ticket in tickets:
            if ticket.is_journaled:
                self._settle(log, ticket, is_good)
        return len(journaled.tickets)

    def repair_journal(self) -> None:
        if (work := self.journal.start_repair()) is not None:
            work.run()
            self.journal.finish_repair(is_good=True)

    def _run(self, ticket: SegmentSyncTicket) -> bool:
        try:
            ticket.run()
        except OSError:
            return False
        return True

    def _settle(self, log: SegmentLog, ticket: SegmentSyncTicket, is_good: bool) -> None:
        promised = self.promised[log.topic]
        if is_good:
            log.finish_sync(ticket)
            promised.durable_end = max(promised.durable_end, log.high_watermark)
        else:
            log.fail_sync(ticket)
            repair(log)
            del promised.appended[log.log_end_offset :]
            assert log.log_end_offset >= promised.durable_end

    def truncate(self, topic: str, by: int) -> None:
        log, promised = self.logs[topic], self.promised[topic]
        to_offset = max(log.log_end_offset - by, log.log_start_offset)
        promised.durable_end = min(promised.durable_end, to_offset)
        log.truncate(to_offset)
        repair(log)  # a power loss before may undo the cut
        del promised.appended[to_offset:]

    def delete_records(self, topic: str) -> None:
        log = self.logs[topic]
        log.delete_records(max(log.high_watermark - 3, log.log_start_offset))
        self.store.start_saving_log_starts()()
        self.promised[topic].start = log.log_start_offset
        loaded(lambda: log.delete_old_segments(0, T))

    def delete(self, topic: str) -> None:
        self.promised[topic].is_deleted = True
        del self.logs[topic]
        self.store.delete(topic, 0)

    def run(self) -> None:
        """A busy day: rounds of the journal and of single files, cuts, deletions, a checkpoint, a stop."""
        for n in range(26):
            for number, topic in enumerate(TOPICS):
                if topic in self.logs and n % (number + 1) == 0:
                    self.append(topic, 40 * (n % 4), write_later=n % 5 > 0)
            if n % 3 != 1:
                self.flush()
            if n in (7, 22):
                self.journal.end_file()
            if n in (9, 15):
                self.truncate("a", by=3)
            if n == 13:
                self.delete_records("a")
                self.store.start_checkpoint()()
            if n == 17:
                self.append("b", 2900)  # too large for a round of the journal
            if n == 20:
                self.delete("b")
        self.store.close()
        for topic, log in self.logs.items():
            if log.recovery_point == log.log_end_offset:  # else it could not be closed
                self.promised[topic].durable_end = log.log_end_offset

    def check(self) -> None:
        """Each log is a beginning of what was appended, and holds all that was promised."""
        for topic, log in self.logs.items():
            promised = self.promised[topic]
            stored = [batch[16:] for batch in read_all(log, until_offset=log.log_end_offset)]
            first = log.log_start_offset
            assert log.high_watermark == log.log_end_offset >= promised.durable_end
            assert first + len(stored) == log.log_end_offset
            assert first >= promised.start
            assert stored == promised.appended[first : log.log_end_offset]

    def restarted(self) -> None:
        """Check what a new start finds; it is what there is from now on."""
        self.check()
        for topic, log in self.logs.items():
            promised = self.promised[topic]
            del promised.appended[log.log_end_offset :]
            promised.durable_end = log.log_end_offset
