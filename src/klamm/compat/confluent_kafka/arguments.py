"""Arguments are checked before they cross to the client's thread: a wrong one raises where it is given."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from operator import index
from typing import Any

INT_BITS = 32
LONG_BITS = 64


def whole(value: Any, what: str, bits: int = LONG_BITS) -> int:
    """A whole number of so many bits, with a sign."""
    try:
        number = index(value)
    except TypeError:
        raise TypeError(f"{what} is a whole number, not {type(value).__name__}") from None
    if not -(1 << (bits - 1)) <= number < 1 << (bits - 1):
        raise OverflowError(f"{what} {number} does not fit into {bits} bits")
    return number


def text(value: Any, what: str) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{what} must be str, not {type(value).__name__}")
    return value


def raw(value: Any, what: str) -> bytes | None:
    """A key or a value."""
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    raise TypeError(f"a {what} is bytes, text or None, not {type(value).__name__}")


def seconds(timeout: Any) -> float | None:
    """A time-out as klamm has it: None, not -1, means for ever."""
    if timeout is None:
        return None
    if not isinstance(timeout, int | float) or math.isnan(timeout):
        raise TypeError(f"timeout is a number of seconds, not {timeout!r}")
    return None if timeout < 0 else timeout


def header_pairs(headers: Any) -> list[tuple[str, Any]] | None:
    """Headers of a dict or a list of pairs; None if there are none."""
    if isinstance(headers, Mapping):
        headers = list(headers.items())
    if headers is not None and not isinstance(headers, list):
        raise TypeError(
            f"expected headers to be dict or list of (key, value) tuples, not {type(headers).__name__}"
        )
    for pair in headers or ():
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise TypeError("Headers are expected to be a list of (key, value) tuples")
        text(pair[0], "a header's key")
        raw(pair[1], "header's value")
    return headers or None


def callback(value: Any, what: str) -> Callable[..., Any] | None:
    if value is not None and not callable(value):
        raise TypeError(f"{what} expects a callable, not {type(value).__name__}")
    return value  # type: ignore[no-any-return]  # checked as far as it can be
