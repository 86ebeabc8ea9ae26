"""Codecs compiled from the schemas of messages, each on first use, so that start-up stays fast.

A codec is straight-line Python for one version of one message: fixed-size runs share one struct call,
nested structures are loops in place. Every count and length is checked against the bytes that are left
before anything is allocated; unknown tagged fields are skipped by their size.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from klamm.protocol.codec.decoding import (
    REQUEST_MEMORY_BYTES,
    RESPONSE_MEMORY_BYTES,
    ReaderOf,
    compile_decoder,
)
from klamm.protocol.codec.encoding import WriterOf, compile_encoder
from klamm.protocol.schema import Struct, load_struct
from klamm.protocol.types import Buffer

__all__ = [
    "Decode",
    "Encode",
    "ReaderOf",
    "WriterOf",
    "request_decoder",
    "request_encoder",
    "response_decoder",
    "response_encoder",
]

Decode = Callable[[bytes, int], Any]
Encode = Callable[[Any], list[Buffer]]


def _from_schema(struct: Struct) -> None:
    """The default: the compiled codec itself decodes and encodes such elements."""


@cache
def request_decoder(api_key: int, version: int, reader_of: ReaderOf = _from_schema) -> Decode:
    """`decode(frame, position) -> request`; raises DecodeError.

    `reader_of` may return a function that decodes all elements of an array of structures at once.
    """
    return compile_decoder(load_struct(api_key, version, "request"), reader_of, REQUEST_MEMORY_BYTES)


@cache
def response_decoder(api_key: int, version: int) -> Callable[[Buffer, int], Any]:
    """`decode(frame, position) -> response`; raises DecodeError."""
    return compile_decoder(load_struct(api_key, version, "response"), _from_schema, RESPONSE_MEMORY_BYTES)


@cache
def request_encoder(api_key: int, version: int) -> Encode:
    """`encode(request) -> parts`, to be sent one after the other."""
    return compile_encoder(load_struct(api_key, version, "request"), _from_schema)


@cache
def response_encoder(api_key: int, version: int, writer_of: WriterOf = _from_schema) -> Encode:
    """`encode(response) -> parts`, to be sent one after the other.

    `writer_of` may return a function that encodes all elements of an array of structures at once.
    """
    return compile_encoder(load_struct(api_key, version, "response"), writer_of)
