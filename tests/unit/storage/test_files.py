"""Directories that change while somebody looks at them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from klamm.clock import ManualClock
from klamm.storage.engines.memory import MemoryFiles
from klamm.storage.engines.segments.files import OsFiles


def test_a_file_that_another_thread_removes_meanwhile_is_not_in_the_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("1.log", "2.log.deleted", "3.log"):
        (tmp_path / name).write_bytes(b"x")
    scandir = os.scandir

    @contextmanager
    def slow(path: str) -> Iterator[list[os.DirEntry[str]]]:
        with scandir(path) as entries:
            listed = list(entries)
        (tmp_path / "2.log.deleted").unlink()
        yield listed

    monkeypatch.setattr(os, "scandir", slow)
    entries = OsFiles().scan(str(tmp_path))
    assert sorted(entry.name for entry in entries) == ["1.log", "3.log"]


def test_a_file_that_another_thread_adds_meanwhile_does_no_harm() -> None:
    files = MemoryFiles(ManualClock())
    files.make_directory("/t-0")

    class Name(str):
        """Looked at by a scan, it lets another thread go first."""

        __slots__ = ()

        def startswith(self, *prefix: object) -> bool:
            files.write_file("/t-0/2.log", b"", sync=False)
            return True

    files.write_file(Name("/t-0/1.log"), b"", sync=False)
    assert [entry.name for entry in files.scan("/t-0")] == ["1.log"]
