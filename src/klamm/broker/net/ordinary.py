"""Produce and EndTxn in the form that they nearly always have, read and written by compiled code.

A codec is interpreted, and so took a twentieth of a transaction's processor time. Here a message is read
step by step while it is ordinary: one of today's versions, short names, no unknown tags. Any other one, and
any that ends too early, is left to its codec, which also finds the words for what is wrong with it.
"""

from __future__ import annotations

import struct
from struct import Struct
from typing import Any, Final

from klamm.broker.net.produce_elements import read_batches, write_produced
from klamm.protocol.api import ApiKey
from klamm.protocol.codec import Decode, Encode
from klamm.protocol.errors import DecodeError
from klamm.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from klamm.protocol.messages.produce import (
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from klamm.protocol.schema import load_struct
from klamm.protocol.types import Buffer

_BY_ID: Final = 13  # the version of Produce that names topics by their ids
_LONGEST_SHORT: Final = 127  # lengths and counts below are a byte, which holds one more
_ID_BYTES: Final = 16
_ACKS: Final = Struct(">hi")
_ACKS_BYTES: Final = 6
_ENDED: Final = Struct(">qhB")
_ENDED_BYTES: Final = 11
_THROTTLE: Final = Struct(">iB")
_END: Final = Struct(">ihqhB")
_TOO_SHORT: Final = (DecodeError, IndexError, struct.error, UnicodeDecodeError)


def ordinary_decoder(api_key: ApiKey, version: int, decode: Decode) -> Decode:
    """A decoder with the same results, faster for an ordinary message; or the decoder itself."""
    quick: Any = None
    if api_key is ApiKey.PRODUCE and version >= _BY_ID:
        quick = ProduceDecoder(decode)
    elif api_key is ApiKey.END_TXN and load_struct(api_key, version, "request").is_flexible:
        quick = EndTxnDecoder(decode, decode(_an_end(), 0))
    return decode if quick is None else quick.decode


def ordinary_encoder(api_key: ApiKey, version: int, encode: Encode) -> Encode:
    """An encoder with the same results, faster for an ordinary response; or the encoder itself."""
    quick: Any = None
    if api_key is ApiKey.PRODUCE and version >= _BY_ID:
        quick = ProduceEncoder(encode)
    elif api_key is ApiKey.END_TXN and version >= 5:  # which has an identity
        quick = EndTxnEncoder()
    return encode if quick is None else quick.encode


def _an_end() -> bytes:
    """An empty transactional id, a producer id, an epoch, a bool, no tags."""
    return bytes((1,)) + bytes(_ENDED_BYTES + 1)


class ProduceDecoder:
    """Reads Produce with topic ids."""

    __slots__ = ("_decode",)

    def __init__(self, decode: Decode) -> None:
        self._decode = decode

    def decode(self, frame: bytes, position: int) -> Any:
        try:
            request = _read_produce(frame, position)
        except _TOO_SHORT:
            request = None
        return self._decode(frame, position) if request is None else request


def _read_produce(frame: bytes, position: int) -> ProduceRequest | None:
    end = len(frame)
    size = frame[position]
    position += 1
    transactional_id = None
    if size:
        stop = position + size - 1
        if size > _LONGEST_SHORT or stop > end:
            return None
        transactional_id = frame[position:stop].decode()
        position = stop
    if end - position <= _ACKS_BYTES:
        return None
    acks, timeout_ms = _ACKS.unpack_from(frame, position)
    count = frame[position + _ACKS_BYTES] - 1
    position += _ACKS_BYTES + 1
    if not 0 <= count < _LONGEST_SHORT:
        return None
    topics = []
    for _ in range(count):
        stop = position + _ID_BYTES
        if stop >= end:
            return None
        topic_id = frame[position:stop]
        partition_count = frame[stop] - 1
        if not 0 <= partition_count < _LONGEST_SHORT:
            return None
        partitions, position = read_batches(True, frame, stop + 1, partition_count)
        if frame[position]:
            return None
        position += 1
        topics.append(TopicProduceData(topic_id, "", partitions))
    if frame[position]:
        return None
    # The last four are what the version implies.
    return ProduceRequest(transactional_id, acks, timeout_ms, topics, True, True, True, True)


class ProduceEncoder:
    """Writes responses to Produce with topic ids."""

    __slots__ = ("_encode",)

    def __init__(self, encode: Encode) -> None:
        self._encode = encode

    def encode(self, response: ProduceResponse) -> list[Buffer]:
        topics = response.responses
        if response.node_endpoints or len(topics) >= _LONGEST_SHORT:
            return self._encode(response)
        parts: list[Buffer] = [bytes((len(topics) + 1,))]
        for topic in topics:
            lines = topic.partition_responses
            if len(lines) >= _LONGEST_SHORT or not _are_plain(lines):
                return self._encode(response)
            parts.append(topic.topic_id)
            parts.append(bytes((len(lines) + 1,)))
            parts.append(write_produced(self._encode, lines))
            parts.append(b"\x00")
        parts.append(_THROTTLE.pack(response.throttle_time_ms, 0))
        return [b"".join(parts)]


def _are_plain(lines: Any) -> bool:
    for each in lines:
        if each.record_errors or each.error_message is not None or each.current_leader is not None:
            return False
    return True


class EndTxnDecoder:
    """Reads EndTxn."""

    __slots__ = ("_bumps_epoch", "_decode", "_knows_producer_fenced")

    def __init__(self, decode: Decode, example: EndTxnRequest) -> None:
        """The example has what the version implies."""
        self._decode = decode
        self._bumps_epoch = example.bumps_epoch
        self._knows_producer_fenced = example.knows_producer_fenced

    def decode(self, frame: bytes, position: int) -> Any:
        end = len(frame)
        if position < end:
            size = frame[position]
            start = position + 1
            stop = start + size - 1
            if 0 < size <= _LONGEST_SHORT and end - stop > _ENDED_BYTES and not frame[stop + _ENDED_BYTES]:
                raw = frame[start:stop]
                if raw.isascii():
                    producer_id, epoch, committed = _ENDED.unpack_from(frame, stop)
                    return EndTxnRequest(
                        raw.decode(),
                        producer_id,
                        epoch,
                        committed != 0,
                        self._knows_producer_fenced,
                        self._bumps_epoch,
                    )
        return self._decode(frame, position)


class EndTxnEncoder:
    """Writes responses to EndTxn that have an identity."""

    __slots__ = ()

    def encode(self, response: EndTxnResponse) -> list[Buffer]:
        return [
            _END.pack(
                response.throttle_time_ms,
                response.error_code,
                response.producer_id,
                response.producer_epoch,
                0,
            )
        ]
