"""Errors that their message explains: Spark prints the traceback of every error, and the message after it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from klamm.config import ConfigError
from klamm.errors import KlammError

P = ParamSpec("P")
T = TypeVar("T")


def explained(method: Callable[P, T]) -> Callable[P, T]:
    """Let errors that name their cause out without the frames in which they came up."""

    @wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return method(*args, **kwargs)
        except (ConfigError, KlammError) as error:
            raise error.with_traceback(None) from None

    return call


def explained_rows(method: Callable[P, Iterator[Any]]) -> Callable[P, Iterator[Any]]:
    """The same for what yields rows."""

    @wraps(method)
    def rows(*args: P.args, **kwargs: P.kwargs) -> Iterator[Any]:
        try:
            yield from method(*args, **kwargs)
        except (ConfigError, KlammError) as error:
            raise error.with_traceback(None) from None

    return rows
