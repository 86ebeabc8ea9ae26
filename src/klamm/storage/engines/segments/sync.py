"""Flushing a log: what must be flushed, and up to where it is durable."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from klamm.storage.engines.segments.chain import SegmentChain
from klamm.storage.engines.segments.epochs import LeaderEpochs
from klamm.storage.engines.segments.files import Chunk, Files, write_aside
from klamm.storage.engines.segments.segment import Segment, sync_path
from klamm.storage.topic_config import TopicConfig

if TYPE_CHECKING:
    from klamm.storage.engines.segments.journal import Journal
    from klamm.storage.engines.segments.journal_file import JournaledLog


class SegmentSyncTicket:
    """Everything that a log has written and not yet flushed, up to an offset."""

    __slots__ = (
        "_are_kept", "_checkpoint", "_chunks", "_failure", "_files", "_handles", "_until", "active",
        "changes", "directories", "end_offset", "epochs", "first_offset", "generation", "holds_back",
        "is_journaled", "journal", "journal_at", "log", "paths", "place", "segments", "sizes_bytes",
    )  # fmt: skip

    def __init__(
        self,
        files: Files,
        end_offset: int,
        generation: int,
        changes: int,
        segments: list[Segment],
        active: Segment,
        paths: Sequence[str],
        directories: Sequence[str],
        checkpoint: LeaderEpochs,
        epochs: bytes | None,
        until: tuple[Segment, int] | None = None,
    ) -> None:
        """`until` is where `end_offset` is, if not at the end of the log."""
        self._files = files
        self.end_offset = end_offset
        self.generation = generation
        self.changes = changes  # of names and small files, when the ticket was made
        self.segments = segments
        self.active = active
        self.sizes_bytes = [segment.size_bytes for segment in segments]
        # Where `end_offset` is. The newest segment is active, or the active one is empty.
        newest = segments[-1] if segments else active
        self.place = (newest, newest.size_bytes) if until is None else until
        self.paths = paths
        self.directories = directories
        self._checkpoint = checkpoint
        self.epochs = epochs  # what is to be in the leader epoch checkpoint, when it must be written
        self._until = until
        self.holds_back = False  # some of it is only in memory, and for the journal
        self.journal: Journal | None = None  # may hold the batches from `first_offset` on instead
        self.log: JournaledLog | None = None
        self.first_offset = -1
        self.journal_at = -1  # where these batches begin in the only segment
        self.is_journaled = False
        self._chunks: Sequence[Chunk] = ()  # these batches, if they were pending
        self._handles: list[int] | None = None  # of the segments; None: they are not written out yet
        self._are_kept = False
        self._failure: OSError | None = None
        if until is not None and segments and newest is until[0]:
            self.sizes_bytes[-1:] = [until[1]]

    def use(self, journal: Journal, log: JournaledLog, first_offset: int, position: int) -> None:
        """A journal may hold the batches from an offset on, which is at a position in the only segment."""
        self.journal, self.log = journal, log
        self.first_offset, self.journal_at = first_offset, position
        only = self.segments[0]
        self._chunks = only.pending_from(position)

    def write_out(self) -> list[int]:
        """Write what is pending in the segments, once; the handles of their files.

        To be called in the turn of the event loop in which the ticket is made, unless the journal has it.
        """
        if self._handles is None:
            self._handles = []
            try:
                for segment in self.segments:
                    self._handles.append(segment.written_out())
                    if self._until is None and segment.written_bytes < segment.size_bytes:
                        self.holds_back = True
            except OSError as error:
                # Raised by `run`, where the caller expects it.
                self._failure = error
        return self._handles

    def write_behind(self) -> None:
        """The journal's frame is on its way to the disk: write the same to the segment, meanwhile."""
        assert self.log is not None
        if not self.log.is_always_journaled:
            only = self.segments[0]
            only.write_behind()

    def keep_open(self) -> None:
        """Duplicate the handles: the log may roll, cut or close its files before the flush has run."""
        handles, self._handles, self._are_kept = self.write_out(), [], True
        try:
            for handle in handles:
                self._handles.append(self._files.duplicate(handle))
        except OSError as error:
            self._failure = error

    def run(self) -> None:
        """Flush; blocks. Raises OSError when the disk fails."""
        handles = self.write_out()
        try:
            if self._failure is not None:
                raise self._failure
            if self.holds_back:
                raise OSError(f"{self.active.log_path}: batches are held back, and not in the journal")
            for handle in handles:
                self._files.sync(handle)
            # Files removed in the meantime need no flush.
            if self.epochs is not None:
                with suppress(FileNotFoundError):
                    self._checkpoint.write(self._files, self.epochs)
            for path in self.paths:
                with suppress(FileNotFoundError):
                    sync_path(self._files, path)
            for directory in self.directories:
                with suppress(FileNotFoundError):
                    self._files.sync_directory(directory)
        finally:
            self.release()

    @property
    def is_files_only(self) -> bool:
        return not (self._failure is not None or self.epochs is not None or self.paths or self.directories)

    def files_only(self) -> Sequence[int] | None:
        handles = self.write_out()
        return handles if self.is_files_only and not self.holds_back else None

    @property
    def journal_bytes(self) -> int:
        """How many bytes the journal would hold."""
        return self.sizes_bytes[0] - self.journal_at

    def batches(self) -> bytes:
        """What the journal is to hold. Raises OSError."""
        size_bytes = self.sizes_bytes[0] - self.journal_at
        chunks = b"".join(self._chunks)
        if len(chunks) == size_bytes:
            return chunks
        data = self.segments[0].read(self.journal_at, size_bytes)
        if len(data) != size_bytes:
            raise OSError(f"{self.segments[0].log_path}: read {len(data)} bytes, expected {size_bytes}")
        return data

    def release(self) -> None:
        """Close duplicated handles; safe to call twice."""
        if self._are_kept:
            handles, self._handles, self._are_kept = self.write_out(), [], False
            for handle in handles:
                with suppress(OSError):  # it was used only to sync, whose error was reported
                    self._files.close(handle)


class Flushing:
    """Up to where a log is durable, and what the next flush must include."""

    def __init__(self, recovery_point: int, active: Segment) -> None:
        self.recovery_point = recovery_point  # everything below is on disk, in the segments
        self.durable_offset = recovery_point  # everything below is on disk, in the segments or the journal
        # The segment in which each of them is, and where.
        self.recovery_place = self.durable_place = (active, active.size_bytes)
        # The change count of the last change of each kind: a flush that began before does not cover it.
        self._paths: dict[str, int] = {}
        self._directories: dict[str, int] = {}
        # Small files whose flush failed: the kernel may have marked pages clean that it could not write.
        self._suspects: dict[str, None] = {}
        self._changes = 0
        self._generation = 0
        self._appends = 0
        self._started_at_ms: int | None = None

    def appended(self) -> None:
        self._appends += 1

    def names_changed(self, directory: str) -> None:
        """Files were created or removed: the directory must be flushed too."""
        self._changes += 1
        self._directories[directory] = self._changes

    def include_file(self, path: str) -> None:
        """A small file was written that the next flush must include."""
        self._changes += 1
        self._paths[path] = self._changes

    @property
    def has_suspects(self) -> bool:
        """Whether small files must be written again before a flush can be believed."""
        return bool(self._suspects)

    def write_suspects(self, files: Files) -> None:
        """Write the small files of failed flushes again. Raises OSError; the rest is for the next call."""
        for path in list(self._suspects):
            with suppress(FileNotFoundError):
                write_aside(files, path, files.read_file(path), sync=False)
            del self._suspects[path]

    @property
    def has_new_names(self) -> bool:
        return bool(self._paths or self._directories)

    def cut(self, log_end_offset: int, chain: SegmentChain) -> None:
        """The log was cut, durably: flushes still in flight are of another history.

        A place at the end stays: it may be in the segment before the active one, which is empty then.
        """
        self._generation += 1
        end = (chain.active, chain.active.size_bytes)
        if log_end_offset < self.recovery_point or self.recovery_place[0] not in chain.segments:
            self.recovery_point, self.recovery_place = log_end_offset, end
        if log_end_offset < self.durable_offset or self.durable_place[0] not in chain.segments:
            self.durable_offset, self.durable_place = log_end_offset, end

    def is_due(self, config: TopicConfig, active_base_offset: int, now_ms: int) -> bool:
        """Whether a flush is due by Kafka's rules: a roll, flush.messages, flush.ms."""
        if self._started_at_ms is None:
            self._started_at_ms = now_ms
        return (
            self.recovery_point < active_base_offset
            or self._appends >= config.flush_messages
            or now_ms - self._started_at_ms >= config.flush_ms
        )

    def start(
        self,
        chain: SegmentChain,
        epochs: LeaderEpochs,
        log_end_offset: int,
        now_ms: int,
        journal: Journal | None = None,
        log: JournaledLog | None = None,
    ) -> SegmentSyncTicket:
        """The ticket for everything unflushed; the journal may do if the names of files are durable.

        Without a journal, what is held back is not included, nor anything behind it.
        """
        active = chain.active
        unsynced = _unsynced(chain, self.recovery_point)
        until: tuple[Segment, int] | None = None
        if journal is None and active.held_from is not None:
            log_end_offset, until = self.durable_offset, self.durable_place
            unsynced = [each for each in unsynced if each.base_offset <= until[0].base_offset]
        unsaved_epochs = epochs.unsaved()
        if unsaved_epochs is not None:
            self.names_changed(chain.directory)
        paths: Sequence[str] = [*self._paths] if self._paths else ()
        if len(unsynced) > 1 or (unsynced and unsynced[0] is not active):
            paths = [*paths, *_index_paths(chain, unsynced)]
        self._appends = 0
        self._started_at_ms = now_ms
        ticket = SegmentSyncTicket(
            chain.files,
            log_end_offset,
            self._generation,
            self._changes,
            unsynced,
            active,
            paths,
            [*self._directories] if self._directories else (),
            epochs,
            unsaved_epochs,
            until,
        )
        durable_segment, durable_position = self.durable_place
        is_only_active = len(unsynced) == 1 and durable_segment is active is unsynced[0]
        if journal is not None and log is not None and is_only_active:
            ticket.use(journal, log, self.durable_offset, durable_position)
            if active.written_bytes < durable_position and not log.is_always_journaled:
                # A write behind an earlier round failed. If it fails again, the log's own flush reports it.
                ticket.write_out()
            if not ticket.is_files_only:
                ticket.journal = None
        return ticket

    def finish(self, ticket: SegmentSyncTicket, chain: SegmentChain, epochs: LeaderEpochs) -> bool:
        """The ticket succeeded; whether more of the log is durable than before."""
        ticket.release()
        if ticket.epochs is not None:
            epochs.saved(ticket.epochs)
        if ticket.generation != self._generation:
            return False
        if ticket.is_journaled:
            segment, position = ticket.place
            segment.write_held_back(position)
            return self._is_durable(ticket)
        for segment, size_bytes in zip(ticket.segments, ticket.sizes_bytes, strict=True):
            # A segment that was rolled in the meantime has unflushed indexes.
            was_rolled = segment is ticket.active and segment is not chain.active
            if segment.size_bytes == size_bytes and not was_rolled:
                segment.is_unsynced = False
        if ticket.paths or ticket.directories:
            self._forget_flushed(ticket)
        if ticket.end_offset > self.recovery_point:
            self.recovery_point = ticket.end_offset
            self.recovery_place = ticket.place
        return self._is_durable(ticket)

    def _is_durable(self, ticket: SegmentSyncTicket) -> bool:
        if ticket.end_offset <= self.durable_offset:
            return False
        self.durable_offset = ticket.end_offset
        self.durable_place = ticket.place
        return True

    def _forget_flushed(self, ticket: SegmentSyncTicket) -> None:
        for pending, flushed in ((self._paths, ticket.paths), (self._directories, ticket.directories)):
            for path in flushed:
                if pending.get(path, 0) <= ticket.changes:
                    pending.pop(path, None)

    def fail(self, ticket: SegmentSyncTicket, epochs: LeaderEpochs, directory: str) -> bool:
        """The ticket failed; whether it concerned the log as it is, not one before a cut.

        `write_suspects` is to be called before the next append.
        """
        ticket.release()
        if not ticket.is_journaled:
            for segment in ticket.segments:
                segment.is_suspect = True
        if ticket.epochs is not None:
            epochs.saved(b"")  # unknown
        if ticket.paths:
            self._suspects.update(dict.fromkeys(ticket.paths))
            self.names_changed(directory)
        return ticket.generation == self._generation


def _index_paths(chain: SegmentChain, segments: Sequence[Segment]) -> list[str]:
    """The index files of those that are not active, as far as they exist."""
    paths: list[str] = []
    for segment in segments:
        if segment is not chain.active:
            paths += [path for path in segment.index_paths() if chain.files.exists(path)]
    return paths


def _unsynced(chain: SegmentChain, recovery_point: int) -> list[Segment]:
    """Dirty segments in order; they are among the last of a chain that may be long."""
    unsynced = []
    for segment in reversed(chain.segments):
        if segment.is_unsynced:
            unsynced.append(segment)
        elif segment.base_offset < recovery_point:
            break
    if len(unsynced) > 1:
        unsynced.reverse()
    return unsynced
