"""What threads wait with on a virtual clock: a selector, and an event loop around it."""

from __future__ import annotations

import asyncio
import selectors
import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from klamm.virtual_time.flows import CountingSocket

if TYPE_CHECKING:
    from klamm.virtual_time.clock import VirtualClock

_S_NS: Final = 1_000_000_000


class VirtualSelector(selectors.BaseSelector):
    """A selector whose time-outs are durations on a virtual clock."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self._inner = selectors.DefaultSelector()
        self._wake_receiver, self._wake_sender = socket.socketpair()
        self._wake_receiver.setblocking(False)
        self._wake_sender.setblocking(False)
        self._inner.register(self._wake_receiver, selectors.EVENT_READ, self)
        self.ident = 0  # of the thread that selects
        self.name = "a thread that starts"
        self._has_joined = False
        self.is_idle = False
        self.due_ns: int | None = None

    def join(self) -> None:
        """Be waited for by the clock, from before the thread starts until this is closed."""
        if not self._has_joined:
            self._has_joined = True
            self._clock.joined(self)

    def fileno(self) -> int:
        return self._inner.fileno()

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._inner.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._inner.unregister(fileobj)

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._inner.modify(fileobj, events, data)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._inner.get_map()

    def get_key(self, fileobj: Any) -> selectors.SelectorKey:
        return self._inner.get_key(fileobj)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if not self.ident:
            self.join()
            self.ident, self.name = threading.get_ident(), threading.current_thread().name
        events = self._ready(0)
        if events or (timeout is not None and timeout <= 0):
            return events
        clock = self._clock
        due_ns = None if timeout is None else clock.now_ns() + round(timeout * _S_NS)
        while clock.waits(self, due_ns):
            left_s = None if due_ns is None else clock.real_s(due_ns - clock.now_ns())
            events = self._ready(left_s)
            if events:
                break
        return events

    def _ready(self, timeout_s: float | None) -> list[tuple[selectors.SelectorKey, int]]:
        found = self._inner.select(timeout_s)
        if found and self.is_idle:
            self.is_idle = False  # before anything is read: until then, the input is seen by all
        events = []
        for key, mask in found:
            if key.data is self:
                with suppress(BlockingIOError):
                    self._wake_receiver.recv(4096)
            else:
                events.append((key, mask))
        return events

    def wake(self) -> None:
        """Its time has come, or changed. The clock's lock is held."""
        self.is_idle = False
        self.due_ns = None
        if threading.get_ident() != self.ident:
            with suppress(BlockingIOError, OSError):  # full: it will wake up; closed: it has ended
                self._wake_sender.send(b"\0")

    def close(self) -> None:
        if self._has_joined:
            self._clock.left(self)
        self._inner.close()
        self._wake_receiver.close()
        self._wake_sender.close()


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop with real sockets, whose timers are on a virtual clock."""

    def __init__(self, clock: VirtualClock) -> None:
        self._virtual_clock = clock
        selector = clock.new_selector()
        selector.join()
        super().__init__(selector)
        self._clock_resolution = 0.000_01  # seconds as floats are not exact

    def _make_socket_transport(self, sock: socket.socket, *arguments: Any, **options: Any) -> Any:
        counting = CountingSocket(self._virtual_clock.flows, fileno=sock.detach())
        counting.setblocking(False)
        with suppress(OSError):  # the client is gone already
            counting.join()
        return super()._make_socket_transport(counting, *arguments, **options)  # type: ignore[misc]

    def time(self) -> float:
        return self._virtual_clock.now_ns() / _S_NS
