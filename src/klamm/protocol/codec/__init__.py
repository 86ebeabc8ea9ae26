"""Codecs compiled from kio's schema metadata, each on first use: start-up pays for nothing that nobody asks.

A codec is straight-line Python for one version of one message: fixed-size runs share one struct call,
nested structures are loops in place. Every count and length is checked against the bytes that are left
before anything is made of it; unknown tagged fields are skipped by their size.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable
from functools import cache
from typing import Any

from klamm.protocol.codec.decoding import compile_decoder
from klamm.protocol.codec.encoding import compile_encoder
from klamm.protocol.schema import Direction, Struct, api_name, load_struct
from klamm.protocol.types import Buffer

__all__ = ["Decode", "Encode", "request_decoder", "request_encoder", "response_decoder", "response_encoder"]

Decode = Callable[[bytes, int], Any]
Encode = Callable[[Any], list[Buffer]]


@cache
def request_decoder(api_key: int, version: int) -> Decode:
    """`decode(frame, position) -> request`; raises DecodeError."""
    struct, classes = _schema(api_key, version, "request")
    return compile_decoder(struct, classes, version)


@cache
def response_decoder(api_key: int, version: int) -> Decode:
    """`decode(frame, position) -> response`; raises DecodeError."""
    struct, classes = _schema(api_key, version, "response")
    return compile_decoder(struct, classes, version)


@cache
def request_encoder(api_key: int, version: int) -> Encode:
    """`encode(request) -> parts`, to be sent one after the other."""
    struct, _ = _schema(api_key, version, "request")
    return compile_encoder(struct)


@cache
def response_encoder(api_key: int, version: int) -> Encode:
    """`encode(response) -> parts`, to be sent one after the other."""
    struct, _ = _schema(api_key, version, "response")
    return compile_encoder(struct)


def _schema(api_key: int, version: int, direction: Direction) -> tuple[Struct, dict[str, type]]:
    module = importlib.import_module(f"klamm.protocol.messages.{api_name(api_key)}")
    classes = {name: item for name, item in vars(module).items() if dataclasses.is_dataclass(item)}
    return load_struct(api_key, version, direction), classes  # type: ignore[return-value]  # all are types
