"""Messages that are alike but for the id of a member: what they share is decoded, or encoded, once.

The members of a group send the same JoinGroup and the same SyncGroup, and get the same JoinGroup response,
each with its own id. A message that equals the last one everywhere else costs a comparison of bytes in place
of a run of the decoder. Flexible versions only, which are those of today's clients.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from klamm.protocol.schema import Struct
from klamm.protocol.types import Buffer

# What is between the group's id, the first field, and the member's: two int32, one int32.
_FIXED_BYTES: Final = {"JoinGroupRequest": 8, "SyncGroupRequest": 4}
_MOST_REMEMBERED: Final = 8 * 1024  # bytes of a frame; the leader's SyncGroup is larger, and unlike any other
_LONGEST_SHORT: Final = 127  # lengths up to this are a byte
_EMPTY_END: Final = b"\x01\x01\x00"  # an empty member id, no members, no tags

# What is before the member's id and after it, as bytes with their lengths and as values; then one without id.
_Known = tuple[bytes, int, bytes, int, tuple[Any, ...], tuple[Any, ...], Any]


def decoder_of_alike(schema: Struct, decode: Callable[[bytes, int], Any]) -> Callable[[bytes, int], Any]:
    """A decoder with the same results, faster for a message like the last one; or the decoder itself.

    Messages share their parts, which nobody changes, and are one object if they have no id.
    """
    if schema.name not in _FIXED_BYTES or not schema.is_flexible:
        return decode
    fixed_bytes = _FIXED_BYTES[schema.name]
    message: Any = schema.message
    names = list(schema.message.defaults())
    place = names.index("member_id")
    known: _Known | None = None  # replaced as a whole: brokers on other threads decode too

    def remember(frame: bytes, position: int, decoded: Any) -> None:
        nonlocal known
        group_bytes = frame[position]
        member_at = position + group_bytes + fixed_bytes
        if group_bytes > _LONGEST_SHORT or frame[member_at] > _LONGEST_SHORT:
            return
        values = [getattr(decoded, name) for name in names]
        start, rest = frame[position:member_at], frame[member_at + frame[member_at] :]
        before, after = tuple(values[:place]), tuple(values[place + 1 :])
        known = start, len(start), rest, len(rest), before, after, message(*before, "", *after)

    def decode_alike(frame: bytes, position: int) -> Any:
        last = known
        if last is not None:
            start, start_bytes, rest, rest_bytes, before, after, nameless = last
            if frame.startswith(start, position) and frame.endswith(rest):
                member_at = position + start_bytes
                end = len(frame) - rest_bytes
                # The length must be that of a member id between what is known, and nothing else.
                if member_at < end and frame[member_at] == end - member_at <= _LONGEST_SHORT:
                    if end - member_at == 1:
                        return nameless
                    raw = frame[member_at + 1 : end]
                    if raw.isascii():
                        return message(*before, raw.decode(), *after)
        decoded = decode(frame, position)
        if len(frame) <= _MOST_REMEMBERED:
            remember(frame, position, decoded)
        return decoded

    return decode_alike


def encoder_of_alike(schema: Struct, encode: Callable[[Any], list[Buffer]]) -> Callable[[Any], list[Buffer]]:
    """An encoder with the same results, faster for a JoinGroup response like the last one; or `encode`."""
    if schema.name != "JoinGroupResponse" or not schema.is_flexible:
        return encode
    known: tuple[tuple[Any, ...], bytes] | None = None  # the other fields, and the bytes before the member id

    def encode_alike(response: Any) -> list[Buffer]:
        nonlocal known
        if response.members:
            return encode(response)
        alike = (
            response.throttle_time_ms,
            response.error_code,
            response.generation_id,
            response.protocol_type,
            response.protocol_name,
            response.leader,
            response.skip_assignment,
        )
        raw = response.member_id.encode()
        if len(raw) >= _LONGEST_SHORT:
            return encode(response)
        last = known
        if last is not None and last[0] == alike:
            start = last[1]
        else:
            whole = b"".join(encode(response.but(member_id="")))
            assert whole.endswith(_EMPTY_END), schema.name
            start = whole[: -len(_EMPTY_END)]
            known = alike, start
        return [start, (len(raw) + 1).to_bytes(1, "big"), raw, b"\x01\x00"]

    return encode_alike
