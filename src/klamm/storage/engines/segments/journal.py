"""The journal: one file that makes the batches of many partitions durable with one fdatasync.

A flush round writes what is new in each partition as one frame. The segments get the same batches, in the
page cache, while the disk works on the frame; they are synced one by one, when the journal's file is full. A
file whose batches are all on disk in their segments is used again: overwriting it is faster than extending
it. After a crash the journal is read (`journal_reading`) and replayed into the segments (`journal_replay`);
after a clean shutdown there is none.

Only the owner's thread calls it, except for `JournalSync.run`.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from klamm.protocol.errors import DecodeError, ErrorCode
from klamm.storage.engines.segments import names
from klamm.storage.engines.segments.files import Files, remove_if_there
from klamm.storage.engines.segments.journal_file import JournaledLog, JournalFile, JournalRound, JournalSync
from klamm.storage.engines.segments.journal_format import Entry, encode_frame
from klamm.storage.engines.segments.journal_reading import JournalContent, JournaledBatch, read_journal
from klamm.storage.log import LogError

if TYPE_CHECKING:
    from klamm.storage.durability import SyncTicket
    from klamm.storage.engines.segments.sync import SegmentSyncTicket

_MAX_FILES: Final = 6  # two are in use, unless segments cannot be synced
_FEW_AT_ONCE: Final = 2
_MANY_AT_ONCE: Final = 16
_EXTENSION_BYTES: Final = 512 * 1024

_ENTRY: Final[Callable[[tuple[Any, ...]], Entry]] = partial(tuple.__new__, Entry)  # twice as fast

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class JournalSettings:
    """The limits of a journal."""

    file_bytes: int = 16 * 1024 * 1024  # then the next file is used
    round_bytes: int = 128 * 1024  # of one round, besides batches of logs that are always journaled


class Journal:
    """The journal of one broker in one log directory."""

    def __init__(
        self, files: Files, log_directory: str, node_id: int, settings: JournalSettings, max_logs: int
    ) -> None:
        """Read what is left of the last run; nothing is written before the first round.

        A file holds batches of at most `max_logs` logs. Raises OSError and DecodeError.
        """
        self._files = files
        self._log_directory = log_directory
        self.directory = f"{log_directory}/{names.JOURNAL_DIRECTORY}"
        self._node_id = node_id
        self._file_bytes = settings.file_bytes
        self._round_bytes = settings.round_bytes
        self._max_logs = max_logs
        self._left = self._read()  # what is still to be replayed
        self._number = max((file.number for file in self._left.files), default=0)
        self._sequence = self._left.last_sequence
        # Oldest first. They are used again in this order, so that what remains never has a gap.
        self._full: deque[JournalFile] = deque(
            JournalFile(file.slot, self._path(file.slot), file.number, file.size_bytes)
            for file in self._left.files
        )
        self._old = {file.slot for file in self._full}  # needed until everything is replayed
        self._free: deque[JournalFile] = deque()
        self._active: JournalFile | None = None
        self._round: JournalRound | None = None
        self._cuts: list[Entry] = []  # written behind the round that is under way
        self._has_tail_to_cut = False  # behind the durable frames, after a failed round or write
        self._is_in_repair = False  # is under way
        self._ends_file = False  # with the round that is under way
        self._has_directory = bool(self._full)
        if self._has_directory:
            # The last run may have ended before it did so: names that only this process sees are not durable.
            files.sync_directory(self.directory)
            files.sync_directory(log_directory)
        self._new_names: dict[str, None] = {}  # directories with names that may not be on disk yet
        # Logs by topic and partition that are flushed by themselves, for tests that let one log's disk fail.
        self.leaves_out: Callable[[str, int], bool] | None = None

    def _path(self, slot: int) -> str:
        return f"{self.directory}/{names.journal_file(self._node_id, slot)}"

    def _read(self) -> JournalContent:
        return read_journal(self._files, self.directory, self._node_id)

    # -- the last run

    @property
    def unreplayed(self) -> Sequence[tuple[str, bytes, int]]:
        """(topic, topic id, partition) of the partitions of the last run that are not yet replayed."""
        return list(self._left.batches)

    def left_of(self, topic: str, topic_id: bytes, partition: int) -> Sequence[JournaledBatch]:
        """What the last run left of a partition."""
        return self._left.of(topic, topic_id, partition)

    def replayed(self, topic: str, topic_id: bytes, partition: int) -> None:
        """A partition's batches are in its segments, on disk, or not needed."""
        self._left.batches.pop((topic, topic_id, partition), None)
        if not self._left.batches:
            self._old.clear()

    # -- rounds

    def start_round(
        self,
        tickets: Sequence[SegmentSyncTicket],
        after: Mapping[SyncTicket, Sequence[SyncTicket | None]] | None = None,
    ) -> JournalRound | None:
        """Write what is new in some of these logs as one frame; None when their own files must be flushed.

        A ticket that comes `after` others is in the frame only if they are; None is one that cannot be.
        """
        if self._round is not None:
            return None  # of another broker in this process, which shares the store
        if self._has_tail_to_cut:
            return None  # `start_repair` first
        chosen = self._chosen(tickets)
        if after:
            # Nothing comes after something that itself comes after something.
            included: set[SyncTicket] = set(chosen)
            chosen = [each for each in chosen if included.issuperset(after.get(each, ()))]
        if not chosen or (file := self._with_room(chosen)) is None:
            return None
        try:
            self._write(file, encode_frame(file.number, self._sequence + 1, _entries_of(chosen)))
        except OSError as error:
            # A full disk, perhaps. The flush of their own files reports what is wrong with each log.
            _logger.warning("%s: writing failed: %s", file.path, error)
            self._has_tail_to_cut = True
            return None
        self._sequence += 1
        self._round = JournalRound(self._files, file, self._sequence, chosen, list(self._new_names))
        for ticket in chosen:
            ticket.is_journaled = True
        return self._round

    def _chosen(self, tickets: Sequence[SegmentSyncTicket]) -> list[SegmentSyncTicket]:
        """Those that must be in the journal, and small ones."""
        chosen, others, size_bytes = [], [], 0
        leaves_out = self.leaves_out
        for ticket in tickets:
            assert ticket.log is not None
            if leaves_out is not None and leaves_out(ticket.log.topic, ticket.log.partition):
                continue
            if ticket.log.is_always_journaled:
                chosen.append(ticket)
            else:
                others.append(ticket)
                size_bytes += ticket.journal_bytes
        if size_bytes > self._round_bytes:
            others.sort(key=_journal_bytes)
            while others and size_bytes > self._round_bytes:
                size_bytes -= others.pop().journal_bytes
        return chosen + others

    def _with_room(self, tickets: Sequence[SegmentSyncTicket]) -> JournalFile | None:
        """The file for the next frame; None when there is none."""
        file = self._active
        if file is not None:
            is_full = file.written >= self._file_bytes or self._ends_file
            if not is_full and len(file.logs) + len(tickets) > self._max_logs:
                is_full = len(file.logs.keys() | {ticket.log for ticket in tickets}) > self._max_logs
            if not is_full:
                return file
            self._end_active(file)
        self._release()
        try:
            file = self._active = self._free.popleft() if self._free else self._new_file()
        except OSError as error:
            _logger.error("%s: creating a journal file failed: %s", self.directory, error)
            return None
        if file is not None:
            self._number += 1
            file.use(self._number)
        return file

    def end_file(self) -> None:
        """Use the next file from now on: the segments of all logs in this one become due for a sync."""
        if self._active is not None and self._active.logs:
            if self._round is None and not self._has_tail_to_cut:
                self._end_active(self._active)
            else:
                self._ends_file = True

    def _end_active(self, file: JournalFile) -> None:
        self._full.append(file)
        self._active = None
        self._ends_file = False

    def _release(self) -> None:
        """Full files whose batches are in the segments can be used again."""
        while self._full and self._full[0].slot not in self._old and not self._full[0].is_lagging:
            self._free.append(self._full.popleft())

    def _new_file(self) -> JournalFile | None:
        used = {file.slot for file in self._full}
        if len(used) >= _MAX_FILES:
            return None
        slot = min(set(range(len(used) + 1)) - used)
        if not self._has_directory:
            self._files.make_directory(self.directory)
            self._new_names[self._log_directory] = None
            self._has_directory = True
        file = JournalFile(slot, self._path(slot), 0, 0)
        file.handle = self._files.open(file.path, create=True)
        self._new_names[self.directory] = None
        return file

    def _sync(self, file: JournalFile) -> None:
        self._files.sync(file.handle)
        for directory in self._new_names:
            self._files.sync_directory(directory)
        self._new_names.clear()

    def _write(self, file: JournalFile, frame: bytes) -> None:
        """Write a frame behind the last one. Raises OSError."""
        if file.handle < 0:
            file.handle = self._files.open(file.path)
        chunks = [frame]
        position = file.written
        end = position + len(frame)
        if end > file.allocated_bytes:
            # A sync of bytes inside the file is twice as fast as one that makes it longer.
            chunks.append(bytes(_EXTENSION_BYTES))
        written = self._files.pwritev(file.handle, chunks, position)
        while written < len(frame):  # the next write reports the cause
            more = self._files.pwritev(file.handle, [memoryview(frame)[written:]], position + written)
            if not more:
                raise OSError(f"{file.path}: short write: {written} of {len(frame)} bytes written")
            written += more
        file.allocated_bytes = max(file.allocated_bytes, position + written)
        file.written = end

    def finish_round(self) -> None:
        """The frame is on disk: everything in it is durable."""
        finished, self._round = self._round, None
        assert finished is not None
        file = finished.file
        file.end = file.written
        self._cuts.clear()
        self._new_names.clear()
        for ticket in finished.tickets:
            assert ticket.log is not None
            file.logs[ticket.log] = ticket.end_offset

    def fail_round(self) -> None:
        """The frame may be on disk or not: it must never be replayed, because its logs are cut back.

        `start_repair` ensures that. Before, nobody must be told that the round failed.
        """
        failed, self._round = self._round, None
        assert failed is not None
        self._sequence = failed.sequence - 1
        self._has_tail_to_cut = True

    def start_repair(self) -> JournalSync | None:
        """Cut what a failed write or round has left behind the durable frames.

        What must run before the next round; None when nothing must, or it is under way. Raises OSError.
        """
        file = self._active
        if not self._has_tail_to_cut or self._is_in_repair:
            return None
        assert file is not None
        if file.handle < 0:
            self._repaired()
            return None
        self._files.truncate(file.handle, file.end)
        file.written = file.allocated_bytes = file.end
        if self._cuts:
            self._sequence += 1
            self._write(file, encode_frame(file.number, self._sequence, self._cuts))
        self._is_in_repair = True
        return JournalSync(self._files, file, list(self._new_names))

    def finish_repair(self, *, is_good: bool) -> None:
        """The repair has run. If it failed, it is to be started again."""
        self._is_in_repair = False
        if is_good:
            file = self._active
            assert file is not None
            file.end = file.written
            self._new_names.clear()
            self._repaired()

    def _repaired(self) -> None:
        self._cuts.clear()
        self._has_tail_to_cut = False

    # -- logs that change

    def cut(self, log: JournaledLog, to_offset: int) -> None:
        """A log is about to be cut: what the journal holds of it above must not come back. Raises OSError."""
        holding = [file for file in self._all() if file.logs.get(log, 0) > to_offset]
        if not holding:
            return
        if self._is_in_repair:
            raise OSError(f"{self.directory}: the journal is being repaired")
        if (repair := self.start_repair()) is not None:
            is_good = False
            try:
                repair.run()
                is_good = True
            finally:
                self.finish_repair(is_good=is_good)
        file = self._active if self._active is not None else self._with_room(())
        if file is None:
            raise OSError(f"{self.directory}: no journal file is free")
        entry = Entry(log.topic, log.topic_id, log.partition, log.leader_epoch, to_offset, None)
        self._sequence += 1
        self._write(file, encode_frame(file.number, self._sequence, [entry]))
        self._sync(file)
        if self._round is None:
            file.end = file.written
        else:
            self._cuts.append(entry)
        for each in holding:
            each.logs[log] = to_offset

    def forget(self, log: JournaledLog) -> None:
        """A log is deleted, or closed and on disk in its segments: nothing of it has to be kept."""
        for file in self._all():
            file.logs.pop(log, None)
        if self._round is not None:
            self._round.tickets = [ticket for ticket in self._round.tickets if ticket.log is not log]

    def has(self, log: JournaledLog) -> bool:
        """Whether it holds batches of a log that may not be on disk in the segments."""
        is_in_round = self._round is not None and any(each.log is log for each in self._round.tickets)
        return is_in_round or any(log in file.logs for file in self._all())

    def _all(self) -> list[JournalFile]:
        return [*self._full, *([self._active] if self._active is not None else [])]

    def read_of(self, topic: str, topic_id: bytes, partition: int) -> Sequence[JournaledBatch]:
        """The batches of a partition that this broker leads, or has led in this run.

        Reads all files again. Raises OSError, and LogError when a frame is impossible.
        """
        try:
            return self._read().of(topic, topic_id, partition)
        except DecodeError as error:
            raise LogError(ErrorCode.kafka_storage_error, f"reading the journal failed: {error}") from error

    # -- syncing segments

    def lagging(self) -> Sequence[JournaledLog]:
        """Some logs whose segments must be synced, so that a full file can be used again.

        A few in each round, so that rounds are not delayed; more when the next file is half full.
        """
        if not self._full:
            return ()
        is_urgent = self._active is None or self._active.written > self._file_bytes // 2
        limit = _MANY_AT_ONCE if is_urgent else _FEW_AT_ONCE
        for file in self._full:
            if logs := file.first_lagging(limit):
                return logs
        return ()

    def close(self) -> bool:
        """Remove all files if none is needed, when every log is closed; whether none is left."""
        self._release()
        is_needed = bool(self._full or self._round or (self._active is not None and self._active.is_lagging))
        for file in (*self._all(), *self._free):
            if file.handle >= 0:
                self._files.close(file.handle)
            if not is_needed:
                remove_if_there(self._files, file.path)
        if not is_needed and self._has_directory:
            self._files.sync_directory(self.directory)
            with suppress(OSError):  # the journal of another broker may be in it
                self._files.remove_directory(self.directory)
        return not is_needed


def _journal_bytes(ticket: SegmentSyncTicket) -> int:
    return ticket.journal_bytes


def _entries_of(tickets: Sequence[SegmentSyncTicket]) -> list[Entry]:
    entries = []
    for ticket in tickets:
        log = ticket.log
        assert log is not None
        entries.append(
            _ENTRY(
                (
                    log.topic,
                    log.topic_id,
                    log.partition,
                    log.leader_epoch,
                    ticket.first_offset,
                    ticket.batches(),
                )
            )
        )
    return entries
