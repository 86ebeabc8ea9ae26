"""A request knows the type of its response: whoever sends or answers one needs no annotation of its own."""

from __future__ import annotations

from typing import Generic, TypeVar

Response = TypeVar("Response")


class Request(Generic[Response]):
    """Base of every request message; `Response` is the message that answers it."""

    __slots__ = ()
