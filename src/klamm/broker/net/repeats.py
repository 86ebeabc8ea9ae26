"""Requests that clients send over and over: what was decoded before is not decoded again.

A member sends the same heartbeat all the time, and commits that are the same up to their offsets. A memory
belongs to one broker, whose event loop alone uses it, and is bounded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from klamm.broker.net.elements import reader_of
from klamm.protocol.api import ApiKey
from klamm.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestTopic
from klamm.protocol.schema import load_struct

if TYPE_CHECKING:
    from klamm.protocol.codec import Decode
    from klamm.protocol.codec.decoding import ReadElements

MOST_REMEMBERED: Final = 8192  # requests
_MOST_BYTES: Final = 512  # of a request, offsets apart
_LONGEST_SHORT: Final = 126  # a length up to this is one byte
_NO_TAGS: Final = b"\0\0"  # of the topic and the request, behind the last partition

Value = TypeVar("Value")


class Memory(Generic[Value]):
    """Values by bytes. When it is full, it forgets all, but only after as many misses as it has room for."""

    __slots__ = ("_misses", "values")

    def __init__(self) -> None:
        self.values: dict[bytes, Value] = {}
        self._misses = 0

    def add(self, key: bytes, value: Value) -> None:
        if len(self.values) >= MOST_REMEMBERED:
            self._misses += 1
            if self._misses < MOST_REMEMBERED:
                return
            self._misses = 0
            self.values.clear()
        self.values[key] = value


def decoder_of_repeats(api_key: ApiKey, version: int, decode: Decode) -> Decode:
    """A decoder with the same results, faster for requests that were decoded before; or `decode` itself."""
    struct = load_struct(api_key, version, "request")
    repeats: Any = None
    if api_key is ApiKey.HEARTBEAT:
        repeats = HeartbeatDecoder(decode)
    elif api_key is ApiKey.OFFSET_COMMIT and struct.is_flexible:
        topics = next(field.struct for field in struct.fields if field.name == "topics")
        assert topics is not None
        partitions = next(field.struct for field in topics.fields if field.name == "partitions")
        assert partitions is not None
        read = reader_of(partitions)
        assert read is not None
        repeats = CommitDecoder(decode, read)
    return decode if repeats is None else repeats.decode


class HeartbeatDecoder:
    """The same bytes are the same request, which is never changed."""

    __slots__ = ("_decode", "_memory")

    def __init__(self, decode: Decode) -> None:
        self._decode = decode
        self._memory: Memory[Any] = Memory()

    def decode(self, frame: bytes, position: int) -> Any:
        written = frame[position:]
        request = self._memory.values.get(written)
        if request is None:
            request = self._decode(frame, position)
            if len(written) <= _MOST_BYTES:
                self._memory.add(written, request)
        return request


_Start = tuple[bytes, int, str, int, str, str | None, int, bytes, str, bool, bool]
"""The bytes before the partitions, how many these are, and the values around them."""


class CommitDecoder:
    """A commit of one topic is remembered up to its partitions, by the id of its group."""

    __slots__ = ("_decode", "_memory", "_read")

    def __init__(self, decode: Decode, read: ReadElements) -> None:
        self._decode = decode
        self._read = read
        self._memory: Memory[_Start] = Memory()

    def decode(self, frame: bytes, position: int) -> Any:
        group = frame[position : position + frame[position]] if position < len(frame) else b""
        last = self._memory.values.get(group)
        if last is not None:
            (start, count, group_id, generation, member_id, instance_id, retention_ms,
             topic_id, name, knows_not_found, uses_topic_ids) = last  # fmt: skip
            if frame.startswith(start, position):
                partitions, end = self._read(frame, position + len(start), count)
                if frame[end:] == _NO_TAGS:
                    topic = OffsetCommitRequestTopic(topic_id, name, partitions)  # type: ignore[arg-type]
                    return OffsetCommitRequest(
                        group_id,
                        generation,
                        member_id,
                        instance_id,
                        retention_ms,
                        [topic],
                        knows_not_found,
                        uses_topic_ids,
                    )
        request = self._decode(frame, position)
        found = _start_of(frame, position, request, self._read)
        if found is not None:
            self._memory.add(group, found)
        return request


def _start_of(frame: bytes, position: int, request: OffsetCommitRequest, read: ReadElements) -> _Start | None:
    """What a request shares with those like it; None for a request of several topics, or with tags."""
    if len(request.topics) != 1:
        return None
    topic = request.topics[0]
    count = len(topic.partitions)
    texts = [request.group_id, request.member_id, request.group_instance_id]
    texts += [] if request.uses_topic_ids else [topic.name]
    lengths = [0 if text is None else len(text.encode()) for text in texts]
    if max(*lengths, count) > _LONGEST_SHORT:
        return None
    # A byte for the length of each text, one each for the numbers of topics and partitions; the generation.
    size = sum(lengths) + len(texts) + 2 + 4 + (16 if request.uses_topic_ids else 0)
    start = frame[position : position + size]
    if len(start) > _MOST_BYTES or start[-1] != count + 1:
        return None
    _, end = read(frame, position + size, count)
    if frame[end:] != _NO_TAGS:
        return None
    return (
        start,
        count,
        request.group_id,
        request.generation_id_or_member_epoch,
        request.member_id,
        request.group_instance_id,
        request.retention_time_ms,
        topic.topic_id,
        topic.name,
        request.knows_group_id_not_found,
        request.uses_topic_ids,
    )
