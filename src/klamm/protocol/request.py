"""The base of requests, which names the type of the response."""

from __future__ import annotations

from typing import Generic, TypeVar

Response = TypeVar("Response")


class Request(Generic[Response]):
    """Base of every request message; `Response` is the type of its response."""

    __slots__ = ()
