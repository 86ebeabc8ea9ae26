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
    if api_key is ApiKey.HEARTBEAT:
        return _decoder_of_heartbeats(decode)
    if api_key is ApiKey.OFFSET_COMMIT and struct.is_flexible:
        topics = next(field.struct for field in struct.fields if field.name == "topics")
        assert topics is not None
        partitions = next(field.struct for field in topics.fields if field.name == "partitions")
        assert partitions is not None
        read = reader_of(partitions)
        assert read is not None
        return _decoder_of_commits(decode, read)
    return decode


def _decoder_of_heartbeats(decode: Decode) -> Decode:
    """The same bytes are the same request, which is never changed."""
    memory: Memory[Any] = Memory()
    known = memory.values.get

    def decode_heartbeat(frame: bytes, position: int) -> Any:
        written = frame[position:]
        request = known(written)
        if request is None:
            request = decode(frame, position)
            if len(written) <= _MOST_BYTES:
                memory.add(written, request)
        return request

    return decode_heartbeat


_Start = tuple[bytes, int, tuple[str, int, str, str | None, int], bytes, str, tuple[bool, bool]]
"""The bytes before the partitions, how many these are, and the values around them."""


def _decoder_of_commits(decode: Decode, read: ReadElements) -> Decode:
    """A commit of one topic is remembered up to its partitions, by the id of its group."""
    memory: Memory[_Start] = Memory()
    known = memory.values.get

    def decode_commit(frame: bytes, position: int) -> Any:
        group = frame[position : position + frame[position]] if position < len(frame) else b""
        last = known(group)
        if last is not None and frame.startswith(last[0], position):
            start, count, before, topic_id, name, after = last
            partitions, end = read(frame, position + len(start), count)
            if frame[end:] == _NO_TAGS:
                topic = OffsetCommitRequestTopic(topic_id, name, partitions)  # type: ignore[arg-type]
                return OffsetCommitRequest(*before, [topic], *after)
        request = decode(frame, position)
        found = _start_of(frame, position, request, read)
        if found is not None:
            memory.add(group, found)
        return request

    return decode_commit


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
    before = (
        request.group_id,
        request.generation_id_or_member_epoch,
        request.member_id,
        request.group_instance_id,
        request.retention_time_ms,
    )
    after = (request.knows_group_id_not_found, request.uses_topic_ids)
    return start, count, before, topic.topic_id, topic.name, after
