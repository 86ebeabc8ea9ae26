"""The two cores as values, to be compared."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any

import pytest

from klamm.protocol.errors import DecodeError
from klamm.records import _pure

NOT_BUILT = "the compiled core is not built: install a C compiler and Python's headers, then `make build`"


def pure_core() -> ModuleType:
    return _pure


def compiled_core() -> ModuleType:
    try:
        return import_module("klamm.records._core")
    except ImportError as error:
        pytest.fail(f"{NOT_BUILT} ({error})")


def outcome(call: Callable[[], Any]) -> Any:
    """What a call gives, or which of the two expected ways it refuses."""
    try:
        return call()
    except DecodeError:
        return DecodeError
    except ValueError:
        return ValueError
