"""Requests that were decoded before: the same result as the plain decoder's, whatever the bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.broker.net import repeats
from klamm.broker.net.elements import reader_of
from klamm.broker.net.repeats import Memory, decoder_of_repeats
from klamm.protocol.api import ApiKey
from klamm.protocol.codec import Decode, request_decoder, request_encoder
from klamm.protocol.errors import DecodeError
from klamm.protocol.messages.heartbeat import HeartbeatRequest
from klamm.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

FLEXIBLE = (8, 9, 10)
TEXTS = st.text(max_size=5) | st.just("x" * 130)
PARTITIONS = st.builds(
    OffsetCommitRequestPartition,
    st.integers(0, 300),
    st.integers(-1, 2**40),
    st.integers(-1, 9),
    st.sampled_from(["", "meta", "größer"]),
)
TOPICS = st.builds(
    OffsetCommitRequestTopic,
    st.binary(min_size=16, max_size=16),
    TEXTS,
    st.lists(PARTITIONS, max_size=4),
)
COMMITS = st.builds(
    OffsetCommitRequest,
    st.sampled_from(["g", "h", "größer", "x" * 130]),
    st.integers(-1, 3),
    st.sampled_from(["", "m1", "m2"]),
    st.sampled_from([None, "", "i"]),
    topics=st.lists(TOPICS, min_size=1, max_size=2),
)


def written(api_key: ApiKey, version: int, request: object, head: bytes = b"head") -> bytes:
    return head + b"".join(request_encoder(api_key, version)(request))


def plain(api_key: ApiKey, version: int) -> Decode:
    return request_decoder(api_key, version, reader_of)


def shown(request: OffsetCommitRequest) -> object:
    """A request to compare: partitions are columns without an equality of their own."""
    topics = [(topic.topic_id, topic.name, list(topic.partitions)) for topic in request.topics]
    return (
        request.group_id,
        request.generation_id_or_member_epoch,
        request.member_id,
        request.group_instance_id,
        request.retention_time_ms,
        request.knows_group_id_not_found,
        request.uses_topic_ids,
        topics,
    )


@pytest.mark.parametrize("version", FLEXIBLE)
@given(requests=st.lists(COMMITS, min_size=1, max_size=6))
def test_commits_are_decoded_as_by_the_plain_decoder(
    version: int, requests: list[OffsetCommitRequest]
) -> None:
    decode = plain(ApiKey.OFFSET_COMMIT, version)
    remembering = decoder_of_repeats(ApiKey.OFFSET_COMMIT, version, decode)
    for request in (*requests, *requests):
        frame = written(ApiKey.OFFSET_COMMIT, version, request)
        assert shown(remembering(frame, 4)) == shown(decode(frame, 4))


@pytest.mark.parametrize("version", FLEXIBLE)
def test_a_commit_like_the_last_one_is_not_decoded_again(version: int) -> None:
    decoded = 0

    def counting(frame: bytes, position: int) -> OffsetCommitRequest:
        nonlocal decoded
        decoded += 1
        request: OffsetCommitRequest = plain(ApiKey.OFFSET_COMMIT, version)(frame, position)
        return request

    decode = decoder_of_repeats(ApiKey.OFFSET_COMMIT, version, counting)
    for offset in range(3):
        for group in ("g", "h"):
            partitions = [OffsetCommitRequestPartition(0, offset, 0, ""), OffsetCommitRequestPartition(7, 1)]
            topic = OffsetCommitRequestTopic(b"i" * 16, "t", partitions)
            frame = written(ApiKey.OFFSET_COMMIT, version, OffsetCommitRequest(group, 1, "m", topics=[topic]))
            assert shown(decode(frame, 4)) == shown(plain(ApiKey.OFFSET_COMMIT, version)(frame, 4))
    assert decoded == 2


@pytest.mark.parametrize("version", FLEXIBLE)
def test_a_damaged_commit_is_refused_although_its_start_is_known(version: int) -> None:
    topic = OffsetCommitRequestTopic(b"i" * 16, "t", [OffsetCommitRequestPartition(0, 5, 0, "")])
    frame = written(ApiKey.OFFSET_COMMIT, version, OffsetCommitRequest("g", 1, "m", topics=[topic]))
    decode = decoder_of_repeats(ApiKey.OFFSET_COMMIT, version, plain(ApiKey.OFFSET_COMMIT, version))
    decode(frame, 4)
    for end in range(4, len(frame)):
        with pytest.raises(DecodeError):
            decode(frame[:end], 4)


@pytest.mark.parametrize("version", FLEXIBLE)
def test_unknown_tags_behind_a_known_start_are_skipped(version: int) -> None:
    topic = OffsetCommitRequestTopic(b"i" * 16, "t", [OffsetCommitRequestPartition(0, 5, 0, "")])
    frame = written(ApiKey.OFFSET_COMMIT, version, OffsetCommitRequest("g", 1, "m", topics=[topic]))
    decode = decoder_of_repeats(ApiKey.OFFSET_COMMIT, version, plain(ApiKey.OFFSET_COMMIT, version))
    decode(frame, 4)
    tagged = frame[:-1] + b"\x01\x63\x02ab"
    assert shown(decode(tagged, 4)) == shown(decode(frame, 4))


@pytest.mark.parametrize("version", range(5))
def test_the_same_heartbeat_is_the_same_request(version: int) -> None:
    decode = decoder_of_repeats(ApiKey.HEARTBEAT, version, plain(ApiKey.HEARTBEAT, version))
    frames = [written(ApiKey.HEARTBEAT, version, HeartbeatRequest("g", 1, member)) for member in ("a", "b")]
    first, second = decode(frames[0], 4), decode(frames[1], 4)
    assert (first.member_id, second.member_id) == ("a", "b")
    assert decode(frames[0], 4) is first
    other = written(ApiKey.HEARTBEAT, version, HeartbeatRequest("g", 2, "a"), head=b"another head")
    assert decode(other, 12).generation_id == 2


def test_a_memory_is_bounded_and_forgets_what_is_not_sent_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeats, "MOST_REMEMBERED", 3)
    memory: Memory[int] = Memory()
    for number in range(5):
        memory.add(b"%d" % number, number)
    assert list(memory.values.values()) == [0, 1, 2]
    memory.add(b"5", 5)
    assert list(memory.values.values()) == [5]
