"""Callables that callers pass: which arguments they take, checked before they are needed."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from types import FunctionType
from typing import Any


def takes(function: Callable[..., Any], count: int) -> bool:
    """Whether a function can be called with `count` positional arguments; True if that cannot be known."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # built in, or written in C
        return True
    try:
        signature.bind(*[None] * count)
    except TypeError:
        return False
    return True


def required_count(function: Callable[..., Any]) -> int | None:
    """How many positional arguments a function needs at least; None if that cannot be known."""
    if type(function) is FunctionType:  # most are, and asking its code is a hundred times faster
        return function.__code__.co_argcount - len(function.__defaults__ or ())
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(item.kind in kinds and item.default is inspect.Parameter.empty for item in parameters)


def name_of(function: Any) -> str:
    """The name of a callback, for messages: `module.function`, or the class of an object."""
    while isinstance(function, partial):
        function = function.func
    function = inspect.unwrap(function)
    named = function if hasattr(function, "__qualname__") else type(function)
    return f"{named.__module__}.{named.__qualname__}"


def is_async(function: Any) -> bool:
    """Whether calling it only makes a coroutine, which nobody would await."""
    if type(function) is FunctionType:
        return bool(function.__code__.co_flags & inspect.CO_COROUTINE)
    return inspect.iscoroutinefunction(function)
