"""Whatever comes over the wire, a decoder gives a message or a DecodeError, in little memory."""

from __future__ import annotations

import itertools
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from klamm.protocol.api import OWN_APIS, ApiKey
from klamm.protocol.codec import request_decoder, request_encoder
from klamm.protocol.errors import DecodeError
from klamm.protocol.framing import FrameReader
from klamm.protocol.headers import read_request_header
from klamm.protocol.schema import schema_versions
from unit.protocol.samples import ours, plain_values, schema

EVERY_REQUEST = [
    pytest.param(key, version, id=f"{key.name}-v{version}")
    for key in ApiKey
    if key not in OWN_APIS
    for version in schema_versions(key)
]
FEW = settings(max_examples=3, deadline=None, suppress_health_check=list(HealthCheck), database=None)

# What a decoder may take: its input some times over (a field of one byte becomes an object), and the
# interpreter's small change.
MEMORY_PER_BYTE = 400
MEMORY_FOR_NOTHING = 64 * 1024

HOSTILE_LENGTHS = (
    b"\x7f\xff\xff\xff",  # an array of two thousand million
    b"\x80\x00\x00\x00",
    b"\xff\xff\xff\xff\x07",  # the same as a varint
    b"\xff\xff\xff\xff\xff\xff",  # a varint without end
    b"\xff\xfe",
    b"\x7f\xff",
)


@contextmanager
def watched_memory() -> Iterator[None]:
    """Watching costs time: only what is measured is watched."""
    tracemalloc.start()
    try:
        yield
    finally:
        tracemalloc.stop()


def mutations(valid: bytes, random: Random) -> Iterator[bytes]:
    """Cut, flipped, lengthened and overwritten versions of something valid."""
    for _ in range(6):
        yield valid[: random.randrange(len(valid) + 1)]
    for _ in range(12):
        changed = bytearray(valid or b"\0")
        for _ in range(random.randint(1, 3)):
            changed[random.randrange(len(changed))] = random.randrange(256)
        yield bytes(changed)
    for hostile in HOSTILE_LENGTHS:
        at = random.randrange(len(valid) + 1)
        yield valid[:at] + hostile + valid[at:]
        yield valid[:at] + hostile + valid[at + len(hostile) :]
    yield random.randbytes(random.randrange(200))


def decode_within_bounds(key: ApiKey, version: int, frame: bytes, has_tags: bool) -> None:
    def peak_bytes() -> int:
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        try:
            header = read_request_header(frame, has_tags=has_tags)
            request_decoder(key, version)(frame, header.body_position)
        except DecodeError:
            pass  # refused: as good as understood
        return tracemalloc.get_traced_memory()[1] - before

    # What another thread of the test run allocates meanwhile counts too, but not three times in a row.
    bound_bytes = MEMORY_PER_BYTE * len(frame) + MEMORY_FOR_NOTHING
    assert any(peak_bytes() <= bound_bytes for _ in range(3)), frame.hex()


@pytest.mark.parametrize(("key", "version"), EVERY_REQUEST)
@FEW
@given(data=st.data(), seed=st.integers(0, 2**32))
def test_a_request_of_any_bytes_is_decoded_or_refused_in_little_memory(
    key: ApiKey, version: int, data: st.DataObject, seed: int
) -> None:
    struct = schema(key, version, "request")
    request = ours(key, struct, data.draw(plain_values(struct)))
    body = b"".join(request_encoder(key, version)(request))
    head = key.to_bytes(2, "big") + version.to_bytes(2, "big") + b"\0\0\0\1\0\4test"
    valid = head + (b"\0" if struct.is_flexible else b"") + body
    request_decoder(key, version)(valid, len(valid) - len(body))
    frames = list(mutations(valid, Random(seed)))
    with watched_memory():
        for frame in frames:
            decode_within_bounds(key, version, frame, struct.is_flexible)


@settings(max_examples=200, deadline=None)
@given(data=st.binary(max_size=300), cuts=st.lists(st.integers(0, 300), max_size=5))
def test_a_stream_of_any_bytes_is_framed_the_same_however_it_is_cut(data: bytes, cuts: list[int]) -> None:
    def framed(pieces: list[bytes]) -> tuple[list[bytes], str | None]:
        reader, frames = FrameReader(1000), []
        try:
            for piece in pieces:
                frames += list(reader.feed(piece))
        except DecodeError:
            return frames, "refused"
        return frames, None

    edges = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    pieces = [data[start:end] for start, end in itertools.pairwise(edges)]
    whole_frames, whole_end = framed([data])
    cut_frames, cut_end = framed(pieces)
    assert cut_end == whole_end
    # `list` loses the frames in front of a refusal in the same piece: those that are there must agree.
    assert whole_frames[: len(cut_frames)] == cut_frames[: len(whole_frames)]


def test_a_frame_that_announces_much_and_brings_little_costs_little() -> None:
    with watched_memory():
        readers = [FrameReader(104_857_600) for _ in range(1000)]
        for reader in readers:
            assert list(reader.feed((100 * 1024 * 1024).to_bytes(4, "big") + b"\0\0\0\3\0\0")) == []
        _, peak = tracemalloc.get_traced_memory()
    assert peak < 2_000_000
