"""A log on a simulated disk with a cleaner beside it, for tests."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from klamm.clock import ManualClock
from klamm.records.batch import BatchHeader, iter_headers
from klamm.records.markers import ControlType, decode_marker, encode_marker
from klamm.records.record import Record, decode_records, encode_batch
from klamm.storage.engines.segments import SegmentStore, names
from klamm.storage.engines.segments.cleaner import Cleaner, CleanerSettings, CleaningReport
from klamm.storage.engines.segments.cleaning_job import CleaningJob
from klamm.storage.engines.segments.log import SegmentLog
from klamm.storage.engines.simulated_disk import SimulatedFiles
from klamm.storage.log import AppendOrigin
from klamm.storage.topic_config import TopicConfig
from unit.storage.log_samples import loaded

DIRECTORY = "/data"
COMPACT = frozenset({"compact"})
ALWAYS = TopicConfig(cleanup_policy=COMPACT, min_cleanable_dirty_ratio=0.0)

Pair = tuple[bytes | None, bytes | None]


class World:
    """One store with topics `t0`, `t1`... of one partition each, and its cleaner."""

    def __init__(
        self,
        config: TopicConfig = ALWAYS,
        *,
        topics: int = 1,
        settings: CleanerSettings | None = None,
        seed: int = 0,
    ) -> None:
        self.clock = ManualClock()
        self.files = SimulatedFiles(Random(seed), self.clock)
        self.files.make_directory(DIRECTORY)
        self.files.sync_directory("/")
        self.config = config
        self.topics = topics
        self.settings = settings
        self.slept_s = 0.0
        self.epoch = 0
        self.next_sequence: dict[int, int] = {}
        self.start()

    def start(self) -> None:
        """Open everything, as after a stop or a crash."""
        self.store = SegmentStore(
            DIRECTORY,
            cluster_id="c" * 22,
            node_id=1,
            clock=self.clock,
            flush_on_commit=False,
            files=self.files,
            producer_id_expiration_ms=1 << 50,
        )
        self.logs: list[SegmentLog] = []
        for number in range(self.topics):
            log = self.store.open(
                f"t{number}", bytes([number + 1]) * 16, 0, leader_epoch=self.epoch, config=self.config
            )
            assert isinstance(log, SegmentLog)
            self.logs.append(log)
        self.files.sync_directory(DIRECTORY)
        self.cleaner = Cleaner(
            self.files, lambda: self.logs, clock=self.clock, sleep=self._sleep, settings=self.settings
        )

    def _sleep(self, duration_s: float) -> None:
        self.slept_s += duration_s
        self.clock.advance(int(duration_s * 1000))

    @property
    def log(self) -> SegmentLog:
        return self.logs[0]

    def restart(self) -> None:
        self.store.close()
        self.epoch += 1
        self.start()

    def restart_after_power_loss(self) -> None:
        self.files.crash()
        self.epoch += 1
        self.start()

    def forget_snapshots(self) -> None:
        """Stop, remove every producer snapshot and the clean marker, start: all state comes from batches."""
        self.store.close()
        for number in range(self.topics):
            for entry in self.files.scan(f"{DIRECTORY}/t{number}-0"):
                if entry.name.endswith((names.SNAPSHOT_SUFFIX, names.PARTITION_CHECKPOINT)):
                    self.files.remove(f"{DIRECTORY}/t{number}-0/{entry.name}")
        self.files.remove(f"{DIRECTORY}/{names.CLEAN_SHUTDOWN_MARKER}")
        self.files.remove(f"{DIRECTORY}/{names.RECOVERY_POINT_CHECKPOINT}")
        self.epoch += 1
        self.start()

    # -- writing

    def append(
        self,
        *pairs: Pair,
        log: SegmentLog | None = None,
        codec: int = 0,
        producer_id: int = -1,
        transactional: bool = False,
    ) -> int:
        """One batch of these keys and values; its base offset."""
        records = [
            Record(index, self.clock.timestamp_ms(), key, value) for index, (key, value) in enumerate(pairs)
        ]
        sequence = -1
        if producer_id >= 0:
            sequence = self.next_sequence.get(producer_id, 0)
            self.next_sequence[producer_id] = sequence + len(pairs)
        batch = encode_batch(
            records,
            codec=codec,
            producer_id=producer_id,
            producer_epoch=0 if producer_id >= 0 else -1,
            base_sequence=sequence,
            transactional=transactional,
        )
        return self.put(batch, log)

    def put(
        self, batch: bytes, log: SegmentLog | None = None, origin: AppendOrigin = AppendOrigin.CLIENT
    ) -> int:
        result = (log or self.log).append(
            batch, now_ms=self.clock.now_ms(), timestamp_ms=self.clock.timestamp_ms(), origin=origin
        )
        return result.base_offset

    def end(self, producer_id: int, *, commit: bool, epoch: int = 0) -> int:
        """A transaction's marker."""
        marker = encode_marker(
            ControlType.COMMIT if commit else ControlType.ABORT,
            producer_id=producer_id,
            producer_epoch=epoch,
            coordinator_epoch=0,
            timestamp_ms=self.clock.timestamp_ms(),
        )
        return self.put(marker, origin=AppendOrigin.COORDINATOR)

    def roll(self, log: SegmentLog | None = None) -> None:
        (log or self.log).roll(self.clock.now_ms())

    def sync(self) -> None:
        """Bring everything to disk."""
        for log in self.logs:
            if (ticket := log.start_sync()) is not None:
                ticket.run()
                log.finish_sync(ticket)

    # -- cleaning

    def clean(self) -> CleaningReport | None:
        """One pass, if one is due."""
        job = self.cleaner.plan()
        if job is None:
            return None
        job.run()
        return self.finish(job)

    def finish(self, job: CleaningJob) -> CleaningReport:
        return loaded(lambda: self.cleaner.finish(job))

    def clean_all(self) -> int:
        """Every pass that is due; how many."""
        count = 0
        while self.clean() is not None:
            count += 1
            assert count < 1000
        return count

    # -- looking

    def batches(self, log: SegmentLog | None = None) -> list[tuple[BatchHeader, bytes]]:
        """Every batch of a log, from its start to its end."""
        log = log or self.log
        found: list[tuple[BatchHeader, bytes]] = []
        offset = log.log_start_offset
        while offset < log.log_end_offset:
            data = log.read(offset, until_offset=log.log_end_offset, max_bytes=1 << 20, at_least_one=True)
            if not data:
                break
            for position, header in iter_headers(data):
                found.append((header, data[position : position + header.size_bytes]))
                offset = header.next_offset
        return found

    def records(self, log: SegmentLog | None = None) -> list[Record]:
        """Every record of data, aborted or not."""
        return [
            record
            for header, batch in self.batches(log)
            if not header.is_control
            for record in decode_records(batch)
        ]

    def pairs(self, log: SegmentLog | None = None) -> list[tuple[int, bytes | None, bytes | None]]:
        """(offset, key, value) of every record."""
        return [(record.offset, record.key, record.value) for record in self.records(log)]

    def committed_view(self) -> dict[bytes, bytes]:
        """What a read_committed reader of the whole log ends up with, key by key."""
        log = self.log
        aborted = sorted(
            (entry.first_offset, entry.producer_id)
            for entry in log.aborted_transactions(log.log_start_offset, log.last_stable_offset)
        )
        active: set[int] = set()
        view: dict[bytes, bytes] = {}
        for header, batch in self.batches():
            if header.base_offset >= log.last_stable_offset:
                break
            while aborted and aborted[0][0] <= header.last_offset:
                active.add(aborted.pop(0)[1])
            if header.is_control:
                marker = decode_marker(batch)
                if marker is not None and not marker.is_commit:
                    active.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in active):
                _apply(view, decode_records(batch))
        return view

    def file_names(self) -> list[str]:
        return sorted(entry.name for entry in self.files.scan(self.log.directory))


def _apply(view: dict[bytes, bytes], records: Sequence[Record]) -> None:
    for record in records:
        if record.key is None:
            continue
        if record.value is None:
            view.pop(record.key, None)
        else:
            view[record.key] = record.value
