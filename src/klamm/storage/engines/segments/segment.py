"""One segment: a stretch of the log in a file of its own, with its three indexes."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from struct import Struct
from typing import Final
from zlib import crc32

from klamm.protocol.errors import ErrorCode
from klamm.records.batch import HEADER_BYTES, LENGTH_OVERHEAD_BYTES, MIN_BATCH_LENGTH, parse_header
from klamm.storage.engines.segments import names
from klamm.storage.engines.segments.files import Chunk, Files, remove_if_there
from klamm.storage.engines.segments.handles import HandlePool
from klamm.storage.engines.segments.offset_index import CorruptIndexError, OffsetIndex
from klamm.storage.engines.segments.scan import BadBatchError, walk
from klamm.storage.engines.segments.time_index import NO_TIMESTAMP_MS, TimeIndex
from klamm.storage.engines.segments.txn_index import TxnIndex
from klamm.storage.log import LogError
from klamm.storage.topic_config import TopicConfig

_logger = logging.getLogger(__name__)

_PLACE: Final = Struct(">qi11xi")  # base offset, length, last offset delta: enough to step over a batch
_WINDOW_BYTES: Final = 8192
_MAX_RELATIVE_OFFSET: Final = (1 << 31) - 1
_KNOWN_PLACES: Final = 64
_OFFSET_ENTRY_BYTES: Final = 8
_TIME_ENTRY_BYTES: Final = 12


class Segment:
    """A segment file and its indexes.

    `suffix` is empty for a live segment; the cleaner writes segments whose files end in `.cleaned`.
    """

    __slots__ = (
        "_bytes_since_entry",
        "_files",
        "_first_timestamp_ms",
        "_handle",
        "_is_ready",
        "_known",
        "_max_timestamp_ms",
        "_max_timestamp_offset",
        "_pool",
        "_stem",
        "base_offset",
        "created_at_ms",
        "is_recently_used",
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
        self._is_ready = is_new  # whether indexes and timestamps are in memory, as appending needs them
        self._bytes_since_entry = 0
        self._max_timestamp_ms = NO_TIMESTAMP_MS
        self._max_timestamp_offset = base_offset
        self._first_timestamp_ms: int | None = None
        self._known: dict[int, int] = {}  # positions of offsets that readers stopped at
        self.is_recently_used = False
        self.is_unsynced = False

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
        """A new, empty segment, replacing what stood under its names."""
        segment = cls(files, pool, directory, base_offset, created_at_ms=now_ms, suffix=suffix, is_new=True)
        for path in segment.index_paths():
            remove_if_there(files, path)
        try:
            files.write_file(segment.log_path, b"", sync=False)
        except OSError:
            with suppress(OSError):  # where it stays, loading knows it for what it is
                remove_if_there(files, segment.log_path)
            raise
        return segment

    def _path(self, kind: str) -> str:
        return f"{self._stem}{kind}{self.suffix}"

    @property
    def log_path(self) -> str:
        return self._path(names.LOG_SUFFIX)

    def paths(self) -> list[str]:
        """Its files, of which some may not exist."""
        return [self._path(kind) for kind in names.SEGMENT_SUFFIXES]

    def index_paths(self) -> list[str]:
        """Its indexes' files, of which some may not exist."""
        return self.paths()[1:]

    def rename(self, suffix: str) -> None:
        """Give its files another suffix; those that do not exist are passed over. Raises OSError."""
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
        """The open file; valid until the next call that may open another."""
        self.is_recently_used = True
        if self._handle < 0:
            self._handle = self._pool.open(self, self.log_path)
        return self._handle

    def rest(self) -> None:
        """Give back the handle and the memory of the indexes; both come back when needed."""
        self.close_handle()
        if not self._is_ready:
            self.offset_index.unload()
            self.time_index.unload()

    def close_handle(self) -> None:
        handle, self._handle = self._handle, -1
        if handle >= 0:
            self._files.close(handle)

    # -- writing

    def append(
        self,
        chunks: Sequence[Chunk],
        size_bytes: int,
        last_offset: int,
        max_timestamp_ms: int,
        index_interval_bytes: int,
    ) -> None:
        """Write one batch, given in pieces, and index it. OSError leaves the segment as it was,
        but for bytes behind its end, which `cut_tail` removes.
        """
        if not self._is_ready:
            self._make_ready()
        position = self.size_bytes
        self.is_recently_used = True
        handle = self._handle
        if handle < 0:
            handle = self.handle()
        self.is_unsynced = True
        if (written := self._files.pwritev(handle, chunks, position)) != size_bytes:
            self._write_rest(b"".join(chunks), written, position)
        if not position:
            self._first_timestamp_ms = max_timestamp_ms
        if max_timestamp_ms > self._max_timestamp_ms:
            self._max_timestamp_ms = max_timestamp_ms
            self._max_timestamp_offset = last_offset
        self.size_bytes = position + size_bytes
        if self._bytes_since_entry > index_interval_bytes:
            self._bytes_since_entry = size_bytes
            self.offset_index.add(last_offset, position)
            self.time_index.maybe_add(self._max_timestamp_ms, self._max_timestamp_offset)
        else:
            self._bytes_since_entry += size_bytes

    def _write_rest(self, batch: bytes, written: int, position: int) -> None:
        """A write may stop short, on a full disk above all; asking again tells why."""
        rest = memoryview(batch)[written:]
        while rest:
            more = self._files.pwritev(self.handle(), [rest], position + written)
            if not more:
                raise OSError(f"the disk took {written} of {len(batch)} bytes and no more")
            rest = rest[more:]
            written += more

    def cut_tail(self) -> None:
        """Remove bytes that a failed write left behind the end, and make that durable.

        Durable, because a write that comes to stand there may be lost in a crash while a later one is
        kept: what shows through must then be no batch of another history.
        """
        self._files.truncate(self.handle(), self.size_bytes)
        self._files.sync(self.handle())

    def truncate(self, position: int, next_offset: int) -> None:
        """Cut the segment at a batch that begins at a position; its next offset afterwards."""
        self._make_ready()
        self._files.truncate(self.handle(), position)
        self.size_bytes = position
        self._known.clear()
        self.offset_index.truncate(position)
        self.time_index.truncate(next_offset)
        self.txn_index.truncate(next_offset)
        if not position:
            self._first_timestamp_ms = None
        self._bytes_since_entry = position - self.offset_index.last_position()
        self._max_timestamp_ms, self._max_timestamp_offset = self.time_index.last()
        # The time index speaks for everything up to the last indexed batch.
        for found in walk(self._files, self.log_path, start=self.offset_index.last_position(), end=position):
            if found.header.max_timestamp_ms > self._max_timestamp_ms:
                self._max_timestamp_ms = found.header.max_timestamp_ms
                self._max_timestamp_offset = found.header.last_offset
        self.is_unsynced = True

    def finish(self) -> bool:
        """No more appends for now: note the largest timestamp and write what the indexes hold back.

        Whether there was anything to do.
        """
        if self._is_ready:
            self.time_index.maybe_add(self._max_timestamp_ms, self._max_timestamp_offset)
        if self.offset_index.is_loaded:
            self.offset_index.flush()
        if self.time_index.is_loaded:
            self.time_index.flush()
        if self.txn_index.is_loaded:
            self.txn_index.flush()
        return self._is_ready

    def sync_indexes(self) -> None:
        """Make the index files durable; blocks."""
        for path in self.index_paths():
            if self._files.exists(path):
                sync_path(self._files, path)

    def must_roll(
        self, config: TopicConfig, size_bytes: int, last_offset: int, max_timestamp_ms: int, now_ms: int
    ) -> bool:
        """Whether a batch has to go into a new segment."""
        if not self._is_ready:
            self._make_ready()
        if self.size_bytes > config.segment_bytes - size_bytes:
            return True
        if last_offset - self.base_offset > _MAX_RELATIVE_OFFSET:
            return True
        if (
            len(self.offset_index) >= config.segment_index_bytes // _OFFSET_ENTRY_BYTES
            or len(self.time_index) >= config.segment_index_bytes // _TIME_ENTRY_BYTES - 1
        ):
            return self.size_bytes > 0
        if not self.size_bytes:
            return False
        if self._first_timestamp_ms is None:
            self._first_timestamp_ms = self.first_timestamp_ms()
        limit_ms = config.segment_ms
        if config.segment_jitter_ms:
            # Chance without a die: partitions differ, and a run can be repeated.
            limit_ms -= crc32(self._stem.encode()) % min(config.segment_jitter_ms, config.segment_ms)
        if config.is_compacted:
            limit_ms = min(limit_ms, config.max_compaction_lag_ms)
        if max_timestamp_ms >= 0 and self._first_timestamp_ms >= 0:
            return max_timestamp_ms - self._first_timestamp_ms > limit_ms
        return now_ms - self.created_at_ms > limit_ms

    # -- reading

    def read(self, position: int, length: int) -> bytes:
        """Bytes of the file; no check, the caller knows where batches are."""
        self.is_recently_used = True
        return self._files.pread(self._handle if self._handle >= 0 else self.handle(), length, position)

    def remember(self, offset: int, position: int) -> None:
        """Note where the first batch at or above an offset begins: somebody will ask again."""
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
                window, window_at = self.read(position, _WINDOW_BYTES), position
            base_offset, size_bytes, delta = self._place(window, position - window_at, position)
            if base_offset + delta >= offset:
                break
            position += size_bytes
        if position < self.size_bytes:
            self.remember(offset, position)
        return position

    def last_boundary(self, start: int, limit: int) -> int:
        """The last position between two, `start` being one, at which a batch begins or the file ends."""
        if limit >= self.size_bytes:
            return self.size_bytes
        if not self.offset_index.is_loaded:
            self._load_offset_index()
        position = max(start, self.offset_index.floor_position(limit))
        window, window_at = b"", position
        next_offset = -1
        while True:
            if position + _PLACE.size > window_at + len(window):
                window, window_at = self.read(position, _WINDOW_BYTES), position
            base_offset, size_bytes, delta = self._place(window, position - window_at, position)
            if position + size_bytes > limit:
                # The next fetch begins where this one ends: spare it the search.
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
            raise self._damaged(position, "the file ends inside a batch")
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
                self.batch_size_at(0)  # the header is there and sound
                self._first_timestamp_ms = parse_header(self.read(0, HEADER_BYTES)).max_timestamp_ms
        return self._first_timestamp_ms

    def loaded_time_index(self) -> TimeIndex:
        """The time index with its entries in memory."""
        if not self.time_index.is_loaded:
            try:
                self.time_index.load()
            except (FileNotFoundError, CorruptIndexError) as error:
                self.rebuild_indexes(str(error))
        return self.time_index

    def loaded_txn_index(self) -> TxnIndex:
        """The transaction index with its entries in memory; loading has made sure that it is whole."""
        if not self.txn_index.is_loaded:
            self.txn_index.load()
        return self.txn_index

    # -- indexes

    def _load_offset_index(self) -> None:
        try:
            self.offset_index.load(self.size_bytes)
        except (FileNotFoundError, CorruptIndexError) as error:
            self.rebuild_indexes(str(error))

    def _make_ready(self) -> None:
        """Bring into memory what appending needs."""
        if self._is_ready:
            return
        if not self.offset_index.is_loaded:
            self._load_offset_index()
        self.loaded_time_index()
        self.loaded_txn_index()
        self._bytes_since_entry = self.size_bytes - self.offset_index.last_position()
        # A segment's last time entry is written when it is finished, so it speaks for all of it.
        self._max_timestamp_ms, self._max_timestamp_offset = self.time_index.last()
        self._is_ready = True

    def begin_rebuild(self) -> None:
        """Forget all indexes, to be fed batch by batch through `index_batch`."""
        self.txn_index.reset()
        self._begin_rebuild()
        self._is_ready = True

    def _begin_rebuild(self) -> None:
        self._known.clear()
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
        """Index a batch that is in the file already, as `append` would have."""
        if not position:
            self._first_timestamp_ms = max_timestamp_ms
        if max_timestamp_ms > self._max_timestamp_ms:
            self._max_timestamp_ms, self._max_timestamp_offset = max_timestamp_ms, last_offset
        if self._bytes_since_entry > index_interval_bytes:
            self._bytes_since_entry = 0
            self.offset_index.add(last_offset, position)
            self.time_index.maybe_add(self._max_timestamp_ms, self._max_timestamp_offset)
        self._bytes_since_entry += size_bytes

    def check_range(self, position: int, last_offset: int) -> None:
        """Refuse an offset that the indexes could not express."""
        if last_offset - self.base_offset > _MAX_RELATIVE_OFFSET:
            raise BadBatchError(self.log_path, position, f"offset {last_offset} is out of range")

    def cut_unindexed(self, position: int) -> None:
        """Cut the file where a rebuild met nonsense; the indexes know nothing from there on."""
        self.size_bytes = position
        self.cut_tail()

    def read_end(self) -> int:
        """The next offset of a segment that was left in good order: from its last index entry on.

        Raises CorruptIndexError or BadBatchError when it was not.
        """
        next_offset = self.base_offset
        start = self.offset_index.peek_last_position(self.size_bytes) if self.size_bytes else 0
        for found in walk(
            self._files, self.log_path, start=start, end=self.size_bytes, chunk_bytes=_WINDOW_BYTES
        ):
            if found.header.base_offset < next_offset:
                raise BadBatchError(self.log_path, found.position, f"offset {found.header.base_offset}")
            next_offset = found.header.next_offset
        return next_offset

    def rebuild_indexes(self, reason: str, index_interval_bytes: int = 4096) -> None:
        """Offset and time index anew from the log, which is taken to be sound."""
        _logger.warning("rebuilding the indexes of %s: %s", self.log_path, reason)
        self._begin_rebuild()
        for found in walk(self._files, self.log_path, end=self.size_bytes):
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


def sync_path(files: Files, path: str) -> None:
    """Make a file durable that is not open; blocks."""
    handle = files.open(path)
    try:
        files.sync(handle)
    finally:
        files.close(handle)
