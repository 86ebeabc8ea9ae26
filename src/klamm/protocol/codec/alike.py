"""Messages that are alike but for the id of a member: what they share is decoded, or encoded, once.

The members of a group send the same JoinGroup and the same SyncGroup, each with its own id, and get the same
responses, each with its own id or assignment. A message that equals the last one everywhere else costs a
comparison of bytes in place of a run of the decoder. Flexible versions only, which are those of today's
clients.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from klamm.protocol.messages.join_group import JoinGroupResponse
from klamm.protocol.messages.sync_group import SyncGroupResponse
from klamm.protocol.schema import Struct
from klamm.protocol.types import Buffer

# What is between the group's id, the first field, and the member's: two int32, one int32.
_FIXED_BYTES: Final = {"JoinGroupRequest": 8, "SyncGroupRequest": 4}
_MOST_REMEMBERED: Final = 8 * 1024  # bytes of a frame; the leader's SyncGroup is larger, and unlike any other
_LONGEST_SHORT: Final = 127  # lengths up to this are a byte
_EMPTY: Final = b"\x01"  # a member id, an assignment
_NO_TAGS: Final = b"\x00"
_NO_MORE: Final = b"\x01\x00"  # no members, no tags


def decoder_of_alike(schema: Struct, decode: Callable[[bytes, int], Any]) -> Callable[[bytes, int], Any]:
    """A decoder with the same results, faster for a message like the last one; or the decoder itself.

    Messages share their parts, which nobody changes, and are one object if they have no id.
    """
    if schema.name not in _FIXED_BYTES or not schema.is_flexible:
        return decode
    alike: Any = AlikeDecoder(schema, decode)
    decode_alike: Callable[[bytes, int], Any] = alike.decode
    return decode_alike


class AlikeDecoder:
    """Remembers the last message."""

    __slots__ = ("_decode", "_fixed_bytes", "_known", "_message", "_names", "_place")

    def __init__(self, schema: Struct, decode: Callable[[bytes, int], Any]) -> None:
        self._decode = decode
        self._fixed_bytes = _FIXED_BYTES[schema.name]
        self._message: Any = schema.message
        self._names = list(schema.message.defaults())
        self._place = self._names.index("member_id")
        # What is before the member's id and after it, as bytes and as values; then a message without an id.
        # Replaced as a whole: brokers on other threads decode too.
        self._known: tuple[bytes, bytes, tuple[Any, ...], tuple[Any, ...], Any] | None = None

    def decode(self, frame: bytes, position: int) -> Any:
        last = self._known
        if last is not None:
            start, rest, before, after, nameless = last
            if frame.startswith(start, position) and frame.endswith(rest):
                member_at = position + len(start)
                end = len(frame) - len(rest)
                # The length must be that of a member id between what is known, and nothing else.
                if member_at < end and frame[member_at] == end - member_at <= _LONGEST_SHORT:
                    if end - member_at == 1:
                        return nameless
                    raw = frame[member_at + 1 : end]
                    if raw.isascii():
                        return self._message(*before, raw.decode(), *after)
        decoded = self._decode(frame, position)
        if len(frame) <= _MOST_REMEMBERED:
            self._remember(frame, position, decoded)
        return decoded

    def _remember(self, frame: bytes, position: int, decoded: Any) -> None:
        group_bytes = frame[position]
        member_at = position + group_bytes + self._fixed_bytes
        if group_bytes > _LONGEST_SHORT or frame[member_at] > _LONGEST_SHORT:
            return
        values = [getattr(decoded, name) for name in self._names]
        start, rest = frame[position:member_at], frame[member_at + frame[member_at] :]
        before, after = tuple(values[: self._place]), tuple(values[self._place + 1 :])
        self._known = start, rest, before, after, self._message(*before, "", *after)


def encoder_of_alike(schema: Struct, encode: Callable[[Any], list[Buffer]]) -> Callable[[Any], list[Buffer]]:
    """An encoder with the same results, faster for a response like the last one; or `encode`."""
    alike: Any = None
    if schema.is_flexible and schema.name == "JoinGroupResponse":
        alike = AlikeJoinEncoder(encode)
    elif schema.is_flexible and schema.name == "SyncGroupResponse":
        alike = AlikeSyncEncoder(encode)
    return encode if alike is None else alike.encode


class AlikeJoinEncoder:
    """Remembers a response to JoinGroup, and the bytes before its member id."""

    __slots__ = ("_encode", "_known")

    def __init__(self, encode: Callable[[Any], list[Buffer]]) -> None:
        self._encode = encode
        self._known: tuple[JoinGroupResponse, bytes] | None = None

    def encode(self, response: JoinGroupResponse) -> list[Buffer]:
        raw = response.member_id.encode()
        size_bytes = len(raw)
        if response.members or size_bytes >= _LONGEST_SHORT:
            return self._encode(response)
        last = self._known
        if last is not None and _are_joins_alike(last[0], response):
            start = last[1]
        else:
            whole = b"".join(self._encode(response.but(member_id="")))
            assert whole.endswith(_EMPTY + _NO_MORE), "JoinGroupResponse"
            start = whole[: -len(_EMPTY + _NO_MORE)]
            self._known = response, start
        return [b"%b%c%b%b" % (start, size_bytes + 1, raw, _NO_MORE)]


def _are_joins_alike(known: JoinGroupResponse, response: JoinGroupResponse) -> bool:
    return (
        known.generation_id == response.generation_id
        and known.error_code == response.error_code
        and known.leader == response.leader
        and known.protocol_name == response.protocol_name
        and known.protocol_type == response.protocol_type
        and known.skip_assignment == response.skip_assignment
        and known.throttle_time_ms == response.throttle_time_ms
    )


class AlikeSyncEncoder:
    """Remembers a response to SyncGroup, and the bytes before its assignment."""

    __slots__ = ("_encode", "_known")

    def __init__(self, encode: Callable[[Any], list[Buffer]]) -> None:
        self._encode = encode
        self._known: tuple[SyncGroupResponse, bytes] | None = None

    def encode(self, response: SyncGroupResponse) -> list[Buffer]:
        raw = response.assignment
        size_bytes = len(raw)
        if size_bytes >= _LONGEST_SHORT:
            return self._encode(response)
        last = self._known
        if last is not None and _are_syncs_alike(last[0], response):
            start = last[1]
        else:
            whole = b"".join(self._encode(response.but(assignment=b"")))
            assert whole.endswith(_EMPTY + _NO_TAGS), "SyncGroupResponse"
            start = whole[: -len(_EMPTY + _NO_TAGS)]
            self._known = response, start
        return [b"%b%c%b%b" % (start, size_bytes + 1, raw, _NO_TAGS)]


def _are_syncs_alike(known: SyncGroupResponse, response: SyncGroupResponse) -> bool:
    return (
        known.error_code == response.error_code
        and known.protocol_name == response.protocol_name
        and known.protocol_type == response.protocol_type
        and known.throttle_time_ms == response.throttle_time_ms
    )
