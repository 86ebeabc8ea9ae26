"""The partitions of commits that the core reads and writes are what the codec would have made of them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from klamm.broker.net.elements import reader_of, writer_of
from klamm.protocol.api import ApiKey
from klamm.protocol.codec import Decode, request_decoder, request_encoder, response_encoder
from klamm.protocol.errors import DecodeError
from klamm.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from klamm.protocol.schema import load_struct, schema_versions
from klamm.records.core import TopicCommits

VERSIONS = list(schema_versions(ApiKey.OFFSET_COMMIT))
int32s, int64s = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
metadata = st.none() | st.text("mé€😀", max_size=5) | st.just("m" * 300)
asked = st.builds(OffsetCommitRequestPartition, int32s, int64s, int32s, metadata)
topics = st.builds(
    OffsetCommitRequestTopic, st.just(bytes(range(16))), st.text("t", max_size=3), st.lists(asked, max_size=4)
)
requests = st.builds(
    OffsetCommitRequest, st.text("g", max_size=3), int32s, topics=st.lists(topics, max_size=3)
)
few = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def read_by(decode: Decode, frame: bytes) -> Any:
    """What there is in a frame; DecodeError when it is not a request."""
    try:
        request = decode(frame, 0)
    except DecodeError:
        return DecodeError
    for topic in request.topics:
        topic.partitions = [
            (
                each.partition_index,
                each.committed_offset,
                each.committed_leader_epoch,
                each.committed_metadata or "",
            )
            for each in topic.partitions
        ]
    return request


@few
@given(st.sampled_from(VERSIONS), requests, st.data())
def test_a_commit_is_read_and_refused_as_the_codec_does(
    version: int, request: OffsetCommitRequest, data: st.DataObject
) -> None:
    frame = bytearray(b"".join(request_encoder(ApiKey.OFFSET_COMMIT, version)(request)))
    for _ in range(data.draw(st.integers(0, 2))):
        frame[data.draw(st.integers(0, len(frame) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(frame[: data.draw(st.just(len(frame)) | st.integers(0, len(frame)))])
    decode = request_decoder(ApiKey.OFFSET_COMMIT, version, reader_of)
    assert read_by(decode, cut) == read_by(request_decoder(ApiKey.OFFSET_COMMIT, version), cut)


@pytest.mark.parametrize("version", VERSIONS)
def test_partitions_of_a_commit_come_as_a_whole(version: int) -> None:
    request = OffsetCommitRequest(
        topics=[OffsetCommitRequestTopic(partitions=[OffsetCommitRequestPartition(3)])]
    )
    frame = b"".join(request_encoder(ApiKey.OFFSET_COMMIT, version)(request))
    [topic] = request_decoder(ApiKey.OFFSET_COMMIT, version, reader_of)(frame, 0).topics
    assert isinstance(topic.partitions, TopicCommits)
    assert topic.partitions.partitions() == [3]


@few
@given(
    st.sampled_from(VERSIONS),
    st.lists(
        st.lists(st.builds(OffsetCommitResponsePartition, int32s, st.integers(-1, 200)), max_size=4),
        max_size=3,
    ),
)
def test_an_answer_is_written_as_the_codec_does(
    version: int, answers: list[list[OffsetCommitResponsePartition]]
) -> None:
    response = OffsetCommitResponse(
        topics=[OffsetCommitResponseTopic(name="t", partitions=each) for each in answers]
    )
    written = b"".join(response_encoder(ApiKey.OFFSET_COMMIT, version, writer_of)(response))
    assert written == b"".join(response_encoder(ApiKey.OFFSET_COMMIT, version)(response))


def test_everything_else_is_left_to_the_codec() -> None:
    struct = load_struct(ApiKey.HEARTBEAT, 4, "request")
    assert (reader_of(struct), writer_of(struct)) == (None, None)
