"""Our codecs and kio's agree, byte for byte, on every version of every API."""

from __future__ import annotations

import io
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kio.serial import entity_writer

from klamm.protocol.api import OWN_APIS, ApiKey
from klamm.protocol.codec import request_decoder, request_encoder, response_decoder, response_encoder
from klamm.protocol.codec.encoding import uvarint
from klamm.protocol.errors import DecodeError
from klamm.protocol.implied import IMPLIED
from klamm.protocol.message import Message
from klamm.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from klamm.protocol.messages.heartbeat import HeartbeatRequest
from klamm.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from klamm.protocol.schema import schema_versions
from klamm.protocol.types import Direction
from unit.protocol.samples import ours, plain_values, schema, theirs

EVERY_MESSAGE = [
    pytest.param(key, version, direction, id=f"{key.name}-v{version}-{direction}")
    for key in ApiKey
    if key not in OWN_APIS  # kio has those of Kafka
    for version in schema_versions(key)
    for direction in ("request", "response")
]
FEW = settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck), database=None)


def codecs(key: ApiKey, version: int, direction: Direction) -> tuple[Any, Any]:
    if direction == "request":
        return request_encoder(key, version), request_decoder(key, version)
    return response_encoder(key, version), response_decoder(key, version)


def same(message: Any) -> Any:
    """A message as nested tuples: a decoder gives lists where a default is an empty tuple."""
    if isinstance(message, Message):
        return type(message).__name__, {name: same(value) for name, value in message.values().items()}
    return tuple(map(same, message)) if isinstance(message, list | tuple) else message


def kio_bytes(entity: Any) -> bytes:
    buffer = io.BytesIO()
    entity_writer(type(entity))(buffer, entity)
    return buffer.getvalue()


@pytest.mark.parametrize(("key", "version", "direction"), EVERY_MESSAGE)
@FEW
@given(data=st.data())
def test_our_bytes_are_kios_bytes_and_come_back_as_the_same_message(
    key: ApiKey, version: int, direction: Direction, data: st.DataObject
) -> None:
    struct = schema(key, version, direction)
    values = data.draw(plain_values(struct))
    message = ours(key, struct, values)
    for implied, of_version in IMPLIED.get(struct.name, {}).items():
        setattr(message, implied, of_version(version))
    encode, decode = codecs(key, version, direction)

    encoded = b"".join(encode(message))

    assert encoded == kio_bytes(theirs(struct, values))
    assert same(decode(encoded, 0)) == same(message)


@pytest.mark.parametrize(("key", "version", "direction"), EVERY_MESSAGE)
@FEW
@given(data=st.data())
def test_a_message_that_stops_anywhere_is_refused(
    key: ApiKey, version: int, direction: Direction, data: st.DataObject
) -> None:
    struct = schema(key, version, direction)
    encode, decode = codecs(key, version, direction)
    encoded = b"".join(encode(ours(key, struct, data.draw(plain_values(struct)))))
    if encoded:
        cut = data.draw(st.integers(0, len(encoded) - 1))
        with pytest.raises(DecodeError):
            decode(encoded[:cut], 0)


@pytest.mark.parametrize(("key", "version", "direction"), EVERY_MESSAGE)
@FEW
@given(noise=st.binary(max_size=200))
def test_noise_is_refused_or_read_but_never_breaks_the_decoder(
    key: ApiKey, version: int, direction: Direction, noise: bytes
) -> None:
    encode, decode = codecs(key, version, direction)
    try:
        message = decode(noise, 0)
    except DecodeError:
        return
    assert decode(b"".join(encode(message)), 0) == message


def test_unknown_tags_are_skipped_by_their_size() -> None:
    encoded = b"".join(request_encoder(ApiKey.HEARTBEAT, 4)(_heartbeat()))
    with_tags = encoded[:-1] + bytes([2, 9, 3]) + b"abc" + bytes([200, 1, 0])
    assert request_decoder(ApiKey.HEARTBEAT, 4)(with_tags, 0) == _heartbeat()


@pytest.mark.parametrize(
    ("what", "body"),
    [
        ("more elements than bytes", "7fffffff"),
        ("a negative count", "fffffffe"),
        ("a name beyond the message", "00000001 7fff 61"),
        ("a name that is not UTF-8", "00000001 0002 c328"),
    ],
)
def test_a_count_or_length_that_cannot_be_true_is_refused(what: str, body: str) -> None:
    with pytest.raises(DecodeError):
        request_decoder(ApiKey.METADATA, 1)(bytes.fromhex(body), 0)


def test_a_million_empty_names_are_refused_before_any_is_made() -> None:
    frame = (1_000_000).to_bytes(4, "big") + bytes(2_000_000)
    with pytest.raises(DecodeError, match="1000000 elements"):
        request_decoder(ApiKey.METADATA, 1)(frame, 0)


def test_metadata_of_thirty_thousand_partitions_with_three_replicas_is_read() -> None:
    nodes = [1, 2, 3]
    partitions = [
        MetadataResponsePartition(
            partition_index=number, leader_id=1, leader_epoch=0, replica_nodes=nodes, isr_nodes=nodes
        )
        for number in range(30_000)
    ]
    response = MetadataResponse(topics=[MetadataResponseTopic(name="t", partitions=partitions)])
    encoded = b"".join(response_encoder(ApiKey.METADATA, 12)(response))
    decoded = response_decoder(ApiKey.METADATA, 12)(encoded, 0)
    assert len(decoded.topics[0].partitions) == 30_000
    assert decoded.topics[0].partitions[-1].isr_nodes == nodes


def test_a_response_that_would_fill_the_memory_is_refused_before_it_is_made() -> None:
    count = 16_000_000  # empty names of one byte each: the bytes are there, the memory is not
    frame = bytes(6) + uvarint(count + 1) + b"\x01" * count + b"\x01\x00"
    with pytest.raises(DecodeError, match=r"16000000 elements: the message exceeds the memory limit"):
        response_decoder(ApiKey.LIST_TRANSACTIONS, 0)(frame, 0)


def test_a_varint_of_six_bytes_is_refused() -> None:
    with pytest.raises(DecodeError, match="varint"):
        request_decoder(ApiKey.HEARTBEAT, 4)(bytes.fromhex("ffffffffff01"), 0)


def test_what_a_version_implies_is_part_of_the_message() -> None:
    from klamm.protocol.messages.join_group import JoinGroupRequest

    for version, must in ((3, False), (4, True)):
        encoded = b"".join(request_encoder(ApiKey.JOIN_GROUP, version)(JoinGroupRequest(group_id="g")))
        assert request_decoder(ApiKey.JOIN_GROUP, version)(encoded, 0).must_know_member_id is must


def test_a_version_that_cannot_say_null_says_empty() -> None:
    from klamm.protocol.messages.join_group import JoinGroupResponse

    answer = JoinGroupResponse(protocol_name=None)
    for version, name in ((6, ""), (7, None)):
        encoded = b"".join(response_encoder(ApiKey.JOIN_GROUP, version)(answer))
        assert response_decoder(ApiKey.JOIN_GROUP, version)(encoded, 0).protocol_name == name


def _heartbeat() -> Any:
    from klamm.protocol.messages.heartbeat import HeartbeatRequest

    return HeartbeatRequest(group_id="g", generation_id=3, member_id="m")


@pytest.mark.parametrize(("length", "is_read"), [(0x7FFF, True), (0x8000, False)])
def test_a_string_that_other_versions_could_not_repeat_is_refused(length: int, is_read: bool) -> None:
    encoded = b"".join(request_encoder(ApiKey.HEARTBEAT, 4)(HeartbeatRequest("g" * length)))
    decode = request_decoder(ApiKey.HEARTBEAT, 4)
    if is_read:
        assert decode(encoded, 0).group_id == "g" * length
    else:
        with pytest.raises(DecodeError, match="32768 bytes"):
            decode(encoded, 0)


@pytest.mark.parametrize("version", [4, 7])
def test_an_error_message_that_quotes_too_much_is_cut_where_clients_stop_reading(version: int) -> None:
    encode, decode = codecs(ApiKey.CREATE_TOPICS, version, "response")
    told = "no ü" * 10_000
    result = CreatableTopicResult(name="t", error_code=17, error_message=told)
    (read,) = decode(b"".join(encode(CreateTopicsResponse(topics=[result]))), 0).topics
    assert told.startswith(read.error_message)
    assert 32_767 - 2 < len(read.error_message.encode()) <= 32_767
