"""Reading the journal of a broker that stopped without a clean shutdown.

Nothing is written: the journal may be that of another broker, whose partitions this one takes over.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import NamedTuple, TypeAlias

from klamm.protocol.errors import DecodeError, ErrorCode
from klamm.records.batch import BatchHeader, iter_headers
from klamm.storage.engines.segments import names
from klamm.storage.engines.segments.files import Files
from klamm.storage.engines.segments.journal_format import Entry, Frame, decode_frames
from klamm.storage.log import LogError

_logger = logging.getLogger(__name__)


class JournaledBatch(NamedTuple):
    """A batch as it is in the journal and should be in its segment."""

    header: BatchHeader
    data: bytes


PartitionKey: TypeAlias = tuple[str, bytes, int]  # topic, topic id, partition


class FoundFile(NamedTuple):
    """A file of a journal, and the number of its last use; 0 when it holds no frame."""

    slot: int
    number: int
    size_bytes: int


@dataclass(slots=True)
class JournalContent:
    """What a journal holds: the batches of each partition in order, each offset once."""

    files: list[FoundFile] = field(default_factory=list)  # oldest use first
    last_sequence: int = 0
    batches: dict[PartitionKey, list[JournaledBatch]] = field(default_factory=dict)

    def of(self, topic: str, topic_id: bytes, partition: int) -> Sequence[JournaledBatch]:
        """The batches of one partition."""
        return self.batches.get((topic, topic_id, partition), ())

    def add(self, entry: Entry) -> None:
        """Add a later entry: it replaces what was in the log at and above its offset."""
        known = self.batches.setdefault((entry.topic, entry.topic_id, entry.partition), [])
        # Logs are cut at whole batches.
        while known and known[-1].header.last_offset >= entry.offset:
            known.pop()
        if entry.batches is not None:
            for position, header in iter_headers(entry.batches):
                data = entry.batches[position : position + header.size_bytes]
                known.append(JournaledBatch(header, data))


def read_journal(files: Files, directory: str, node_id: int) -> JournalContent:
    """Everything that the journal of a broker holds. Raises OSError, and DecodeError for an impossible frame.

    A frame that is incomplete was never reported as durable, nor was anything after it.
    """
    content = JournalContent()
    try:
        entries = files.scan(directory)
    except FileNotFoundError:
        return content
    uses: list[tuple[FoundFile, list[Frame]]] = []
    for entry in entries:
        slot = names.parse_journal_file(entry.name, node_id)
        if slot is None:
            continue
        path = f"{directory}/{entry.name}"
        try:
            frames = list(decode_frames(files.read_file(path)))
        except DecodeError as error:
            raise DecodeError(f"{path}: {error}") from error
        number = frames[0].number if frames else 0
        uses.append((FoundFile(slot, number, entry.size_bytes), frames))
    uses.sort(key=lambda use: use[0].number)
    for found, frames in uses:
        content.files.append(found)
        expected = content.last_sequence + 1
        if frames and expected > 1 and frames[0].sequence != expected:
            _logger.warning(
                "%s: journal file %d begins at frame %d, expected %d",
                directory,
                found.number,
                frames[0].sequence,
                expected,
            )
        for frame in frames:
            content.last_sequence = frame.sequence
            for each in frame.entries:
                content.add(each)
    content.batches = {key: batches for key, batches in content.batches.items() if batches}
    return content


class OtherJournals:
    """The journals of the other brokers that share a directory. They are not changed."""

    def __init__(self, files: Files, directory: str, node_id: int) -> None:
        self._files = files
        self._directory = directory
        self._node_id = node_id
        self._contents: list[JournalContent] | None = None  # None: not read yet
        self._reading = Lock()  # logs are recovered on several threads

    def forget(self) -> None:
        """Read them again when they are needed next."""
        self._contents = None

    def of(self, topic: str, topic_id: bytes, partition: int) -> list[JournaledBatch]:
        """The batches of one partition, journal by journal. Raises OSError and LogError."""
        with self._reading:
            if (contents := self._contents) is None:
                try:
                    contents = self._contents = self._read()
                except DecodeError as error:
                    raise LogError(
                        ErrorCode.kafka_storage_error, f"reading journals failed: {error}"
                    ) from error
        return [batch for each in contents for batch in each.of(topic, topic_id, partition)]

    def _read(self) -> list[JournalContent]:
        try:
            entries = self._files.scan(self._directory)
        except FileNotFoundError:
            return []
        found = {names.journal_owner(entry.name) for entry in entries} - {None, self._node_id}
        return [
            read_journal(self._files, self._directory, node_id)
            for node_id in sorted(each for each in found if each is not None)
        ]
