"""Messages of many members: what is decoded or encoded once serves the next one only if it is alike."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.protocol.api import ApiKey
from klamm.protocol.codec import request_decoder, request_encoder, response_encoder
from klamm.protocol.codec.decoding import REQUEST_MEMORY_BYTES, compile_decoder
from klamm.protocol.codec.encoding import compile_encoder
from klamm.protocol.errors import DecodeError
from klamm.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from klamm.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from klamm.protocol.schema import load_struct

PROTOCOLS = [JoinGroupRequestProtocol("range", b"orders"), JoinGroupRequestProtocol("sticky", b"")]
JOIN = JoinGroupRequest("shop", 45_000, 300_000, "anna-1", None, "consumer", PROTOCOLS, None)
SYNC = SyncGroupRequest("shop", 3, "anna-1", None, "consumer", "range")
VERSIONS = {JoinGroupRequest: (ApiKey.JOIN_GROUP, 9), SyncGroupRequest: (ApiKey.SYNC_GROUP, 5)}

IDS = st.text(max_size=140)
JOINS = st.builds(
    JoinGroupRequest,
    group_id=st.sampled_from(["shop", "s", "", "x" * 127, "x" * 200]),
    session_timeout_ms=st.sampled_from([1, 45_000]),
    rebalance_timeout_ms=st.sampled_from([1, 0x01010101]),
    member_id=IDS,
    group_instance_id=st.sampled_from([None, "", "i"]),
    protocol_type=st.sampled_from(["consumer", ""]),
    protocols=st.sampled_from([(), PROTOCOLS, PROTOCOLS[:1]]),
    reason=st.sampled_from([None, "again"]),
)
SYNCS = st.builds(
    SyncGroupRequest,
    group_id=st.sampled_from(["shop", "x" * 127]),
    generation_id=st.integers(1, 2),
    member_id=IDS,
    protocol_name=st.sampled_from([None, "range"]),
    assignments=st.sampled_from([(), [SyncGroupRequestAssignment("anna-1", b"all")]]),
)


def frame_of(request: Any) -> bytes:
    return b"".join(request_encoder(*VERSIONS[type(request)])(request))


def decoded(frame: bytes, like: Any) -> Any:
    """By the decoder that remembers."""
    return request_decoder(*VERSIONS[type(like)])(frame, 0)


def decoded_alone(frame: bytes, like: Any) -> Any:
    """By the compiled decoder, which remembers nothing."""
    api_key, version = VERSIONS[type(like)]
    struct = load_struct(api_key, version, "request")
    return compile_decoder(struct, lambda _: None, REQUEST_MEMORY_BYTES)(frame, 0)


@given(st.lists(JOINS | SYNCS, min_size=2, max_size=6))
def test_requests_one_after_the_other_are_decoded_as_each_alone(requests: list[Any]) -> None:
    for request in requests:
        assert decoded(frame_of(request), request) == decoded_alone(frame_of(request), request)


@pytest.mark.parametrize("request_", [JOIN, SYNC], ids=["join", "sync"])
@given(damaged=st.binary(max_size=6), data=st.data())
def test_a_damaged_request_is_refused_or_decoded_as_alone(
    request_: Any, damaged: bytes, data: st.DataObject
) -> None:
    frame = frame_of(request_)
    decoded(frame, request_)
    place = data.draw(st.integers(0, len(frame)))
    frame = frame[:place] + damaged + frame[data.draw(st.integers(place, len(frame))) :]
    try:
        expected = decoded_alone(frame, request_)
    except DecodeError:
        with pytest.raises(DecodeError):
            decoded(frame, request_)
    else:
        assert decoded(frame, request_) == expected


def test_members_share_the_metadata_of_their_protocols() -> None:
    first = decoded(frame_of(JOIN), JOIN)
    second = decoded(frame_of(JOIN.but(member_id="bert-2")), JOIN)
    assert second.member_id == "bert-2"
    assert second.protocols is first.protocols


RESPONSES = st.builds(
    JoinGroupResponse,
    error_code=st.sampled_from([0, 79]),
    generation_id=st.integers(-1, 1),
    protocol_type=st.sampled_from([None, "consumer"]),
    protocol_name=st.sampled_from([None, "range"]),
    leader=st.sampled_from(["", "anna-1"]),
    skip_assignment=st.booleans(),
    member_id=IDS,
    members=st.sampled_from([(), [JoinGroupResponseMember("anna-1", None, b"orders")]]),
)


ASSIGNED = st.builds(
    SyncGroupResponse,
    error_code=st.sampled_from([0, 27]),
    protocol_type=st.sampled_from([None, "consumer"]),
    protocol_name=st.sampled_from([None, "range"]),
    assignment=st.binary(max_size=4) | st.sampled_from([bytes(size) for size in (125, 126, 127, 128, 300)]),
)


def assert_encoded_as_alone(api_key: ApiKey, version: int, responses: list[Any]) -> None:
    alone = compile_encoder(load_struct(api_key, version, "response"), lambda _: None)
    for response in responses:
        encoded = response_encoder(api_key, version)(response)
        assert b"".join(encoded) == b"".join(alone(response))


@pytest.mark.parametrize("version", [5, 6, 8, 9])
@given(responses=st.lists(RESPONSES, min_size=2, max_size=6))
def test_responses_one_after_the_other_are_encoded_as_each_alone(
    version: int, responses: list[JoinGroupResponse]
) -> None:
    assert_encoded_as_alone(ApiKey.JOIN_GROUP, version, responses)


@pytest.mark.parametrize("version", [3, 4, 5])
@given(responses=st.lists(ASSIGNED, min_size=2, max_size=6))
def test_assignments_one_after_the_other_are_encoded_as_each_alone(
    version: int, responses: list[SyncGroupResponse]
) -> None:
    assert_encoded_as_alone(ApiKey.SYNC_GROUP, version, responses)
