"""What Spark's Python processes do once."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace

import pytest

from klamm.spark.setup.freezing import keep_freed_memory


def test_freed_memory_is_kept_where_malloc_can(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []
    library = SimpleNamespace(mallopt=lambda *given: asked.append(given))
    monkeypatch.setattr(ctypes, "CDLL", lambda _name: library)
    keep_freed_memory()
    assert asked == [(-3, 32 << 20), (-1, 256 << 20)]


def test_another_malloc_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    library = SimpleNamespace()
    monkeypatch.setattr(ctypes, "CDLL", lambda _name: library)
    keep_freed_memory()
    assert vars(library) == {}
