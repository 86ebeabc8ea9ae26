"""The producer snapshots of one log, and rebuilding its producer state from them."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from functools import partial

from klamm.protocol.errors import DecodeError, ErrorCode
from klamm.records.batch import CONTROL_BIT
from klamm.records.markers import EndMarker, decode_marker
from klamm.storage.engines.segments import names
from klamm.storage.engines.segments.files import Files, remove_if_there
from klamm.storage.engines.segments.scan import FoundBatch
from klamm.storage.engines.segments.segment import Segment
from klamm.storage.log import LogError, MustLoadError
from klamm.storage.producer_snapshot import decode_snapshot, encode_snapshot
from klamm.storage.producer_state import CompletedTransaction, ProducerEntry, ProducerState

_logger = logging.getLogger(__name__)


class Snapshots:
    """The `.snapshot` files of one log: each holds the state of everything below its offset."""

    def __init__(self, files: Files, directory: str, offsets: Iterable[int]) -> None:
        self._files = files
        self._directory = directory
        self._offsets = set(offsets)
        # What a power cut may take: by offset, which writing it was. One found at a start may be cached.
        self._unsynced: dict[int, object] = {offset: object() for offset in self._offsets}
        self._synced: object = None  # the last of these that a thread has synced
        self._failure: OSError | None = None  # of syncing one

    @property
    def offsets(self) -> Sequence[int]:
        return sorted(self._offsets)

    def path(self, offset: int) -> str:
        return f"{self._directory}/{names.file_stem(offset)}{names.SNAPSHOT_SUFFIX}"

    def write(self, offset: int, state: ProducerState, *, sync: bool = False) -> None:
        """Write a snapshot. Its checksum detects a torn one, which the segments below it then replace."""
        self._files.write_file(self.path(offset), encode_snapshot(state), sync=sync)
        self._offsets.add(offset)
        if sync or not len(state):
            self._unsynced.pop(offset, None)
        else:
            self._unsynced[offset] = object()

    def require_durable(self, offset: int) -> None:
        """Raise MustLoadError until a snapshot, if there is one, survives a power cut; OSError if that fails.

        Without it and the segments below it, producers would be unknown.
        """
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure
        written = self._unsynced.get(offset)
        if written is not None and written is not self._synced:
            raise MustLoadError(partial(self._sync, offset, written))
        self._unsynced.pop(offset, None)

    def _sync(self, offset: int, written: object) -> None:
        try:
            handle = self._files.open(self.path(offset))
            try:
                self._files.sync(handle)
            finally:
                self._files.close(handle)
            self._files.sync_directory(self._directory)
        except OSError as error:
            self._failure = error
        else:
            self._synced = written

    def has(self, offset: int) -> bool:
        return offset in self._offsets

    def remove(self, offset: int) -> None:
        """Remove a snapshot, if there is one."""
        if offset in self._offsets:
            self._remove([offset])

    def remove_outside(self, first_offset: int, last_offset: int) -> bool:
        """Remove snapshots outside of the log, after segments were deleted or the log was cut; if any."""
        outside = [offset for offset in self._offsets if not first_offset <= offset <= last_offset]
        self._remove(outside)
        return bool(outside)

    def take_strays(self, bases: Iterable[int]) -> list[str]:
        """Forget those that are neither at the start of a segment nor the newest; the paths of their files.

        The caller removes them later: where a file system discards blocks as it frees them, that takes longer
        than the rest of a start.
        """
        strays = self._offsets - {*bases, max(self._offsets, default=0)}
        self._forget(strays)
        return [self.path(offset) for offset in strays]

    def _remove(self, offsets: Iterable[int]) -> None:
        for offset in offsets:
            remove_if_there(self._files, self.path(offset))
            self._forget([offset])

    def _forget(self, offsets: Iterable[int]) -> None:
        for offset in offsets:
            self._offsets.discard(offset)
            self._unsynced.pop(offset, None)

    def newest(self, last_offset: int) -> tuple[int, list[ProducerEntry]] | None:
        """The newest readable snapshot at or below an offset; damaged ones on the way are removed."""
        for offset in sorted((known for known in self._offsets if known <= last_offset), reverse=True):
            try:
                return offset, decode_snapshot(self._files.read_file(self.path(offset)))
            except FileNotFoundError:
                self._forget([offset])
            except DecodeError as error:
                _logger.warning("removing damaged snapshot %s: %s", self.path(offset), error)
                self._remove([offset])
        return None


def restore(snapshots: Snapshots, segments: Sequence[Segment], end_offset: int) -> ProducerState:
    """The producer state at an offset: the newest snapshot up to there, and the batches since.

    Without a snapshot every batch that is there counts, also those below the log start: a producer whose
    records were deleted is still the same producer.
    """
    found = snapshots.newest(end_offset)
    position_offset, entries = found if found is not None else (0, [])
    state = ProducerState(entries)
    if position_offset >= end_offset:
        return state
    for index, segment in enumerate(segments):
        is_last = index + 1 == len(segments)
        if segment.base_offset >= end_offset or (
            not is_last and segments[index + 1].base_offset <= position_offset
        ):
            continue
        start = segment.locate(position_offset) if position_offset > segment.base_offset else 0
        for batch in segment.batches(start):
            if batch.header.base_offset >= end_offset:
                break
            if batch.header.base_offset >= position_offset:
                replay(state, batch, segment.log_path)
    return state


def replay(state: ProducerState, batch: FoundBatch, path: str) -> CompletedTransaction | None:
    """Apply a batch of the log; the transaction it ended, if any."""
    if batch.header.producer_id < 0:
        return None
    return state.update(batch.header, batch.header.base_offset, marker_of(batch, path))


def marker_of(batch: FoundBatch, path: str) -> EndMarker | None:
    """The marker of a control batch; None for data. LogError when it cannot be decoded."""
    if not batch.header.attributes & CONTROL_BIT:
        return None
    try:
        return decode_marker(batch.buffer, batch.at)
    except DecodeError as error:
        raise LogError(ErrorCode.kafka_storage_error, f"{path} at {batch.position}: {error}") from error
