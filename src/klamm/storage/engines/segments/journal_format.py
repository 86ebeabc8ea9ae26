"""The bytes of a journal file: frames, one for each flush round, and what they hold of each partition.

A frame is valid as a whole or not at all. Files are used again: the number of a frame's file distinguishes
it from one of an earlier use. A reader stops at the first frame that does not continue the one before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from struct import Struct, error
from typing import Final, NamedTuple

from klamm.protocol.errors import DecodeError
from klamm.records.checksum import crc32c

_MAGIC: Final = b"KJF1"
_HEAD: Final = Struct(">4sQQI")  # magic, file number, sequence, bytes of all entries
_CRC: Final = Struct(">I")  # of the head and all entries
FRAME_OVERHEAD_BYTES: Final = _HEAD.size + _CRC.size
# kind, topic id, partition, leader epoch, first offset, bytes of the topic's name, bytes of the batches
_ENTRY: Final = Struct(">B16siiqHI")
_BATCHES: Final = 1
_CUT: Final = 2


class Entry(NamedTuple):
    """What a frame holds of one partition: batches from an offset on, or that it was cut there."""

    topic: str
    topic_id: bytes
    partition: int
    leader_epoch: int
    offset: int
    batches: bytes | None  # None: everything at and above the offset was removed


class Frame(NamedTuple):
    """One valid frame and where the next one begins."""

    number: int
    sequence: int
    entries: list[Entry]
    next_position: int


def encode_frame(number: int, sequence: int, entries: Iterable[Entry]) -> bytes:
    """A frame of these entries."""
    parts: list[bytes] = [b""]
    for topic, topic_id, partition, leader_epoch, offset, batches in entries:
        name = topic.encode()
        kind, data = (_CUT, b"") if batches is None else (_BATCHES, batches)
        parts.append(_ENTRY.pack(kind, topic_id, partition, leader_epoch, offset, len(name), len(data)))
        parts.append(name)
        parts.append(data)
    length = sum(map(len, parts))
    parts[0] = _HEAD.pack(_MAGIC, number, sequence, length)
    parts.append(b"")
    content = b"".join(parts)
    return content + _CRC.pack(crc32c(content))


def decode_frames(data: bytes) -> Iterator[Frame]:
    """The valid frames of a file, up to the first that is incomplete, damaged or of an earlier use.

    Raises DecodeError for a frame whose checksum is valid and whose entries are not.
    """
    position = 0
    last: Frame | None = None
    while (frame := _decode_frame(data, position)) is not None:
        if last is not None and (frame.number, frame.sequence) != (last.number, last.sequence + 1):
            return
        yield frame
        last, position = frame, frame.next_position


def _decode_frame(data: bytes, position: int) -> Frame | None:
    end_of_head = position + _HEAD.size
    if end_of_head > len(data):
        return None
    magic, number, sequence, length = _HEAD.unpack_from(data, position)
    end = end_of_head + length
    if magic != _MAGIC or end + _CRC.size > len(data):
        return None
    if _CRC.unpack_from(data, end)[0] != crc32c(memoryview(data)[position:end]):
        return None
    return Frame(number, sequence, list(_entries(data, end_of_head, end)), end + _CRC.size)


def _entries(data: bytes, position: int, end: int) -> Iterator[Entry]:
    try:
        while position < end:
            kind, topic_id, partition, epoch, offset, name_bytes, data_bytes = _ENTRY.unpack_from(
                data, position
            )
            name_at = position + _ENTRY.size
            data_at = name_at + name_bytes
            position = data_at + data_bytes
            if kind not in (_BATCHES, _CUT) or position > end:
                raise DecodeError(f"invalid journal entry of kind {kind} and {data_bytes} bytes")
            topic = data[name_at:data_at].decode()
            batches = data[data_at:position] if kind == _BATCHES else None
            yield Entry(topic, topic_id, partition, epoch, offset, batches)
    except (error, UnicodeDecodeError) as cause:
        raise DecodeError(f"invalid journal entry: {cause}") from cause
