"""The checkpoint file of one partition, in its directory: what its next leader must know before opening it.

Brokers share a directory of logs, and each partition has one leader, so each file has one writer. Kafka's own
checkpoint files, one for the whole directory, are written when the last broker stops.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Final
from zlib import crc32

from klamm.protocol.errors import DecodeError
from klamm.protocol.types import ZERO_ID, TopicPartition, id_from_text, id_to_text
from klamm.storage.engines.segments import names
from klamm.storage.engines.segments.checkpoints import NumberedFile, OffsetCheckpoint, encode_offsets
from klamm.storage.engines.segments.files import Files, write_aside
from klamm.storage.log import Work

if TYPE_CHECKING:
    from klamm.storage.engines.segments.log import SegmentLog

_logger = logging.getLogger(__name__)

_VERSION: Final = "version: 1"
_VERSION_WITHOUT_ID: Final = "version: 0"
_FILE_BYTES: Final = 320  # fits the largest values, and a sector
_KAFKAS: Final = (
    names.RECOVERY_POINT_CHECKPOINT,
    names.LOG_START_CHECKPOINT,
    names.HIGH_WATERMARK_CHECKPOINT,
    names.CLEANER_CHECKPOINT,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionCheckpoint:
    """What the last leader left."""

    leader_epoch: int
    recovery_point: int  # everything below was on disk
    log_start_offset: int  # 0: the first segment has it
    high_watermark: int
    end_offset: int
    cleaned_to: int = -1  # the end of the last compaction; -1: there was none
    is_clean: bool = False  # closed, everything is on disk, and the end offset is the log's
    topic_id: bytes = ZERO_ID  # zero: not known, as in what Kafka or an older klamm left

    def is_clean_for(self, leader_epoch: int) -> bool:
        """Whether a leader may open the log without recovery.

        Only if no other leader was between the one that closed it and this one. The same one may have closed
        it, and opened it again.
        """
        return self.is_clean and leader_epoch - self.leader_epoch in (0, 1)


_NUMBERS: Final = tuple(each.name for each in fields(PartitionCheckpoint) if each.name != "topic_id")


def encode_checkpoint(checkpoint: PartitionCheckpoint) -> bytes:
    """A line `name: value` for each field, and their checksum.

    The last value is padded: all files have the same length, and can be overwritten in place.
    """
    lines = [f"{name}: {getattr(checkpoint, name):d}" for name in _NUMBERS]
    body = "\n".join([_VERSION, *lines, f"topic_id: {id_to_text(checkpoint.topic_id)}"])
    end = f"\ncrc: {crc32(body.encode()):010d}\n"
    return (body.ljust(_FILE_BYTES - len(end)) + end).encode()


def decode_checkpoint(data: bytes) -> PartitionCheckpoint:
    """DecodeError when it is damaged or of another version."""
    try:
        version, *lines, last, end = data.decode("ascii").split("\n")
        values = dict(line.rstrip().split(": ") for line in lines)
        if version == _VERSION_WITHOUT_ID:
            is_whole = last == f"lines: {len(lines)}"
            topic_id = ZERO_ID
        else:
            body = "\n".join([version, *lines]).rstrip()
            is_whole = version == _VERSION and last == f"crc: {crc32(body.encode()):010d}"
            topic_id = id_from_text(values.pop("topic_id"))
        numbers = {name: int(value) for name, value in values.items()}
    except (KeyError, ValueError) as error:
        raise DecodeError(f"invalid partition checkpoint: {error}") from error
    if not is_whole or end or numbers.keys() != set(_NUMBERS):
        raise DecodeError(f"invalid partition checkpoint: {version}, {len(lines)} lines")
    return PartitionCheckpoint(
        **{**numbers, "is_clean": bool(numbers["is_clean"])},  # type: ignore[arg-type]
        topic_id=topic_id,
    )


def checkpoint_of(log: SegmentLog, *, is_clean: bool = False) -> PartitionCheckpoint:
    """What a log's next leader must know of it now."""
    return PartitionCheckpoint(
        leader_epoch=log.leader_epoch,
        recovery_point=log.recovery_point,
        log_start_offset=log.log_start_offset if must_save_start(log) else 0,
        high_watermark=log.high_watermark,
        end_offset=log.log_end_offset,
        cleaned_to=-1 if log.cleaned_to is None else log.cleaned_to,
        is_clean=is_clean,
        topic_id=log.topic_id,
    )


def must_save_start(log: SegmentLog) -> bool:
    """Whether the names of its files do not say where a log begins."""
    return log.log_start_offset > log.segments[0].base_offset


class PartitionCheckpoints:
    """The checkpoint files of the partitions in one directory, and Kafka's files for all of them."""

    def __init__(self, files: Files, directory: str) -> None:
        self._files = files
        self._directory = directory
        self._writers: dict[TopicPartition, NumberedFile] = {}
        self._last: dict[TopicPartition, PartitionCheckpoint] = {}  # written, or about to be

    def migrate(self, places: Iterable[TopicPartition]) -> None:
        """Distribute the content of Kafka's files over the partitions, and empty them. Raises OSError.

        Called by the first broker that uses the directory, which syncs it afterwards. They must not be read
        again while brokers run: a topic may be deleted, and another one have its name.
        """
        kafkas = {name: OffsetCheckpoint(self._files, f"{self._directory}/{name}") for name in _KAFKAS}
        offsets = {name: self._believed(name, file) for name, file in kafkas.items()}
        if any(offsets.values()):
            for place in places:
                found = {name: of_place[place] for name, of_place in offsets.items() if place in of_place}
                if found and not self._files.exists(self._path(place)):
                    self.start_writing(place, _of_kafkas(found), sync=True)()
        for name in kafkas:
            path = f"{self._directory}/{name}"
            if offsets[name] or not self._files.exists(path):
                # One that is new and lost in a crash counts as empty, too.
                write_aside(self._files, path, encode_offsets({}), sync=bool(offsets[name]))

    def _believed(self, name: str, file: OffsetCheckpoint) -> dict[TopicPartition, int]:
        """The content of a checkpoint; empty when it is damaged, which costs time but no data."""
        try:
            return file.read()
        except DecodeError as error:
            _logger.warning("%s/%s: ignoring damaged checkpoint: %s", self._directory, name, error)
            return {}

    def _path(self, place: TopicPartition) -> str:
        return f"{self._directory}/{names.partition_directory(*place)}/{names.PARTITION_CHECKPOINT}"

    def read(self, place: TopicPartition) -> PartitionCheckpoint | None:
        """What the last leader of a partition left; None when nothing is known, or the file is damaged."""
        try:
            return decode_checkpoint(self._files.read_file(self._path(place)))
        except FileNotFoundError:
            return None
        except DecodeError as error:
            _logger.warning("%s: ignoring damaged checkpoint: %s", self._path(place), error)
            return None

    def last_epoch(self, place: TopicPartition) -> int:
        """The epoch of the last leader; -1 when it is not known."""
        left = self.read(place)
        return -1 if left is None else left.leader_epoch

    def start_writing(
        self, place: TopicPartition, checkpoint: PartitionCheckpoint, *, sync: bool, has_start: bool = False
    ) -> Work:
        """Work that writes a partition's file. Raises OSError.

        Deleted records must stay deleted, so a log start is always made durable, unless the file has it
        already. The rest may be lost: it costs a recovery.
        """
        writer = self._writers.get(place)
        if writer is None:
            # Unlike any other that this or another broker writes in this directory.
            name = f"{checkpoint.topic_id.hex()}-{checkpoint.leader_epoch}"
            writer = self._writers[place] = NumberedFile(self._files, self._path(place), name)
        is_precious = checkpoint.log_start_offset > 0
        write = writer.start_writing(
            encode_checkpoint(checkpoint), sync=sync or (is_precious and not has_start), is_whole=is_precious
        )
        self._last[place] = checkpoint

        def work() -> None:
            try:
                write()
            except OSError:
                self._last.pop(place, None)
                raise

        return work

    def is_current(self, place: TopicPartition, checkpoint: PartitionCheckpoint) -> bool:
        """Whether a partition's file has this content, or is about to."""
        return self._last.get(place) == checkpoint

    def forget(self, place: TopicPartition) -> None:
        """The partition is deleted, or another broker's: write nothing that is still to be written."""
        writer = self._writers.pop(place, None)
        self._last.pop(place, None)
        if writer is not None:
            writer.retire()

    def write_for_kafka(self, places: Iterable[TopicPartition]) -> None:
        """Write Kafka's files, when no broker runs. Raises OSError."""
        offsets: dict[str, dict[TopicPartition, int]] = {name: {} for name in _KAFKAS}
        for place in places:
            found = self.read(place)
            if found is None:
                continue
            offsets[names.RECOVERY_POINT_CHECKPOINT][place] = found.recovery_point
            offsets[names.HIGH_WATERMARK_CHECKPOINT][place] = found.high_watermark
            if found.log_start_offset > 0:
                offsets[names.LOG_START_CHECKPOINT][place] = found.log_start_offset
            if found.cleaned_to >= 0:
                offsets[names.CLEANER_CHECKPOINT][place] = found.cleaned_to
        for name in _KAFKAS:
            OffsetCheckpoint(self._files, f"{self._directory}/{name}").start_write(offsets[name])()


def _of_kafkas(found: Mapping[str, int]) -> PartitionCheckpoint:
    return PartitionCheckpoint(
        leader_epoch=-1,
        recovery_point=found.get(names.RECOVERY_POINT_CHECKPOINT, 0),
        log_start_offset=found.get(names.LOG_START_CHECKPOINT, 0),
        high_watermark=found.get(names.HIGH_WATERMARK_CHECKPOINT, 0),
        end_offset=-1,
        cleaned_to=found.get(names.CLEANER_CHECKPOINT, -1),
    )
