"""One segment of a log: appending, cutting and loading its file."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import Final
from zlib import crc32

from klamm.storage.engines.segments.files import Chunk, Files, remove_if_there
from klamm.storage.engines.segments.handles import HandlePool
from klamm.storage.engines.segments.indexed_file import WINDOW_BYTES, IndexedFile
from klamm.storage.engines.segments.offset_index import ENTRY_BYTES as OFFSET_ENTRY_BYTES
from klamm.storage.engines.segments.scan import BadBatchError, walk
from klamm.storage.engines.segments.time_index import ENTRY_BYTES as TIME_ENTRY_BYTES
from klamm.storage.topic_config import TopicConfig

_logger = logging.getLogger(__name__)

_MAX_RELATIVE_OFFSET: Final = (1 << 31) - 1
_MAX_TIMESTAMP_MS: Final = (1 << 63) - 1  # segment.ms may be as large
_MAX_UNWRITTEN_BYTES: Final = 256 * 1024
_MAX_UNWRITTEN_CHUNKS: Final = 900  # pwritev accepts 1024 of them


class Segment(IndexedFile):
    """A segment: batches are appended to the last of a log, any can be cut or rebuilt."""

    __slots__ = ()

    @classmethod
    def create(
        cls,
        files: Files,
        pool: HandlePool,
        directory: str,
        base_offset: int,
        *,
        now_ms: int,
        suffix: str = "",
    ) -> Segment:
        """A new, empty segment; existing files of its names are replaced."""
        segment = cls(files, pool, directory, base_offset, created_at_ms=now_ms, suffix=suffix, is_new=True)
        for path in segment.index_paths():
            remove_if_there(files, path)
        try:
            files.write_file(segment.log_path, b"", sync=False)
        except OSError:
            with suppress(OSError):  # if it stays, loading recognizes it
                remove_if_there(files, segment.log_path)
            raise
        return segment

    def must_roll(
        self, config: TopicConfig, size_bytes: int, last_offset: int, max_timestamp_ms: int, now_ms: int
    ) -> bool:
        """Whether a batch has to go into a new segment."""
        if self.size_bytes > config.segment_bytes - size_bytes:
            return True
        if last_offset - self.base_offset > _MAX_RELATIVE_OFFSET:
            return True
        if config is self._limits_of:
            return max_timestamp_ms > self._latest_ms
        if not self._is_ready:
            self._make_ready()
        if (
            len(self.offset_index) >= config.segment_index_bytes // OFFSET_ENTRY_BYTES
            or len(self.time_index) >= config.segment_index_bytes // TIME_ENTRY_BYTES - 1
        ):
            return self.size_bytes > 0
        if not self.size_bytes:
            return False
        if self._first_timestamp_ms is None:
            self._first_timestamp_ms = self.first_timestamp_ms()
        limit_ms = config.segment_ms
        if config.segment_jitter_ms:
            # Jitter without a random number: partitions differ, and a run can be repeated.
            limit_ms -= crc32(self._stem.encode()) % min(config.segment_jitter_ms, config.segment_ms)
        if config.is_compacted:
            limit_ms = min(limit_ms, config.max_compaction_lag_ms)
        if self._first_timestamp_ms >= 0:
            # A batch without a timestamp is not later than any other.
            self._latest_ms = min(self._first_timestamp_ms + limit_ms, _MAX_TIMESTAMP_MS)
            self._limits_of = config
            return max_timestamp_ms > self._latest_ms
        return now_ms - self.created_at_ms > limit_ms

    def append(
        self,
        chunks: Sequence[Chunk],
        size_bytes: int,
        last_offset: int,
        max_timestamp_ms: int,
        index_interval_bytes: int,
        write_later: bool = False,
    ) -> None:
        """Write one batch, given in pieces, and index it. OSError leaves the segment as it was,
        but for bytes behind its end, which `cut_file` removes.

        A batch that may be written later is written together with those that follow, at the latest with a
        flush: a system call costs as much as everything else here.
        """
        if not self._is_ready:
            self._make_ready()
        position = self.size_bytes
        self.is_recently_used = True
        handle = self._handle
        if handle < 0:
            handle = self.handle()
        self.is_unsynced = True
        if self._unwritten and not (
            write_later
            and self._unwritten_bytes < _MAX_UNWRITTEN_BYTES
            and len(self._unwritten) < _MAX_UNWRITTEN_CHUNKS
        ):
            self.write_out()
        if write_later or self.held_from is not None:
            self._unwritten += chunks
            self._unwritten_bytes += size_bytes
        elif (written := self._files.pwritev(handle, chunks, position)) != size_bytes:
            self._write_rest(b"".join(chunks), written, position)
        if not position:
            self._first_timestamp_ms = max_timestamp_ms
        self._index(position, size_bytes, last_offset, max_timestamp_ms, index_interval_bytes)

    def _index(
        self,
        position: int,
        size_bytes: int,
        last_offset: int,
        max_timestamp_ms: int,
        index_interval_bytes: int,
    ) -> None:
        """A batch was appended at a position."""
        if max_timestamp_ms > self._max_timestamp_ms:
            self._max_timestamp_ms = max_timestamp_ms
            self._max_timestamp_offset = last_offset
        self.size_bytes = position + size_bytes
        if self._bytes_since_entry > index_interval_bytes:
            self._bytes_since_entry = size_bytes
            self._limits_of = None  # the only dirty part may be the indexes
            self.offset_index.add(last_offset, position)
            self.time_index.maybe_add(self._max_timestamp_ms, self._max_timestamp_offset)
        else:
            self._bytes_since_entry += size_bytes

    def append_pending(
        self, batch: bytes, last_offset: int, max_timestamp_ms: int, config: TopicConfig, now_ms: int
    ) -> bool:
        """As `must_roll` and `append` of a batch that is written later, in fewer steps.

        False when more than that is due, such as a roll or a write: then nothing was done.
        """
        position, size_bytes = self.size_bytes, len(batch)
        if config is self._limits_of:
            if (
                max_timestamp_ms > self._latest_ms
                or position > config.segment_bytes - size_bytes
                or last_offset - self.base_offset > _MAX_RELATIVE_OFFSET
            ):
                return False
        elif not position or self.must_roll(config, size_bytes, last_offset, max_timestamp_ms, now_ms):
            return False
        if self._unwritten_bytes >= _MAX_UNWRITTEN_BYTES or self._handle < 0:
            return False
        self.is_recently_used = self.is_unsynced = True
        self._unwritten.append(batch)
        self._unwritten_bytes += size_bytes
        self._index(position, size_bytes, last_offset, max_timestamp_ms, config.index_interval_bytes)
        return True

    def write_held_back(self, position: int) -> None:
        """What is held back below a position is durable in the journal: write it."""
        if self.held_from is not None and self.held_from < position:
            self.held_from = position
            self.write_behind()

    def write_behind(self) -> None:
        """Write pending batches that the journal holds. If that fails, the next flush tries again."""
        try:
            self.write_out()
        except OSError as error:
            # They stay in memory and in the journal.
            _logger.error("%s: writing what the journal holds failed: %s", self.log_path, error)

    def _make_ready(self) -> None:
        """Load what appending needs."""
        if self._is_ready:
            return
        if not self.offset_index.is_loaded:
            self._load_offset_index()
        self.loaded_time_index()
        self.loaded_txn_index()
        self._bytes_since_entry = self.size_bytes - self.offset_index.last_position()
        # The last time entry is written when a segment is finished, so it covers all of it.
        self._max_timestamp_ms, self._max_timestamp_offset = self.time_index.last()
        self._is_ready = True

    def finish(self) -> bool:
        """Finish the indexes: add the largest timestamp and write all entries.

        Returns whether anything changed.
        """
        self.write_out()
        if self._is_ready:
            self.time_index.maybe_add(self._max_timestamp_ms, self._max_timestamp_offset)
        if self.offset_index.is_loaded:
            self.offset_index.flush()
        if self.time_index.is_loaded:
            self.time_index.flush()
        if self.txn_index.is_loaded:
            self.txn_index.flush()
        was_ready, self._is_ready, self._limits_of = self._is_ready, False, None
        return was_ready

    # -- cutting

    def cut_file(self) -> None:
        """Remove bytes behind the end. Raises OSError."""
        self._files.truncate(self.handle(), self.written_bytes)
        self.is_unsynced = True

    def write_again(self, position: int, data: bytes) -> None:
        """Write bytes that are in the file already, so that the next sync includes them. Raises OSError."""
        if (written := self._files.pwritev(self.handle(), [data], position)) != len(data):
            self._write_rest(data, written, position)
        self.is_unsynced = True

    def truncate(self, position: int, next_offset: int) -> None:
        """Cut the segment at a batch that begins at a position; its next offset afterwards.

        `cut_file` does so with its file.
        """
        self._make_ready()
        self._drop_pending(position)
        self._known.clear()
        self._limits_of = None
        self.offset_index.truncate(position)
        self.time_index.truncate(next_offset)
        self.txn_index.truncate(next_offset)
        if not position:
            self._first_timestamp_ms = None
        self._bytes_since_entry = position - self.offset_index.last_position()
        self._max_timestamp_ms, self._max_timestamp_offset = self.time_index.last()
        # The time index covers everything up to the last indexed batch.
        for found in self.batches(self.offset_index.last_position()):
            if found.header.max_timestamp_ms > self._max_timestamp_ms:
                self._max_timestamp_ms = found.header.max_timestamp_ms
                self._max_timestamp_offset = found.header.last_offset
        self.is_unsynced = True

    def _drop_pending(self, position: int) -> None:
        """It ends at a position from now on: what is pending above is not written."""
        kept_bytes = max(position - self.written_bytes, 0)
        kept = b"".join(self._unwritten)[:kept_bytes]
        self._unwritten, self._unwritten_bytes = [kept] if kept else [], kept_bytes
        self.size_bytes = position
        if self.held_from is not None:
            self.held_from = min(self.held_from, position)

    # -- loading

    def read_end(self) -> int:
        """The next offset of a cleanly closed segment, found from its last index entry.

        Raises CorruptIndexError or BadBatchError when it was not closed cleanly.
        """
        next_offset = self.base_offset
        start = self.offset_index.peek_last_position(self.size_bytes) if self.size_bytes else 0
        for found in walk(
            self._files, self.log_path, start=start, end=self.size_bytes, chunk_bytes=WINDOW_BYTES
        ):
            if found.header.base_offset < next_offset:
                raise BadBatchError(self.log_path, found.position, f"offset {found.header.base_offset}")
            next_offset = found.header.next_offset
        return next_offset

    def begin_rebuild(self) -> None:
        """Reset all indexes, to be rebuilt batch by batch with `index_batch`."""
        self.txn_index.reset()
        self._begin_rebuild()
        self._is_ready = True

    def check_range(self, position: int, last_offset: int) -> None:
        """Reject an offset that the indexes cannot represent."""
        if last_offset - self.base_offset > _MAX_RELATIVE_OFFSET:
            raise BadBatchError(self.log_path, position, f"offset {last_offset} is out of range")

    def cut_unindexed(self, position: int) -> None:
        """Cut the file where a rebuild found an invalid batch; the indexes end there too."""
        self.size_bytes = position
        self.cut_file()
        self._files.sync(self.handle())


def sync_paths(files: Files, paths: Sequence[str]) -> None:
    """Flush those of some files that exist; blocks."""
    for path in paths:
        if files.exists(path):
            sync_path(files, path)


def sync_path(files: Files, path: str) -> None:
    """Flush a file that is not open; blocks."""
    handle = files.open(path)
    try:
        files.sync(handle)
    finally:
        files.close(handle)
