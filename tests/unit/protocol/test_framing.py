"""Frames and headers: what comes in pieces goes out whole, and what cannot be is refused."""

from __future__ import annotations

import struct
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.protocol import framing
from klamm.protocol.api import ApiKey
from klamm.protocol.errors import DecodeError
from klamm.protocol.framing import LARGEST_BUT_PRODUCE, FrameReader
from klamm.protocol.headers import (
    read_request_header,
    read_response_header,
    request_frame,
    response_has_tags,
)
from klamm.testing.wire import response_bytes


def framed(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


@given(
    payloads=st.lists(st.binary(min_size=8, max_size=60), max_size=6),
    cuts=st.lists(st.integers(1, 40), max_size=40),
)
def test_frames_come_out_whole_however_the_stream_is_cut(payloads: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(map(framed, payloads))
    reader = FrameReader(1000)
    seen: list[bytes] = []
    for cut in [*cuts, len(stream)]:
        piece, stream = stream[:cut], stream[cut:]
        whole = reader.only(piece)
        several = reader.several(piece) if whole is None else [whole]
        seen += reader.feed(piece) if several is None else several
    assert seen == payloads
    assert reader.buffered_bytes == 0


def test_what_is_exactly_one_frame_is_taken_at_once_within_the_same_bounds() -> None:
    reader = FrameReader(100)
    assert reader.only(framed(b"12345678")) == b"12345678"
    assert reader.only(framed(b"1234567")) is None
    assert reader.only(framed(bytes(101))) is None
    assert reader.only(framed(b"12345678") * 2) is None
    assert list(reader.feed(framed(b"12345678")[:6])) == []
    assert reader.only(framed(b"12345678")) is None


def test_what_is_nothing_but_frames_is_taken_at_once_within_the_same_bounds() -> None:
    reader = FrameReader(100)
    frame = framed(b"12345678")
    assert reader.several(frame * 3) == [b"12345678"] * 3
    assert reader.several(frame + framed(b"1234567")) is None
    assert reader.several(frame + framed(bytes(101))) is None
    assert reader.several(frame + struct.pack(">i", -1) + bytes(8)) is None
    assert reader.several(frame + frame[:-1]) is None
    assert reader.several(frame + frame[:3]) is None
    assert list(reader.feed(frame[:6])) == []
    assert reader.several(frame * 2) is None


@pytest.mark.parametrize("size", [-1, 0, 7, 1001, -(2**31), 2**31 - 1])
def test_a_size_out_of_bounds_is_refused_before_the_body_comes(size: int) -> None:
    with pytest.raises(DecodeError, match="frame of"):
        list(FrameReader(1000).feed(struct.pack(">i", size)))


@pytest.mark.parametrize(("start", "cause"), [(b"GET / HTTP/1.1", "HTTP"), (b"\x16\x03\x01\x02\x00", "TLS")])
def test_other_protocols_are_named(start: bytes, cause: str) -> None:
    with pytest.raises(DecodeError, match=cause):
        list(FrameReader(100 * 2**20).feed(start))


def test_only_produce_may_be_large() -> None:
    size = struct.pack(">i", LARGEST_BUT_PRODUCE + 1)
    reader = FrameReader(100 * 2**20)
    assert list(reader.feed(size + struct.pack(">h", ApiKey.PRODUCE))) == []
    with pytest.raises(DecodeError, match="not a Produce"):
        list(FrameReader(100 * 2**20).feed(size + struct.pack(">h", ApiKey.METADATA)))


def test_a_large_size_without_its_key_yet_waits_for_the_key() -> None:
    reader = FrameReader(100 * 2**20)
    assert list(reader.feed(struct.pack(">i", LARGEST_BUT_PRODUCE + 1))) == []
    with pytest.raises(DecodeError, match="not a Produce"):
        list(reader.feed(struct.pack(">h", ApiKey.METADATA)))


def test_memory_follows_what_came_not_what_was_announced() -> None:
    tracemalloc.start()
    readers = [FrameReader(100 * 2**20) for _ in range(1000)]
    for reader in readers:
        assert list(reader.feed(struct.pack(">ih", 100 * 2**20, ApiKey.PRODUCE) + bytes(8))) == []
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2_000_000


@pytest.mark.parametrize("client_id", ["", "app", "ü", None])
@pytest.mark.parametrize(("key", "version"), [(ApiKey.METADATA, 1), (ApiKey.METADATA, 9)])
def test_a_request_header_comes_back(key: ApiKey, version: int, client_id: str | None) -> None:
    frame = b"".join(request_frame(key, version, 77, client_id, [b"body"]))
    header = read_request_header(frame[4:], has_tags=version >= 9)
    assert (header.api_key, header.api_version, header.correlation_id) == (key, version, 77)
    assert header.client_id == (client_id or "")
    assert frame[4:][header.body_position :] == b"body"


def test_tags_in_a_header_are_skipped() -> None:
    frame = struct.pack(">hhihB", 3, 9, 5, 0, 1) + bytes([7, 2]) + b"xx" + b"body"
    assert read_request_header(frame, has_tags=True).body_position == len(frame) - 4


@given(st.binary(max_size=60), st.booleans())
def test_a_header_of_noise_is_read_or_refused(noise: bytes, has_tags: bool) -> None:
    try:
        header = read_request_header(noise, has_tags=has_tags)
    except DecodeError:
        return
    assert header.body_position <= len(noise)


@pytest.mark.parametrize(("version", "has_tags"), [(8, False), (9, True)])
def test_a_response_header_has_tags_when_its_api_is_flexible(version: int, has_tags: bool) -> None:
    assert response_has_tags(ApiKey.METADATA, version) is has_tags
    frame = response_bytes(9, [b"x"], has_tags=has_tags)
    assert struct.unpack(">i", frame[:4])[0] == len(frame) - 4
    assert read_response_header(frame[4:], has_tags=has_tags) == (9, 5 if has_tags else 4)


def test_api_versions_never_has_tags_in_its_response_header() -> None:
    assert not any(response_has_tags(ApiKey.API_VERSIONS, version) for version in range(5))


@pytest.mark.plain  # Python does not know who allocates in compiled code
def test_a_frame_that_comes_byte_by_byte_takes_little_more_memory_than_its_bytes() -> None:
    reader = FrameReader(100 * 2**20)
    assert list(reader.feed(framed(bytes(20_000))[:8])) == []
    tracemalloc.start()
    for _ in range(19_995):
        assert list(reader.feed(b"\0")) == []
    # What other threads of the test run allocate meanwhile is not the reader's.
    ours = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(True, framing.__file__)])
    tracemalloc.stop()
    assert 0 < sum(trace.size for trace in ours.traces) < 60_000
    assert list(reader.feed(b"\0")) == [bytes(20_000)]
    assert reader.buffered_bytes == 0


@given(st.lists(st.binary(min_size=8, max_size=20_000), max_size=4), st.integers(1, 9_000))
def test_large_frames_come_out_whole_too(payloads: list[bytes], piece: int) -> None:
    stream = b"".join(map(framed, payloads))
    reader = FrameReader(100_000)
    seen: list[bytes] = []
    for start in range(0, len(stream), piece):
        seen += reader.feed(stream[start : start + piece])
    assert seen == payloads
    assert reader.buffered_bytes == 0
