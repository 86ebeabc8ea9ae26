"""Which core is in use: the compiled one where it is built, unless the twin is asked for."""

from __future__ import annotations

import sys
from importlib.util import find_spec, module_from_spec
from types import ModuleType

import pytest

from klamm.records import _pure
from unit.records.cores import compiled_core

SHARED = [name for name in _pure.__all__ if name != "crc32c"]


def chosen() -> ModuleType:
    """`klamm.records.core` as a process would import it now."""
    spec = find_spec("klamm.records.core")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_compiled_core_is_used_where_it_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KLAMM_PURE", raising=False)
    compiled = compiled_core()
    core = chosen()
    assert core.COMPILED
    assert [getattr(core, name) for name in _pure.__all__] == [
        getattr(compiled, name) for name in _pure.__all__
    ]


def test_the_twin_can_be_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KLAMM_PURE", "1")
    core = chosen()
    assert not core.COMPILED
    assert [getattr(core, name) for name in SHARED] == [getattr(_pure, name) for name in SHARED]


def test_the_twin_is_used_where_nothing_was_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KLAMM_PURE", raising=False)
    monkeypatch.setitem(sys.modules, "klamm.records._core", None)
    monkeypatch.delattr("klamm.records._core", raising=False)
    core = chosen()
    assert not core.COMPILED
    assert core.crc32c(b"123456789") == 0xE3069283


def test_every_function_of_the_cores_is_handed_on() -> None:
    assert set(_pure.__all__) == set(chosen().__all__) - {"COMPILED"}
