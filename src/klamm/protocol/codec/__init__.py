"""Codecs compiled from kio's schema metadata, each on first use, so that start-up stays fast.

A codec is straight-line Python for one version of one message: fixed-size runs share one struct call,
nested structures are loops in place. Every count and length is checked against the bytes that are left
before anything is allocated; unknown tagged fields are skipped by their size.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable
from functools import cache
from typing import Any

from klamm.protocol.codec.alike import decoder_of_alike, encoder_of_alike
from klamm.protocol.codec.decoding import (
    REQUEST_MEMORY_BYTES,
    RESPONSE_MEMORY_BYTES,
    ReaderOf,
    compile_decoder,
)
from klamm.protocol.codec.encoding import WriterOf, compile_encoder
from klamm.protocol.schema import Direction, Struct, api_name, load_struct
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
    struct, classes = _schema(api_key, version, "request")
    decode = compile_decoder(struct, classes, version, reader_of, REQUEST_MEMORY_BYTES)
    return decoder_of_alike(struct, classes[struct.name], decode)


@cache
def response_decoder(api_key: int, version: int) -> Decode:
    """`decode(frame, position) -> response`; raises DecodeError."""
    struct, classes = _schema(api_key, version, "response")
    return compile_decoder(struct, classes, version, _from_schema, RESPONSE_MEMORY_BYTES)


@cache
def request_encoder(api_key: int, version: int) -> Encode:
    """`encode(request) -> parts`, to be sent one after the other."""
    struct, _ = _schema(api_key, version, "request")
    return compile_encoder(struct, _from_schema)


@cache
def response_encoder(api_key: int, version: int, writer_of: WriterOf = _from_schema) -> Encode:
    """`encode(response) -> parts`, to be sent one after the other.

    `writer_of` may return a function that encodes all elements of an array of structures at once.
    """
    struct, _ = _schema(api_key, version, "response")
    return encoder_of_alike(struct, compile_encoder(struct, writer_of))


def _schema(api_key: int, version: int, direction: Direction) -> tuple[Struct, dict[str, type]]:
    module = importlib.import_module(f"klamm.protocol.messages.{api_name(api_key)}")
    classes = {name: item for name, item in vars(module).items() if dataclasses.is_dataclass(item)}
    return load_struct(api_key, version, direction), classes  # type: ignore[return-value]  # all are types
