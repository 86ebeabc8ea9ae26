"""Messages that compiled code reads and writes are what the codec would have made of them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from klamm.broker.net.elements import reader_of, writer_of
from klamm.broker.net.ordinary import ordinary_decoder, ordinary_encoder
from klamm.protocol.api import ApiKey
from klamm.protocol.codec import (
    Decode,
    request_decoder,
    request_encoder,
    response_decoder,
    response_encoder,
)
from klamm.protocol.errors import DecodeError
from klamm.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from klamm.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from klamm.protocol.schema import schema_versions

int16s, int32s = st.integers(-(2**15), 2**15 - 1), st.integers(-(2**31), 2**31 - 1)
int64s = st.integers(-(2**63), 2**63 - 1)
names = st.text("xé€😀", max_size=4) | st.just("x" * 126) | st.just("x" * 127) | st.just("x" * 300)
few = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])

produced_topics = st.builds(
    TopicProduceData,
    st.binary(min_size=16, max_size=16),
    st.just("t"),
    st.lists(
        st.builds(PartitionProduceData, int32s, st.none() | st.binary(max_size=20) | st.just(bytes(20_000))),
        max_size=3,
    )
    | st.just([PartitionProduceData(n, b"") for n in range(130)]),
)
produce_requests = st.builds(
    ProduceRequest, st.none() | names, int16s, int32s, st.lists(produced_topics, max_size=3)
)
ends = st.builds(EndTxnRequest, names, int64s, int16s, st.booleans())
requests = st.tuples(st.just(ApiKey.PRODUCE), produce_requests) | st.tuples(st.just(ApiKey.END_TXN), ends)


def read_by(decode: Decode, frame: bytes, position: int) -> Any:
    """What there is in a frame, with batches as bytes; the text of the error when it is not a request."""
    try:
        request = decode(frame, position)
    except DecodeError as error:
        return str(error)
    if isinstance(request, ProduceRequest):
        for topic in request.topic_data:
            for each in topic.partition_data:
                each.records = None if each.records is None else bytes(each.records)
    return request


@few
@given(requests, st.data())
def test_a_request_is_read_and_refused_as_the_codec_does(
    asked: tuple[ApiKey, ProduceRequest | EndTxnRequest], data: st.DataObject
) -> None:
    api_key, request = asked
    version = data.draw(st.sampled_from(list(schema_versions(api_key))))
    frame = bytearray(b"head" + b"".join(request_encoder(api_key, version)(request)))
    for _ in range(data.draw(st.integers(0, 2))):
        frame[data.draw(st.integers(4, len(frame) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(frame[: data.draw(st.just(len(frame)) | st.integers(4, len(frame)))])
    codec = request_decoder(api_key, version, reader_of)
    assert read_by(ordinary_decoder(api_key, version, codec), cut, 4) == read_by(codec, cut, 4)


explained = st.builds(BatchIndexAndErrorMessage, int32s, st.none() | st.text(max_size=5))
produced = st.builds(
    PartitionProduceResponse,
    int32s,
    st.integers(-1, 200),
    int64s,
    int64s,
    int64s,
    st.just([]) | st.lists(explained, max_size=2),
    st.none() | st.text(max_size=5),
    st.none() | st.builds(LeaderIdAndEpoch, int32s, int32s),
)
plain = st.builds(PartitionProduceResponse, int32s, st.integers(-1, 200), int64s, int64s, int64s)
lines = (
    st.lists(plain, max_size=4)
    | st.lists(produced, max_size=3)
    | st.just([PartitionProduceResponse(n) for n in range(127)])
)
answers = st.builds(
    ProduceResponse,
    st.lists(
        st.builds(TopicProduceResponse, st.binary(min_size=16, max_size=16), st.just("t"), lines), max_size=3
    ),
    int32s,
    st.just([]) | st.just([NodeEndpoint(1, "host", 9092)]),
)


@few
@given(answers, st.sampled_from(list(schema_versions(ApiKey.PRODUCE))))
def test_a_produce_is_answered_as_the_codec_does(response: ProduceResponse, version: int) -> None:
    codec = response_encoder(ApiKey.PRODUCE, version, writer_of)
    written = b"".join(ordinary_encoder(ApiKey.PRODUCE, version, codec)(response))
    assert written == b"".join(response_encoder(ApiKey.PRODUCE, version)(response))


@few
@given(
    st.builds(EndTxnResponse, int32s, st.integers(-1, 200), int64s, int16s),
    st.sampled_from(list(schema_versions(ApiKey.END_TXN))),
)
def test_an_end_is_answered_as_the_codec_does(response: EndTxnResponse, version: int) -> None:
    codec = response_encoder(ApiKey.END_TXN, version, writer_of)
    written = b"".join(ordinary_encoder(ApiKey.END_TXN, version, codec)(response))
    assert written == b"".join(codec(response))
    response_decoder(ApiKey.END_TXN, version)(written, 0)


@pytest.mark.parametrize(
    ("api_key", "version"), [(ApiKey.HEARTBEAT, 4), (ApiKey.PRODUCE, 12), (ApiKey.END_TXN, 2)]
)
def test_everything_else_is_left_to_the_codec(api_key: ApiKey, version: int) -> None:
    decode, encode = request_decoder(api_key, version), response_encoder(api_key, version)
    assert ordinary_decoder(api_key, version, decode) is decode
    assert ordinary_encoder(api_key, version, encode) is encode


@pytest.mark.parametrize(
    ("api_key", "request_"),
    [
        (
            ApiKey.PRODUCE,
            ProduceRequest("t", -1, 1000, [TopicProduceData(bytes(16), "", [PartitionProduceData(1, b"r")])]),
        ),
        (ApiKey.END_TXN, EndTxnRequest("t", 7, 3, True)),
    ],
)
def test_an_ordinary_request_does_not_reach_the_codec(api_key: ApiKey, request_: Any) -> None:
    version = max(schema_versions(api_key))
    frame = b"".join(request_encoder(api_key, version)(request_))
    reached = []

    def codec(frame: bytes, position: int) -> Any:
        reached.append(frame)
        return request_decoder(api_key, version)(frame, position)

    decode = ordinary_decoder(api_key, version, codec)
    reached.clear()  # an example, asked for when it is made
    assert read_by(decode, frame, 0) == read_by(request_decoder(api_key, version), frame, 0)
    assert not reached
