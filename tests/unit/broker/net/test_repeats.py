"""Heartbeats that were decoded before: the same result as the codec's, whatever the bytes."""

from __future__ import annotations

import pytest

from klamm.broker.net import repeats
from klamm.broker.net.repeats import HeartbeatDecoder, decoder_of_repeats
from klamm.protocol.api import ApiKey
from klamm.protocol.codec import Decode, request_decoder, request_encoder
from klamm.protocol.errors import DecodeError
from klamm.protocol.messages.heartbeat import HeartbeatRequest


def written(version: int, request: HeartbeatRequest, head: bytes = b"head") -> bytes:
    return head + b"".join(request_encoder(ApiKey.HEARTBEAT, version)(request))


class Counting:
    """Counts what is decoded by the codec."""

    def __init__(self, decode: Decode) -> None:
        self._decode = decode
        self.count = 0

    def __call__(self, frame: bytes, position: int) -> HeartbeatRequest:
        self.count += 1
        request: HeartbeatRequest = self._decode(frame, position)
        return request


@pytest.mark.parametrize("version", range(5))
def test_the_same_heartbeat_is_the_same_request(version: int) -> None:
    decode = decoder_of_repeats(ApiKey.HEARTBEAT, request_decoder(ApiKey.HEARTBEAT, version))
    frames = [written(version, HeartbeatRequest("g", 1, member)) for member in ("a", "b")]
    first, second = decode(frames[0], 4), decode(frames[1], 4)
    assert (first.member_id, second.member_id) == ("a", "b")
    assert decode(frames[0], 4) is first
    other = written(version, HeartbeatRequest("g", 2, "a"), head=b"another head")
    assert decode(other, 12).generation_id == 2


def test_a_heartbeat_that_is_cut_is_refused_although_the_whole_is_known() -> None:
    decode = decoder_of_repeats(ApiKey.HEARTBEAT, request_decoder(ApiKey.HEARTBEAT, 4))
    frame = written(4, HeartbeatRequest("g", 1, "a"))
    decode(frame, 4)
    for end in range(4, len(frame)):
        with pytest.raises(DecodeError):
            decode(frame[:end], 4)


def test_other_requests_are_left_to_the_codec() -> None:
    decode = request_decoder(ApiKey.SYNC_GROUP, 5)
    assert decoder_of_repeats(ApiKey.SYNC_GROUP, decode) is decode


def test_what_is_remembered_is_bounded_and_makes_room_for_what_is_sent_now(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(repeats, "MOST_REMEMBERED", 3)
    codec = Counting(request_decoder(ApiKey.HEARTBEAT, 4))
    decode = HeartbeatDecoder(codec).decode
    frames = [written(4, HeartbeatRequest("g", 1, member)) for member in "abcdef"]
    for frame in frames[:5]:
        decode(frame, 4)
    for frame in frames[:3]:
        decode(frame, 4)
    assert codec.count == 5  # those that were there first are remembered still
    decode(frames[5], 4)  # the third miss: all are forgotten
    decode(frames[5], 4)
    assert codec.count == 6
    decode(frames[0], 4)
    assert codec.count == 7
