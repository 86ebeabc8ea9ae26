"""The one thread of a client that owns its sockets."""

from __future__ import annotations

import contextlib
import errno
import os
import selectors
import socket
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from itertools import islice
from typing import Any, Final, TypeVar
from weakref import WeakSet

from klamm.clock import Clock, future_on, selector_on, socket_on
from klamm.errors import IllegalStateError
from klamm.net.network import Address, LinkEvents
from klamm.protocol.types import Buffer

T = TypeVar("T")

CHUNK_BYTES: Final = 256 * 1024  # about what a kernel has ready at once
MAX_PARTS: Final = 512  # of one sendmsg; the kernel's limit is 1024
MAX_UNREACHABLE: Final = 64  # addresses of one name that are kept as failed


class InheritedError(IllegalStateError):
    """A client in a process that was forked off the one that made it: its thread is there."""

    def __init__(self) -> None:
        super().__init__("this client was made before fork(); make a new one in the child process")


class _Forks:
    """How often this process was forked off another: its id would be a system call for every record."""

    __slots__ = ("count", "reactors")

    def __init__(self) -> None:
        self.count = 0
        self.reactors: WeakSet[Reactor] = WeakSet()

    def happened(self) -> None:
        """In the child: the threads of all clients are in the parent."""
        self.count += 1
        for reactor in self.reactors:
            reactor.failure = InheritedError()
            reactor.on_fork()


forks: Final = _Forks()
if hasattr(os, "register_at_fork"):  # not where there is no fork
    os.register_at_fork(after_in_child=forks.happened)


class Reactor:
    """Runs submitted work, ticks its components, waits for sockets; all in one thread.

    `on_time` receives the current time first; `on_tick` is called after every round of
    events and returns the latest instant of its next call. Everything that the
    components own is touched from this thread only.
    """

    def __init__(self, clock: Clock, name: str) -> None:
        self._clock = clock
        self._selector = selector_on(clock)
        self._work: deque[Callable[[], None]] = deque()
        self._wake_receiver, self._wake_sender = socket.socketpair()
        self._wake_receiver.setblocking(False)
        self._wake_sender.setblocking(False)
        self._selector.register(self._wake_receiver, selectors.EVENT_READ, None)
        self._is_stopping = False
        self.is_over = False
        self._woken = False
        forks.reactors.add(self)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self.on_time: Callable[[int], None] = lambda _now_ms: None
        self.on_tick: Callable[[int], int | None] = lambda _now_ms: None
        self.failure: BaseException | None = None  # what ended the thread, if it was not `stop`
        self.on_failure: Callable[[], None] = lambda: None
        self.on_end: Callable[[], None] = lambda: None  # wakes those who wait for this thread
        self.on_fork: Callable[[], None] = lambda: None  # in a child process
        self._awaited: set[Future[Any]] = set()  # results that the thread owes
        # Failed addresses by host name: the next attempt begins with others.
        self.unreachable: dict[Address, list[Address]] = {}

    def start(self) -> None:
        join = getattr(self._selector, "join", None)
        if join is not None:
            join()  # a virtual clock does not move on before this thread had its first turn
        self._thread.start()

    @property
    def is_inherited(self) -> bool:
        """Whether this is a forked child, and the client is its parent's."""
        return isinstance(self.failure, InheritedError)

    def check_fork(self) -> None:
        """A forked child has the object but not the thread."""
        if self.is_inherited:
            raise InheritedError

    def submit(self, work: Callable[[], None]) -> None:
        """Run something on the thread soon; from any thread."""
        self._work.append(work)
        if not self._woken:
            self._woken = True
            with contextlib.suppress(BlockingIOError, OSError):  # full or closed: it is awake or stopped
                self._wake_sender.send(b"\0")

    def ended(self) -> IllegalStateError:
        """What calls raise when the thread has ended: with the failure that ended it, if it was one."""
        if self.failure is None:
            return IllegalStateError("the client is closed")
        error = IllegalStateError(f"the client's thread has stopped: {self.failure!r}")
        error.__cause__ = self.failure
        return error

    def owes(self, future: Future[Any]) -> None:
        """Fail this future when the thread ends before it is settled."""
        self._awaited.add(future)
        future.add_done_callback(self._awaited.discard)
        if self.is_over:
            self._settle_awaited()

    def _settle_awaited(self) -> None:
        for future in list(self._awaited):
            error = self.ended()
            with contextlib.suppress(InvalidStateError):  # settled or cancelled meanwhile
                future.set_exception(error)

    def ask(self, work: Callable[[], T]) -> Future[T]:
        """As `submit`, with the result as a future."""
        future: Future[T] = future_on(self._clock)

        def run() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(work())
            except BaseException as error:  # passed to waiting threads
                future.set_exception(error)

        if self.failure is not None or self._is_stopping:
            future.set_exception(self.ended())
        else:
            self.submit(run)
            self.owes(future)
        return future

    def is_own_thread(self) -> bool:
        """Whether the caller is the reactor's thread: inside a callback, waiting for it would be for ever."""
        return threading.current_thread() is self._thread

    def stop(self) -> None:
        """End the thread; sockets are closed."""
        self._is_stopping = True
        self.submit(lambda: None)
        if self._thread.is_alive() and not self.is_own_thread():
            self._thread.join()

    def aside(self, work: Callable[[], Any], done: Callable[[Any, Exception | None], None]) -> None:
        """Run what may block on a thread of its own; `done` gets its result or exception on this one."""

        def run() -> None:
            result, failure = None, None
            try:
                result = work()
            except BaseException as error:  # passed on, SystemExit too: the thread of the client decides
                failure = error if isinstance(error, Exception) else RuntimeError(f"it raised {error!r}")
            self.submit(lambda: done(result, failure))

        threading.Thread(target=run, name="klamm-aside", daemon=True).start()

    def new_socket(self, family: int) -> socket.socket:
        return socket_on(self._clock, family, socket.SOCK_STREAM)

    def connect(self, address: Address, events: LinkEvents) -> _SocketLink:
        return _SocketLink(self, address, events)

    def _run(self) -> None:
        try:
            while not self._is_stopping:
                self._round()
            self._drain_work()
        except BaseException as error:
            self.failure = error
            self.on_failure()
            raise
        finally:
            self.is_over = True
            self._settle_awaited()
            self.on_end()
            for key in list(self._selector.get_map().values()):
                if isinstance(key.data, _SocketLink):
                    key.data.close()
            self._selector.close()
            self._wake_receiver.close()
            self._wake_sender.close()

    def _round(self) -> None:
        now_ms = self._clock.now_ms()
        self.on_time(now_ms)
        self._drain_work()
        due_ms = self.on_tick(now_ms)
        wait_s = None if due_ms is None else max(0, due_ms - self._clock.now_ms()) / 1000
        if self._work:
            wait_s = 0
        ready = self._selector.select(wait_s)
        self.on_time(self._clock.now_ms())
        for key, mask in ready:
            if key.data is None:
                with contextlib.suppress(BlockingIOError):
                    self._wake_receiver.recv(4096)
                # After the bytes are taken: the other way round, a call from another thread in between
                # would leave the flag set without a byte in the pipe, and no wake-up would work any more.
                self._woken = False
            else:
                key.data.handle(mask)

    def _drain_work(self) -> None:
        while self._work:
            self._work.popleft()()


class _SocketLink:
    """One non-blocking TCP connection."""

    def __init__(self, reactor: Reactor, address: Address, events: LinkEvents) -> None:
        self._reactor = reactor
        self._events = events
        self._outgoing: deque[memoryview] = deque()
        self._socket: socket.socket | None = None
        self._is_connected = False
        self._is_closed = False
        self._name = address
        self._places: deque[Address] = deque()  # what is left to try
        self._place: Address | None = None
        self._causes: list[str] = []
        if _is_numeric(address[0]):
            self._connect([address])
        else:
            # A slow name server must not delay heartbeats.
            threading.Thread(target=self._resolve, args=(address,), daemon=True).start()

    def _resolve(self, address: Address) -> None:
        try:
            found = socket.getaddrinfo(*address, type=socket.SOCK_STREAM)
            # IPv4 first: a broker on localhost often listens there alone.
            found.sort(key=lambda item: item[0] != socket.AF_INET)
            places = list(dict.fromkeys((str(item[4][0]), int(item[4][1])) for item in found))
            self._reactor.submit(lambda: self._connect(places))
        except (OSError, UnicodeError, OverflowError) as error:  # a name or a port that cannot be one, too
            reason = getattr(error, "strerror", None) or error
            cause = OSError(getattr(error, "errno", None), f"cannot resolve {address[0]}: {reason}")
            self._reactor.submit(lambda: self._lose(cause))

    def _connect(self, places: Sequence[Address]) -> None:
        """Try the addresses in order, those that did not answer last time at the end."""
        tried = self._reactor.unreachable.get(self._name, [])
        self._places.extend(sorted(places, key=lambda place: tried.index(place) if place in tried else -1))
        self._connect_next()

    def _connect_next(self) -> None:
        if self._is_closed:
            return
        self._place = place = self._places.popleft()
        family = socket.AF_INET6 if ":" in place[0] else socket.AF_INET
        try:
            self._socket = opened = self._reactor.new_socket(family)
            opened.setblocking(False)
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            result = opened.connect_ex(place)
            if result not in (0, errno.EINPROGRESS):
                raise OSError(result, os.strerror(result))
        except (OSError, OverflowError) as error:  # also: no such family or port, no more files
            cause = error if isinstance(error, OSError) else OSError(errno.EINVAL, str(error))
            self._reactor.submit(lambda: self._not_connected(cause))
            return
        self._reactor._selector.register(opened, selectors.EVENT_WRITE, self)

    def _not_connected(self, error: OSError) -> None:
        """One address failed: try the next, or report all of them."""
        if self._is_closed:
            return
        if self._place is not None and self._place[0] != self._name[0]:
            self._causes.append(f"{self._place[0]}: {error.strerror or error}")
        self._note_unreachable()
        if not self._places:
            several = OSError(error.errno, ", ".join(self._causes)) if len(self._causes) > 1 else error
            self._lose(several)
            return
        self._drop_socket()
        self._connect_next()

    def _note_unreachable(self) -> None:
        place, self._place = self._place, None
        if place is not None and place[0] != self._name[0]:
            tried = self._reactor.unreachable.setdefault(self._name, [])
            if place in tried:
                tried.remove(place)
            tried.append(place)
            del tried[:-MAX_UNREACHABLE]

    def handle(self, mask: int) -> None:
        if self._socket is None:
            return
        if not self._is_connected:
            self._finish_connect(self._socket)
            return
        if mask & selectors.EVENT_WRITE:
            self._write()
        if mask & selectors.EVENT_READ and self._socket is not None:
            self._read(self._socket)

    def _finish_connect(self, opened: socket.socket) -> None:
        result = opened.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if result:
            self._not_connected(OSError(result, os.strerror(result)))
            return
        self._is_connected = True
        self._reactor.unreachable.pop(self._name, None)
        self._reactor._selector.modify(opened, selectors.EVENT_READ, self)
        self._events.connected()

    def _read(self, opened: socket.socket) -> None:
        room = self._events.room()
        data, count = b"", 0
        try:
            if room is None:
                data = opened.recv(CHUNK_BYTES)
            else:
                count = opened.recv_into(room)
        except BlockingIOError:
            return
        except OSError as error:
            self._lose(error)
            return
        if data:
            self._events.received(data)
        elif count:
            self._events.filled(count)
        else:
            self._lose(None)

    def send(self, parts: Sequence[Buffer]) -> None:
        was_idle = not self._outgoing
        self._outgoing.extend(memoryview(part).cast("B") for part in parts if len(part))
        if was_idle and self._is_connected:
            self._write()

    def _write(self) -> None:
        opened = self._socket
        if opened is None:
            return
        try:
            while self._outgoing:
                sent = opened.sendmsg(list(islice(self._outgoing, MAX_PARTS)))
                while sent:
                    first = self._outgoing[0]
                    if sent < len(first):
                        self._outgoing[0] = first[sent:]
                        break
                    sent -= len(self._outgoing.popleft())
        except BlockingIOError:
            self._reactor._selector.modify(opened, selectors.EVENT_READ | selectors.EVENT_WRITE, self)
            return
        except OSError as error:
            # Not from inside the caller's `send`: events come from the loop.
            cause = error
            self._reactor.submit(lambda: self._lose(cause))
            return
        self._reactor._selector.modify(opened, selectors.EVENT_READ, self)

    def _lose(self, error: OSError | None) -> None:
        if not self._is_closed:
            self.close()
            self._events.lost(error)

    def close(self) -> None:
        self._is_closed = True
        self._outgoing.clear()
        if not self._is_connected:
            self._note_unreachable()  # closed during the attempt: it timed out
        self._drop_socket()

    def _drop_socket(self) -> None:
        opened, self._socket = self._socket, None
        if opened is not None:
            with contextlib.suppress(KeyError, ValueError):  # not registered yet, or the selector is closed
                self._reactor._selector.unregister(opened)
            opened.close()


def _is_numeric(host: str) -> bool:
    for family in (socket.AF_INET, socket.AF_INET6):
        with contextlib.suppress(OSError):
            socket.inet_pton(family, host)
            return True
    return False
