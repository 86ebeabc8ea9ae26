"""A partition's log as a coordinator sees it: bytes appended, bytes read, what is durable."""

from __future__ import annotations

from asyncio import ensure_future
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from klamm.coordinator.runtime.log import AppendRefusedError, LogNotLoadedError, LogUnavailableError
from klamm.protocol.errors import ErrorCode
from klamm.records.layout import PRODUCER_ID_AT
from klamm.storage.log import AppendOrigin, LogError, MustLoadError

if TYPE_CHECKING:
    from klamm.broker.partitions.flusher import Flusher
    from klamm.broker.partitions.registry import Partition
    from klamm.broker.services import RunBlocking
    from klamm.storage.log import PartitionLog


_NO_PRODUCER: Final = b"\xff" * 8  # its id: -1


class PartitionCoordinatorLog:
    """The port of `coordinator.runtime`, on one partition that this broker leads."""

    def __init__(
        self, partition: Partition, flusher: Flusher, run_blocking: RunBlocking | None = None
    ) -> None:
        """`run_blocking` is needed for logs that are not read on the event loop."""
        self._partition = partition
        self._flusher = flusher
        self._run_blocking = run_blocking

    @property
    def start_offset(self) -> int:
        return self._open().log_start_offset

    @property
    def end_offset(self) -> int:
        try:  # as `_open`, without the call: every append asks
            return self._partition.log.log_end_offset
        except LogError as error:
            raise LogUnavailableError(str(error)) from error

    @property
    def durable_offset(self) -> int:
        try:
            return self._partition.log.high_watermark
        except LogError as error:
            raise LogUnavailableError(str(error)) from error

    @property
    def is_being_repaired(self) -> bool:
        try:
            return self._partition.durable.is_being_repaired
        except LogError as error:
            raise LogUnavailableError(str(error)) from error

    def _open(self) -> PartitionLog:
        try:
            return self._partition.log
        except LogError as error:
            raise LogUnavailableError(str(error)) from error

    def append(self, batch: bytes, *, now_ms: int, timestamp_ms: int, is_awaited: bool = True) -> int:
        partition = self._partition
        try:
            log = partition.log
            max_bytes = log.config.max_message_bytes
            if len(batch) > max_bytes:
                raise AppendRefusedError(
                    ErrorCode.message_too_large,
                    f"{len(batch)} bytes, {max_bytes} are allowed in {partition.name}",
                )
            if batch.startswith(_NO_PRODUCER, PRODUCER_ID_AT):
                base_offset = log.append_own(batch, now_ms)
            else:
                base_offset = log.append(
                    batch,
                    now_ms=now_ms,
                    timestamp_ms=timestamp_ms,
                    origin=AppendOrigin.COORDINATOR,
                    write_later=True,  # every answer waits for the flush
                ).base_offset
        except LogError as error:
            partition.note(error)
            raise AppendRefusedError(error.error_code, str(error)) from error
        if log.sync_is_due(now_ms):
            if is_awaited:
                self._flusher.mark(partition)
            else:
                self._flusher.mark_later(partition)
        return base_offset

    def read(self, offset: int, max_bytes: int) -> bytes:
        try:
            log = self._partition.log
            return log.read(offset, until_offset=log.high_watermark, max_bytes=max_bytes, at_least_one=True)
        except LogError as error:
            raise LogUnavailableError(str(error)) from error
        except MustLoadError as missing:
            raise LogNotLoadedError(partial(self._load, missing)) from missing

    def _load(self, missing: MustLoadError, then: Callable[[], None]) -> None:
        assert self._run_blocking is not None, f"{self._partition.name} cannot be loaded"
        loading = ensure_future(self._run_blocking(missing.load))
        loading.add_done_callback(lambda _: then())

    def flush(self) -> None:
        self._flusher.mark(self._partition)

    def cut_back(self) -> None:
        """Truncate the log to its durable end: the failed flush did so, but there may be later appends."""
        try:
            log = self._partition.log
            if log.log_end_offset <= log.high_watermark:
                return
            log.truncate(log.high_watermark)
        except LogError as error:
            self._partition.note(error)
            raise LogUnavailableError(str(error)) from error
        # Transaction markers may be among these, appended after the flush had failed. Requests that wait for
        # them must not mistake the next records at these offsets for them.
        self._partition.flush_failed()
