"""A segment's file and its indexes: finding batches by offset, position and time."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import suppress
from struct import Struct
from typing import Final

from klamm.protocol.errors import ErrorCode
from klamm.records.batch import (
    HEADER_BYTES,
    LENGTH_OVERHEAD_BYTES,
    MIN_BATCH_LENGTH,
    iter_headers,
    parse_header,
)
from klamm.storage.engines.segments import names
from klamm.storage.engines.segments.files import Chunk, Files
from klamm.storage.engines.segments.handles import HandlePool
from klamm.storage.engines.segments.offset_index import CorruptIndexError, OffsetIndex
from klamm.storage.engines.segments.scan import CHUNK_BYTES, FoundBatch, walk
from klamm.storage.engines.segments.slices import FileSlice, PinnedFile
from klamm.storage.engines.segments.time_index import NO_TIMESTAMP_MS, TimeIndex
from klamm.storage.engines.segments.txn_index import TxnIndex
from klamm.storage.log import LogError
from klamm.storage.topic_config import TopicConfig

_logger = logging.getLogger(__name__)

_PLACE: Final = Struct(">qi11xi")  # base offset, length, last offset delta: enough to step over a batch
_KNOWN_PLACES: Final = 64
WINDOW_BYTES: Final = 8192
_MAX_WRITTEN_CHUNKS: Final = 1024  # of one pwritev


class IndexedFile:
    """A segment's log file and its three indexes, to be searched.

    `suffix` is empty for a live segment; the cleaner writes segments whose files end in `.cleaned`.
    """

    __slots__ = (
        "_bytes_since_entry",
        "_files",
        "_first_timestamp_ms",
        "_handle",
        "_is_ready",
        "_known",
        "_latest_ms",
        "_limits_of",
        "_max_timestamp_ms",
        "_max_timestamp_offset",
        "_pinned",
        "_pool",
        "_stem",
        "_unwritten",
        "_unwritten_bytes",
        "base_offset",
        "created_at_ms",
        "held_from",
        "is_recently_used",
        "is_suspect",
        "is_unsynced",
        "modified_at_ms",
        "offset_index",
        "size_bytes",
        "suffix",
        "time_index",
        "txn_index",
    )

    def __init__(
        self,
        files: Files,
        pool: HandlePool,
        directory: str,
        base_offset: int,
        *,
        size_bytes: int = 0,
        modified_at_ms: int = 0,
        created_at_ms: int = 0,
        suffix: str = "",
        is_new: bool = False,
    ) -> None:
        self._files = files
        self._pool = pool
        self._stem = f"{directory}/{names.file_stem(base_offset)}"
        self.base_offset = base_offset
        self.size_bytes = size_bytes
        self.modified_at_ms = modified_at_ms  # wall clock; kept only for segments without timestamps
        self.created_at_ms = created_at_ms  # monotonic
        self.suffix = suffix
        self.offset_index = OffsetIndex(files, self._path(names.INDEX_SUFFIX), base_offset, is_new=is_new)
        self.time_index = TimeIndex(files, self._path(names.TIME_INDEX_SUFFIX), base_offset, is_new=is_new)
        self.txn_index = TxnIndex(files, self._path(names.TXN_INDEX_SUFFIX), is_new=is_new)
        self._handle = -1
        self._pinned: PinnedFile | None = None  # the same file, once there were slices of it
        self._is_ready = is_new  # whether indexes and timestamps are in memory, as appending needs them
        self._bytes_since_entry = 0
        self._max_timestamp_ms = NO_TIMESTAMP_MS
        self._max_timestamp_offset = base_offset
        self._first_timestamp_ms: int | None = None
        self._unwritten: list[Chunk] = []  # the last batches, not yet written to the file
        self._unwritten_bytes = 0
        self.held_from: int | None = None  # bytes from here on are not written yet; see `holding_back`
        self._known: dict[int, int] = {}  # positions of offsets that readers stopped at
        # The configuration for which `_latest_ms` was computed: until then only its size ends the segment.
        self._limits_of: TopicConfig | None = None
        self._latest_ms = 0
        self.is_recently_used = False
        self.is_unsynced = False
        # After a failed sync: the kernel may have marked pages clean that are not on disk.
        self.is_suspect = False

    def _path(self, kind: str) -> str:
        return f"{self._stem}{kind}{self.suffix}"

    @property
    def log_path(self) -> str:
        return self._path(names.LOG_SUFFIX)

    def paths(self) -> list[str]:
        """The paths of its files, some of which may not exist."""
        return [self._path(kind) for kind in names.SEGMENT_SUFFIXES]

    def index_paths(self) -> list[str]:
        """The paths of its index files, some of which may not exist."""
        return self.paths()[1:]

    def rename(self, suffix: str) -> None:
        """Rename its files to another suffix; missing ones are skipped. Raises OSError."""
        old_paths, self.suffix = self.paths(), suffix
        for old, new in zip(old_paths, self.paths(), strict=True):
            with suppress(FileNotFoundError):
                self._files.rename(old, new)
        self.offset_index.path = self._path(names.INDEX_SUFFIX)
        self.time_index.path = self._path(names.TIME_INDEX_SUFFIX)
        self.txn_index.path = self._path(names.TXN_INDEX_SUFFIX)

    # -- the file's handle

    @property
    def is_open(self) -> bool:
        return self._handle >= 0

    def handle(self) -> int:
        """The handle of the open file; valid until the next call that may open another one."""
        self.is_recently_used = True
        if self._handle < 0:
            self._handle = self._pool.open(self, self.log_path)
        return self._handle

    def rest(self) -> None:
        """Close the handle and free the indexes; both are loaded again when needed."""
        self.close_handle()
        if not self._is_ready:
            self.offset_index.unload()
            self.time_index.unload()

    def close_handle(self) -> None:
        handle, self._handle = self._handle, -1
        pinned, self._pinned = self._pinned, None
        if pinned is not None:
            pinned.disown()
        elif handle >= 0:
            self._files.close(handle)

    @property
    def is_pinned(self) -> bool:
        """Whether slices of it need the open file."""
        return self._pinned is not None and self._pinned.pins > 0

    # -- pending writes

    @property
    def has_pending_writes(self) -> bool:
        return bool(self._unwritten)

    def pending_from(self, position: int) -> Sequence[Chunk]:
        """The batches from a position on, as far as they are not written yet."""
        unwritten = self._unwritten
        first, start = len(unwritten), self.size_bytes
        while first and start > position:
            first -= 1
            start -= len(unwritten[first])
        return unwritten[first:]

    @property
    def written_bytes(self) -> int:
        """The size of its file."""
        return self.size_bytes - self._unwritten_bytes

    def write_out(self) -> None:
        """Write pending batches in one call, except those that are held back.

        Raises OSError; then they stay pending.
        """
        if self._unwritten:
            self.written_out()

    def written_out(self) -> int:
        """The open handle, after pending batches are written. Raises OSError as `write_out` does."""
        handle = self._handle if self._handle >= 0 else self.handle()
        if not self._unwritten:
            return handle
        chunks, size_bytes, held = self._unwritten, self._unwritten_bytes, b""
        position = self.size_bytes - size_bytes
        if self.held_from is not None and self.held_from < self.size_bytes:
            size_bytes = self.held_from - position
            if size_bytes <= 0:
                return handle
            pending = b"".join(chunks)
            chunks, held = [pending[:size_bytes]], pending[size_bytes:]
        elif len(chunks) > _MAX_WRITTEN_CHUNKS:
            chunks = [b"".join(chunks)]
        if (written := self._files.pwritev(handle, chunks, position)) != size_bytes:
            self._write_rest(b"".join(chunks), written, position)
        self._unwritten, self._unwritten_bytes = [held] if held else [], len(held)
        return handle

    def _write_rest(self, batch: bytes, written: int, position: int) -> None:
        """A write may be short, above all on a full disk; the next write reports the cause."""
        rest = memoryview(batch)[written:]
        while rest:
            more = self._files.pwritev(self.handle(), [rest], position + written)
            if not more:
                raise OSError(f"short write: {written} of {len(batch)} bytes written")
            rest = rest[more:]
            written += more

    # -- reading

    def read(self, position: int, length: int) -> bytes:
        """Bytes of the segment, unchecked: the caller has the position of a batch."""
        self.is_recently_used = True
        handle = self._handle if self._handle >= 0 else self.handle()
        if self._unwritten and position + length > self.written_bytes:
            in_file = self.written_bytes - position
            pending = b"".join(self._unwritten)
            if in_file <= 0:
                return pending[-in_file : length - in_file]
            return self._files.pread(handle, in_file, position) + pending[: length - in_file]
        return self._files.pread(handle, length, position)

    def batches(self, start: int = 0, chunk_bytes: int = CHUNK_BYTES) -> Iterator[FoundBatch]:
        """Every batch from a position on, also those that are pending. Raises as `walk` does."""
        in_file = self.written_bytes
        pending = b"".join(self._unwritten)
        if start < in_file:
            yield from walk(self._files, self.log_path, start=start, end=in_file, chunk_bytes=chunk_bytes)
        for at, header in iter_headers(pending, max(start - in_file, 0)):
            yield FoundBatch(in_file + at, header, pending, at)

    def is_written(self, end: int) -> bool:
        """Whether its file has everything below a position; writes it if that is possible."""
        if end > self.written_bytes:
            with suppress(OSError):  # the next flush reports it
                self.write_out()
        return end <= self.written_bytes

    def slice(self, position: int, length: int, until_offset: int) -> FileSlice:
        """Bytes of the file, to be read later; unchecked, the caller has the position of a batch."""
        handle = self.handle()
        if self._pinned is None:
            self._pinned = PinnedFile(self._files, handle, self.log_path)
        has_next = position + length < self.written_bytes
        return FileSlice(self._pinned, position, length, until_offset, has_next)

    def remember(self, offset: int, position: int) -> None:
        """Cache where the first batch at or above an offset begins, for the next lookup."""
        if len(self._known) >= _KNOWN_PLACES:
            self._known.clear()
        self._known[offset] = position

    def locate(self, offset: int) -> int:
        """Where the first batch that ends at or above an offset begins; the size when there is none."""
        position = self._known.get(offset)
        if position is not None:
            return position
        if not self.offset_index.is_loaded:
            self._load_offset_index()
        position = self.offset_index.lookup(offset)
        window, window_at = b"", position
        while position < self.size_bytes:
            if position + _PLACE.size > window_at + len(window):
                window, window_at = self.read(position, WINDOW_BYTES), position
            base_offset, size_bytes, delta = self._place(window, position - window_at, position)
            if base_offset + delta >= offset:
                break
            position += size_bytes
        if position < self.size_bytes:
            self.remember(offset, position)
        return position

    def last_boundary(self, start: int, limit: int, *, at_least_one: bool = False) -> int:
        """The last position between two, `start` being one, at which a batch begins or the file ends.

        With `at_least_one` the end of the first batch, if that is above the limit.
        """
        if limit >= self.size_bytes:
            return self.size_bytes
        if not self.offset_index.is_loaded:
            self._load_offset_index()
        position = max(start, self.offset_index.floor_position(limit))
        window, window_at = b"", position
        next_offset = -1
        while True:
            if position + _PLACE.size > window_at + len(window):
                window, window_at = self.read(position, WINDOW_BYTES), position
            base_offset, size_bytes, delta = self._place(window, position - window_at, position)
            if position + size_bytes > limit:
                if at_least_one and position == start:
                    return position + size_bytes
                # The next fetch begins where this one ends: save it the search.
                self.remember(next_offset if next_offset >= 0 else base_offset, position)
                return position
            position += size_bytes
            next_offset = base_offset + delta + 1

    def base_offset_at(self, position: int) -> int:
        """The base offset of the batch that begins at a position."""
        return self._place(self.read(position, _PLACE.size), 0, position)[0]

    def batch_size_at(self, position: int) -> int:
        """The size of the batch that begins at a position."""
        return self._place(self.read(position, _PLACE.size), 0, position)[1]

    def _place(self, window: bytes, at: int, position: int) -> tuple[int, int, int]:
        """(base offset, size, last offset delta) of the batch at a position."""
        if at + _PLACE.size > len(window):
            raise self._damaged(position, "file ends inside a batch")
        base_offset, length, delta = _PLACE.unpack_from(window, at)
        if length < MIN_BATCH_LENGTH or delta < 0 or base_offset < self.base_offset:
            raise self._damaged(position, f"no batch has length {length} and offset {base_offset}")
        if position + length + LENGTH_OVERHEAD_BYTES > self.size_bytes:
            raise self._damaged(position, f"a batch of length {length} runs past the end")
        return base_offset, length + LENGTH_OVERHEAD_BYTES, delta

    def _damaged(self, position: int, what: str) -> LogError:
        return LogError(ErrorCode.kafka_storage_error, f"{self.log_path} at {position}: {what}")

    # -- timestamps

    def max_timestamp(self) -> tuple[int, int]:
        """(largest timestamp, last offset of the first batch that has it); (-1, base) without any."""
        if self._is_ready:
            return self._max_timestamp_ms, self._max_timestamp_offset
        try:
            return self.time_index.peek_last()
        except (FileNotFoundError, CorruptIndexError) as error:
            self.rebuild_indexes(str(error))
            return self._max_timestamp_ms, self._max_timestamp_offset

    def age_timestamp_ms(self) -> int:
        """What retention by time compares: the largest timestamp, or the file's own without one."""
        timestamp_ms, _ = self.max_timestamp()
        if timestamp_ms >= 0:
            return timestamp_ms
        directory, _, name = self.log_path.rpartition("/")
        dates_ms = (entry.modified_at_ms for entry in self._files.scan(directory) if entry.name == name)
        return next(dates_ms, self.modified_at_ms)

    def first_timestamp_ms(self) -> int:
        """The largest timestamp of the first batch; -1 for none."""
        if self._first_timestamp_ms is None:
            self._first_timestamp_ms = NO_TIMESTAMP_MS
            if self.size_bytes:
                self.batch_size_at(0)  # the header exists and is valid
                self._first_timestamp_ms = parse_header(self.read(0, HEADER_BYTES)).max_timestamp_ms
        return self._first_timestamp_ms

    # -- indexes

    def loaded_time_index(self) -> TimeIndex:
        """The time index with its entries in memory."""
        if not self.time_index.is_loaded:
            try:
                self.time_index.load()
            except (FileNotFoundError, CorruptIndexError) as error:
                self.rebuild_indexes(str(error))
        return self.time_index

    def loaded_txn_index(self) -> TxnIndex:
        """The transaction index with its entries in memory; loading has checked it."""
        if not self.txn_index.is_loaded:
            self.txn_index.load()
        return self.txn_index

    def _load_offset_index(self) -> None:
        try:
            self.offset_index.load(self.size_bytes)
        except (FileNotFoundError, CorruptIndexError) as error:
            self.rebuild_indexes(str(error))

    def rebuild_indexes(self, reason: str, index_interval_bytes: int = 4096) -> None:
        """Rebuild offset and time index from the log, which is assumed to be valid."""
        _logger.warning("%s: rebuilding indexes: %s", self.log_path, reason)
        self._begin_rebuild()
        for found in self.batches():
            header = found.header
            self.index_batch(
                found.position,
                header.size_bytes,
                header.last_offset,
                header.max_timestamp_ms,
                index_interval_bytes,
            )
        self.time_index.maybe_add(self._max_timestamp_ms, self._max_timestamp_offset)
        self.offset_index.flush()
        self.time_index.flush()

    def _begin_rebuild(self) -> None:
        self._known.clear()
        self._limits_of = None
        self.offset_index.reset()
        self.time_index.reset()
        self._bytes_since_entry = 0
        self._max_timestamp_ms, self._max_timestamp_offset = NO_TIMESTAMP_MS, self.base_offset
        self._first_timestamp_ms = None

    def index_batch(
        self,
        position: int,
        size_bytes: int,
        last_offset: int,
        max_timestamp_ms: int,
        index_interval_bytes: int,
    ) -> None:
        """Index a batch that is already in the file, as `append` does."""
        if not position:
            self._first_timestamp_ms = max_timestamp_ms
        if max_timestamp_ms > self._max_timestamp_ms:
            self._max_timestamp_ms, self._max_timestamp_offset = max_timestamp_ms, last_offset
        if self._bytes_since_entry > index_interval_bytes:
            self._bytes_since_entry = 0
            self.offset_index.add(last_offset, position)
            self.time_index.maybe_add(self._max_timestamp_ms, self._max_timestamp_offset)
        self._bytes_since_entry += size_bytes
