"""fdatasync by the kernel: what was handed over arrives, each with its own outcome."""

from __future__ import annotations

import errno
import os
import select
from collections.abc import Iterator
from pathlib import Path

import pytest

from klamm.records.core import COMPILED
from klamm.storage.engines.segments.kernel_sync import CAPACITY, KernelSync


@pytest.fixture(params=["as built", "with ctypes"])
def opened(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> KernelSync:
    if request.param == "with ctypes":
        monkeypatch.setenv("KLAMM_PURE", "1")
    kernel = KernelSync.open()
    assert kernel is not None, "this system does not offer it"
    is_pure = os.environ.get("KLAMM_PURE") == "1"
    assert isinstance(kernel, KernelSync) == (is_pure or not COMPILED)
    return kernel


@pytest.fixture
def kernel(opened: KernelSync) -> Iterator[KernelSync]:
    yield opened
    opened.close()


@pytest.fixture
def handles(tmp_path: Path) -> Iterator[list[int]]:
    handles = [os.open(tmp_path / str(number), os.O_RDWR | os.O_CREAT) for number in range(10)]
    yield handles
    for handle in handles:
        os.close(handle)


def all_arrived(kernel: KernelSync, count: int) -> dict[int, int]:
    arrived: dict[int, int] = {}
    while len(arrived) < count:
        ready, _, _ = select.select([kernel], [], [], 10)
        assert ready, "nothing came within ten seconds"
        arrived.update(kernel.arrived())
    return arrived


def test_every_file_arrives_once_under_its_tag(kernel: KernelSync, handles: list[int]) -> None:
    for handle in handles:
        os.write(handle, b"something to flush")
    assert kernel.submit(handles, range(100, 110)) == 10
    assert kernel.room == CAPACITY - 10
    assert all_arrived(kernel, 10) == dict.fromkeys(range(100, 110), 0)
    assert kernel.room == CAPACITY
    assert kernel.arrived() == []


def test_a_file_that_cannot_be_flushed_says_so_and_the_others_arrive(
    kernel: KernelSync, handles: list[int]
) -> None:
    reading, writing = os.pipe()
    try:
        taken = kernel.submit([handles[0], writing, handles[1]], [1, 2, 3])
        arrived = all_arrived(kernel, taken)
    finally:
        os.close(reading)
        os.close(writing)
    # A pipe cannot be flushed: the kernel stops there, or takes it and reports it.
    assert arrived in ({1: 0}, {1: 0, 2: errno.EINVAL, 3: 0})


def test_a_closed_handle_is_not_taken(kernel: KernelSync, handles: list[int]) -> None:
    closed = os.dup(handles[0])
    os.close(closed)
    assert kernel.submit([closed], [1]) == 0
    assert kernel.room == CAPACITY


def test_closing_waits_for_what_is_under_way(opened: KernelSync, tmp_path: Path) -> None:
    with (tmp_path / "file").open("wb") as file:
        file.write(bytes(1 << 16))
        file.flush()
        assert opened.submit([file.fileno()], [1]) == 1
        opened.close()
