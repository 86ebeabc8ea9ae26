"""The batches of a partition that only a journal has: until a checkpoint or, after a crash, the next start.

They are read as recovery reads them; nothing is changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from klamm.protocol.errors import ErrorCode
from klamm.storage.engines.segments import names
from klamm.storage.engines.segments.checkpoints import decode_partition_metadata
from klamm.storage.engines.segments.epochs import LeaderEpochs
from klamm.storage.engines.segments.files import OsFiles
from klamm.storage.engines.segments.journal_reading import JournaledBatch, OtherJournals
from klamm.storage.engines.segments.scan import BadBatchError, FoundBatch, walk
from klamm.storage.log import LogError

IN_JOURNAL: Final = -1  # the position of a batch that no segment has
_NO_BROKER: Final = -1  # the journals of all brokers are read


class Journals:
    """The journals of log directories.

    A journal is read once, and before any segment of its directory: what a running broker removes from it, it
    has written to the segments before.
    """

    def __init__(self) -> None:
        self._files = OsFiles()
        self._of_directory: dict[Path, OtherJournals] = {}

    def batches(self, partition: Path) -> list[JournaledBatch]:
        """What journals hold of the partition in this folder. Raises OSError, LogError and DecodeError."""
        place = names.parse_partition_directory(partition.name)
        directory = partition.parent / names.JOURNAL_DIRECTORY
        if place is None:
            return []
        if not directory.is_dir():
            is_copy = (partition / names.PARTITION_CHECKPOINT).exists()
            if is_copy and not (partition.parent / names.META_PROPERTIES).exists():
                raise LogError(
                    ErrorCode.kafka_storage_error,
                    f"{partition}: is a copy without its data folder, whose journal may have more records: "
                    "dump it in the data folder",
                )
            return []
        journals = self._of_directory.setdefault(
            directory, OtherJournals(self._files, str(directory), _NO_BROKER)
        )
        topic_id = decode_partition_metadata((partition / names.PARTITION_METADATA).read_bytes())
        found = journals.of(place[0], topic_id, place[1])
        return sorted(found, key=lambda batch: (batch.header.leader_epoch, batch.header.base_offset))


def partition_segments(partition: Path) -> list[Path]:
    """The segments of a partition, in order of their offsets."""
    return sorted(
        path
        for path in partition.iterdir()
        if path.suffix == names.LOG_SUFFIX and names.parse_offset_name(path.name) is not None
    )


def log_batches(segments: list[Path], journals: Journals) -> Iterator[FoundBatch]:
    """The batches of these segments of one partition; behind its last one, those that only a journal has.

    Raises OSError, LogError and DecodeError, at the end if the last segment is torn.
    """
    partition = segments[0].absolute().parent
    # Before the segments: see Journals.
    try:
        journaled, problem = journals.batches(partition), None
    except LogError as error:
        journaled, problem = [], error
    last = partition_segments(partition)[-1:]
    for path in segments:
        end = names.parse_offset_name(path.name)
        end_offset = 0 if end is None else end.offset
        epochs = LeaderEpochs.load(OsFiles(), str(partition / names.LEADER_EPOCH_CHECKPOINT))
        latest_epoch = -1 if epochs is None else epochs.latest_epoch
        try:
            for found in walk(OsFiles(), str(path), check_crc=True):
                yield found
                end_offset = found.header.next_offset
                latest_epoch = max(latest_epoch, found.header.leader_epoch)
        except BadBatchError as error:
            if [path.absolute()] != last:
                raise
            problem = error
        if [path.absolute()] == last:
            yield from _behind(path, end_offset, latest_epoch, journaled)
    if problem is not None:
        raise problem


def _behind(
    path: Path, end_offset: int, latest_epoch: int, journaled: list[JournaledBatch]
) -> Iterator[FoundBatch]:
    """The batches with which recovery continues a log."""
    for header, data in journaled:
        if header.last_offset < end_offset or header.leader_epoch < latest_epoch:
            continue
        if header.base_offset != end_offset:
            raise LogError(
                ErrorCode.kafka_storage_error,
                f"{path}: the log ends at offset {end_offset}, but the journal continues at "
                f"{header.base_offset}: offsets {end_offset} to {header.base_offset - 1} are missing",
            )
        yield FoundBatch(IN_JOURNAL, header, data, 0)
        end_offset, latest_epoch = header.next_offset, header.leader_epoch
