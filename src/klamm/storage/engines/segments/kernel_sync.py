"""fdatasync in the kernel: one call submits fifty files, and no thread of this process waits.

A thread that waits for the disk must acquire the interpreter's lock when it is done, while requests are
being handled: with many files that costs more than handling them. Linux accepts fdatasync as asynchronous I/O
(since 4.18) and counts completions in an eventfd, which an event loop can watch like a socket. Where this is
not available (another system, a sandbox that forbids it), threads flush the files.

The event loop does not flush a file itself, not even for a lone request. That saves two switches to a thread
of the kernel: 35 of 490 µs in the median of a Produce at 1,000 requests/s. But nothing limits how long it
takes, and no other client is answered meanwhile: where a flush in a thousand took 200 ms, so did heartbeats.
Submitting the file and then waiting for it, half a millisecond at most, saves nothing.

Where it was built, `_aio` makes the calls, else ctypes.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from struct import Struct
from typing import Any, Final, NamedTuple, cast

CAPACITY: Final = 256  # files that may be in flight at once


class _Calls(NamedTuple):
    """The numbers of Linux's system calls."""

    setup: int
    destroy: int
    submit: int
    get_events: int


_CALLS: Final = {"x86_64": _Calls(206, 207, 209, 208), "aarch64": _Calls(0, 1, 2, 4)}
_FDSYNC: Final = 3
_TELL_EVENTFD: Final = 1
# struct iocb: data, key, flags of the read or write, operation, priority, file, buffer, size, position,
# reserved, flags, eventfd
_CONTROL_BLOCK: Final = Struct("<QIIHhIQQqQII")
_BLOCK_NUMBERS: Final = _CONTROL_BLOCK.size // 8
_FILE_AT: Final = 5  # in numbers of four bytes
_EVENT: Final = Struct("<QQqq")  # struct io_event: data, control block, result, second result


class KernelSync:
    """Flushes in flight, and their results."""

    def __init__(self, libc: ctypes.CDLL, calls: _Calls, context: ctypes.c_ulong, eventfd: int) -> None:
        self._syscall = libc.syscall
        self._calls = calls
        self._context = context
        self._eventfd = eventfd
        self._blocks = ctypes.create_string_buffer(_CONTROL_BLOCK.size * CAPACITY)
        start = ctypes.addressof(self._blocks)
        self._pointers = (ctypes.c_void_p * CAPACITY)(
            *(start + _CONTROL_BLOCK.size * number for number in range(CAPACITY))
        )
        for position in range(0, len(self._blocks), _CONTROL_BLOCK.size):
            _CONTROL_BLOCK.pack_into(
                self._blocks, position, 0, 0, 0, _FDSYNC, 0, 0, 0, 0, 0, 0, _TELL_EVENTFD, eventfd
            )
        # Only the data (the first number of a block) and the file change.
        self._tags = memoryview(self._blocks).cast("B").cast("Q")
        self._files = memoryview(self._blocks).cast("B").cast("I")
        self._events = ctypes.create_string_buffer(_EVENT.size * CAPACITY)
        self._under_way = 0

    @classmethod
    def open(cls) -> KernelSync | None:
        """None where the system does not support it."""
        calls = _CALLS.get(os.uname().machine) if sys.platform == "linux" else None
        if calls is None:
            return None
        libc = ctypes.CDLL(None, use_errno=True)
        context = ctypes.c_ulong(0)
        if libc.syscall(calls.setup, CAPACITY, ctypes.byref(context)) != 0:
            return None
        eventfd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        if (compiled := _compiled()) is not None:
            return cast(KernelSync, compiled(context.value, eventfd))
        return cls(libc, calls, context, eventfd)

    def fileno(self) -> int:
        """Readable when a flush has completed."""
        return self._eventfd

    @property
    def room(self) -> int:
        """How many more files can be submitted now."""
        return CAPACITY - self._under_way

    def submit(self, handles: Sequence[int], tags: Sequence[int]) -> int:
        """Submit files, at most `room`; how many were accepted, from the first on."""
        count = len(handles)
        all_tags, files = self._tags, self._files
        position = 0
        for handle, tag in zip(handles, tags, strict=True):
            all_tags[position] = tag
            files[2 * position + _FILE_AT] = handle
            position += _BLOCK_NUMBERS
        # The kernel copies the blocks before the call returns.
        submitted = self._syscall(self._calls.submit, self._context, ctypes.c_long(count), self._pointers)
        taken = max(int(submitted), 0)
        self._under_way += taken
        return taken

    def arrived(self) -> list[tuple[int, int]]:
        """(tag, error number or 0) of each completed file."""
        try:
            os.eventfd_read(self._eventfd)
        except BlockingIOError:
            return []
        found = self._syscall(
            self._calls.get_events,
            self._context,
            ctypes.c_long(0),
            ctypes.c_long(CAPACITY),
            self._events,
            None,
        )
        if found <= 0:
            return []
        self._under_way -= found
        events = _EVENT.iter_unpack(memoryview(self._events)[: found * _EVENT.size])
        return [(tag, -result if result < 0 else 0) for tag, _, result, _ in events]

    def close(self) -> None:
        """Wait for flushes in flight, and free everything."""
        self._syscall(self._calls.destroy, self._context)
        os.close(self._eventfd)


def _compiled() -> Any:
    """The class that makes the same calls in a few steps; None if it was not built."""
    if os.environ.get("KLAMM_PURE") == "1":
        return None
    try:
        return import_module("klamm.storage.engines.segments._aio").CompiledKernelSync
    except ImportError:
        return None
