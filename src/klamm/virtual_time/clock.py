"""Virtual time: a clock that a program moves, shared by a broker and klamm's clients in the same process.

Everything that waits does so in the `select` of a thread (the broker's event loop, the network thread of a
client) or in a `VirtualEvent` (a call such as `poll`). Each declares how long it wants to wait. When all of
them wait and none of them has unread input, nothing happens before the earliest of these instants: the clock
goes there at once, wakes what is due, and so on. The operating system answers the question about unread input
for all threads together, because a selector is itself a file that can be polled.
"""

from __future__ import annotations

import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from klamm.clock import Clock
from klamm.durations import nanoseconds
from klamm.virtual_time.calls import Alarm, VirtualCondition, VirtualEvent, VirtualFuture, WaitingThread
from klamm.virtual_time.flows import CountingSocket, Flows
from klamm.virtual_time.threads import VirtualSelector, VirtualTimeLoop

if TYPE_CHECKING:
    import asyncio

_MS_NS: Final = 1_000_000
_S_NS: Final = 1_000_000_000
_START_NS: Final = 1_000 * _S_NS  # no component treats an instant near zero as "never"
_FOREVER_NS: Final = 100 * 365 * 86_400 * _S_NS
SETTLE_LIMIT_S: Final = 30.0  # of real time without any progress
# A thread that was woken by the clock is waited for this long: it may make the next request, or nothing.
CALLER_GRACE_S: Final = 0.05


class NotSettledError(RuntimeError):
    """Something in the process is busy without end, so that the clock could not move on."""


class VirtualClock:
    """A clock that runs like any other, and can also be moved forward, stopped, or run at another rate.

    A new clock shows the real time and runs at rate 1.
    """

    def __init__(self, start: datetime | None = None, *, rate: float = 1.0) -> None:
        if start is not None and start.tzinfo is None:
            start = start.replace(tzinfo=UTC)
        wall_ns = time.time_ns() if start is None else round(start.timestamp() * 1000) * _MS_NS
        self._wall_ahead_ns = wall_ns - _START_NS
        self.lock = threading.RLock()
        self._moved = threading.Condition(self.lock)
        # (virtual instant, patience, real instant, rate): replaced as a whole, so that reading needs no lock.
        self._base = (_START_NS, _START_NS, time.monotonic_ns(), _checked_rate(rate))
        self._target_ns: int | None = None  # `advance` is under way
        self._rate_after = 0.0
        self._mover = 0  # the thread that called `advance`
        self._owner = 0  # the thread that stopped the clock, while it is stopped
        self._owner_ahead_ns = 0
        self._note_owner(rate)
        self._driver: WaitingThread | None = None  # of that thread, while it waits
        self._threads: list[VirtualSelector] = []
        self._calls: dict[int, WaitingThread] = {}  # by thread
        self.alarms: dict[Alarm, None] = {}
        self._unread = select.poll() if hasattr(select, "poll") else None
        self.patience: Clock = _Patience(self)
        self.flows = Flows()

    # --- reading ---------------------------------------------------------------------------------------

    def now_ns(self) -> int:
        virtual_ns, _, real_ns, rate = self._base
        return virtual_ns + int((time.monotonic_ns() - real_ns) * rate) if rate else virtual_ns

    def now_ms(self) -> int:
        return self.now_ns() // _MS_NS

    def timestamp_ms(self) -> int:
        return (self.now_ns() + self._wall_ahead_ns) // _MS_NS

    def now(self) -> datetime:
        """The date and time that this clock shows, in UTC."""
        return datetime.fromtimestamp(self.timestamp_ms() / 1000, UTC)

    @property
    def waiting_calls(self) -> int:
        """How many threads wait for something on this clock."""
        return sum(not call.woken_s for call in list(self._calls.values()))

    def patience_ns(self) -> int:
        """An instant that follows this clock, and real time while this clock is slower.

        A thread that stopped the clock moves it by waiting: for that thread there is only virtual time.
        """
        virtual_ns, patience_ns, real_ns, rate = self._base
        if rate == 0 and self._owner == threading.get_ident():
            return virtual_ns + self._owner_ahead_ns
        return patience_ns + int((time.monotonic_ns() - real_ns) * max(rate, 1.0))

    @property
    def rate(self) -> float:
        """How fast it runs: 0 is stopped, 1 is real time, 60 is a minute per second."""
        return self._rate_after if self._target_ns is not None else self._base[3]

    @rate.setter
    def rate(self, rate: float) -> None:
        checked = _checked_rate(rate)
        with self.lock:
            self._note_owner(checked)
            if self._target_ns is not None:
                self._rate_after = checked
            else:
                self._rebase(self.now_ns(), checked)
                self._look_again()

    def _note_owner(self, rate: float) -> None:
        if rate != 0:
            self._owner = 0
        else:
            self._owner_ahead_ns = self.patience_ns() - self.now_ns()
            self._owner = threading.get_ident()

    # --- moving ----------------------------------------------------------------------------------------

    def freeze(self) -> None:
        """Stop the clock. Then it moves only with this thread: by `advance`, or when this thread waits.

        A call such as `consumer.poll(1.0)` on this thread then needs no real time: when nothing else can
        happen, the clock goes to the next instant at which something is due. Other threads wait.
        """
        self.rate = 0.0

    def freeze_for_all(self) -> None:
        """Stop the clock for this thread, too: it then moves by `advance` only."""
        with self.lock:
            self.rate = 0.0
            self._owner = 0

    def resume(self, rate: float = 1.0) -> None:
        """Run again, from the time that it shows."""
        self.rate = rate

    @contextmanager
    def frozen(self) -> Iterator[VirtualClock]:
        """Stop the clock for the length of a block, as `freeze` does."""
        before = self.rate
        self.freeze()
        try:
            yield self
        finally:
            self.rate = before

    @contextmanager
    def running(self) -> Iterator[None]:
        """Let the clock run for the length of a block, also if it is stopped; then it is as before."""
        with self.lock:
            before, owner = self.rate, self._owner
            self.rate = 1.0
        try:
            yield
        finally:
            with self.lock:
                self.rate = before
                self._owner = owner

    def advance(self, duration: str | timedelta) -> None:
        """Move forward. Everything that becomes due happens in order, each at its own time.

        Returns when the broker, and klamm's clients on this clock, have nothing left to do. Durations are
        `"2h"`, `"1h30m"`, `"250ms"` or a timedelta; `"0s"` only waits until everything is done.
        """
        length_ns = nanoseconds(duration)
        with self._moved:
            self._check_caller()
            while self._target_ns is not None:
                self._moved.wait()  # another thread moves it
            self._rate_after = self._base[3]
            self._mover = threading.get_ident()
            now_ns = self.now_ns()
            self._rebase(now_ns, 0.0)
            self._target_ns = target_ns = now_ns + length_ns
            try:
                self._step()
                self._wait_until_there(target_ns)
            finally:
                self._target_ns = None
                self._rebase(self.now_ns(), self._rate_after)
                self._moved.notify_all()
                self._look_again()

    def _check_caller(self) -> None:
        ident = threading.get_ident()
        if any(each.ident == ident for each in self._threads):
            raise RuntimeError("the clock cannot be moved from the broker's or a client's own thread")

    def _wait_until_there(self, target_ns: int) -> None:
        seen_ns, deadline_s = -1, 0.0
        while self._target_ns is not None:
            now_ns = self.now_ns()
            if now_ns != seen_ns:
                seen_ns, deadline_s = now_ns, time.monotonic() + SETTLE_LIMIT_S
            elif time.monotonic() > deadline_s:
                left_s = (target_ns - now_ns) / _S_NS
                raise NotSettledError(
                    f"the clock stopped {left_s:.3f} s before its target: {self._busy()} did not become idle "
                    f"within {SETTLE_LIMIT_S:.0f} s"
                )
            self._moved.wait(0.005)
            self._step()  # a caller that was waited for may not come back

    def _busy(self) -> str:
        names = [each.name for each in self._threads if not each.is_idle]
        return ", ".join(names) or "a thread that waits for a client, or the network,"

    def _step(self) -> None:
        """Move to the next instant at which something is due, if everything waits. The lock is held."""
        while (target_ns := self._target_ns) is not None and self._is_settled():
            dues = [each.due_ns for each in self._threads if each.due_ns is not None]
            dues += [each.due_ns for each in self._calls.values() if each.due_ns is not None]
            dues += [each.due_ns for each in self.alarms]
            next_ns = min(dues, default=target_ns + 1)
            if next_ns > target_ns:
                self._rebase(target_ns, 0.0)
                self._target_ns = None
                self._moved.notify_all()
                if self._driver is not None:
                    self._driver.condition.notify_all()
                return
            now_ns = max(next_ns, self.now_ns())
            self._rebase(now_ns, 0.0)
            self._wake_due(now_ns)

    def _wake_due(self, now_ns: int) -> None:
        for thread in self._threads:
            if thread.due_ns is not None and thread.due_ns <= now_ns:
                thread.wake()
        for call in self._calls.values():
            if call.due_ns is not None and call.due_ns <= now_ns:
                call.wake()
        for alarm in [each for each in self.alarms if each.due_ns <= now_ns]:
            del self.alarms[alarm]
            alarm.fire()

    def _is_settled(self) -> bool:
        if self._calls and any(self._is_awaited(each) for each in list(self._calls.values())):
            return False
        # A thread that woke up is marked busy before it reads: so ask for unread input first. What is sent
        # after that comes from a thread that is still busy, because becoming idle needs the lock.
        if self._unread is not None and self._unread.poll(0):
            return False
        return all(thread.is_idle for thread in self._threads) and self.flows.are_quiet()

    def _is_awaited(self, call: WaitingThread) -> bool:
        """Whether its thread was woken and may be about to do something."""
        if not call.woken_s or call.ident == self._mover:
            return False
        if time.monotonic() - call.woken_s < CALLER_GRACE_S:
            return True
        del self._calls[call.ident]
        return False

    def _drive(self, call: WaitingThread) -> None:
        """Let time pass until a call of the thread that stopped the clock returns. The lock is held."""
        self._target_ns = self.now_ns() + _FOREVER_NS if call.due_ns is None else call.due_ns
        self._rate_after, self._mover, self._driver = 0.0, call.ident, call
        try:
            self._step()
            while self._target_ns is not None:
                call.condition.wait(0.005)
                self._step()
        finally:
            self._target_ns = self._driver = None
            if self._rate_after:
                self._rebase(self.now_ns(), self._rate_after)
                self._look_again()
            self._moved.notify_all()

    def _rebase(self, virtual_ns: int, rate: float) -> None:
        before_ns, patience_ns, since_ns, old_rate = self._base
        real_ns = time.monotonic_ns()
        jump_ns = virtual_ns - before_ns - int((real_ns - since_ns) * old_rate)
        patience_ns += int((real_ns - since_ns) * max(old_rate, 1.0)) + max(0, jump_ns)
        self._base = (virtual_ns, patience_ns, real_ns, rate)

    def _look_again(self) -> None:
        """Whatever waits computes its real waiting time anew. The lock is held."""
        for thread in self._threads:
            thread.wake()
        for call in self._calls.values():
            call.condition.notify_all()

    # --- what waits ------------------------------------------------------------------------------------

    def new_selector(self) -> VirtualSelector:
        """A selector whose time-outs are on this clock."""
        return VirtualSelector(self)

    def new_socket(self, family: int, kind: int) -> socket.socket:
        """A socket whose bytes under way keep this clock from moving on."""
        return CountingSocket(self.flows, family, kind)

    def new_event(self) -> VirtualEvent:
        """As threading.Event, with time-outs on this clock."""
        return VirtualEvent(self)

    def new_future(self) -> VirtualFuture[Any]:
        """As concurrent.futures.Future, with time-outs on this clock."""
        return VirtualFuture(self)

    def new_condition(self, lock: threading.Lock | None = None) -> VirtualCondition:
        """As threading.Condition, with time-outs on this clock."""
        return VirtualCondition(self, lock or threading.Lock())

    def new_event_loop(self) -> asyncio.AbstractEventLoop:
        """An event loop whose time is this clock."""
        return VirtualTimeLoop(self)

    def new_alarm(
        self, loop: asyncio.AbstractEventLoop, due_at_ms: int, callback: Callable[[], object]
    ) -> Alarm:
        """Call back in an event loop at an instant; on real time, while the clock is slower."""
        alarm = Alarm(self, loop, due_at_ms * _MS_NS, callback)
        with self.lock:
            self.alarms[alarm] = None
        return alarm

    def real_s(self, left_ns: int) -> float | None:
        """How long to wait in real time; None while the clock stands still."""
        rate = self._base[3]
        return None if rate == 0 else max(0.0, left_ns / rate / _S_NS)

    def patience_left_s(self, give_up_ns: int | None) -> float | None:
        """How long a call still waits in real time; None is without limit."""
        if give_up_ns is None:
            return None
        return max(0.0, (give_up_ns - self.patience_ns()) / max(self._base[3], 1.0) / _S_NS)

    def call_waits(self, call: WaitingThread) -> None:
        """A thread waits for an event. The lock is held."""
        self._calls[call.ident] = call
        if self._base[3] == 0 and self._owner == call.ident and self._target_ns is None:
            self._drive(call)
        else:
            self._step()

    def has_ended(self, call: WaitingThread) -> None:
        """What a thread waits for has happened: time must not pass for it any more. The lock is held."""
        if self._driver is call:
            self._target_ns = None

    def call_returns(self, call: WaitingThread) -> None:
        """A thread goes on. If it was woken, its next move is awaited. The lock is held."""
        if not call.woken_s and self._calls.get(call.ident) is call:
            del self._calls[call.ident]

    def joined(self, thread: VirtualSelector) -> None:
        with self.lock:
            self._threads.append(thread)
            if self._unread is not None:
                self._unread.register(thread.fileno(), select.POLLIN)

    def left(self, thread: VirtualSelector) -> None:
        with self.lock:
            if thread in self._threads:
                self._threads.remove(thread)
                if self._unread is not None:
                    self._unread.unregister(thread.fileno())
            self._step()

    def waits(self, thread: VirtualSelector, due_ns: int | None) -> bool:
        """A thread has nothing to do until an instant; False when that has come."""
        with self.lock:
            thread.due_ns = due_ns
            thread.is_idle = True
            self._step()
            if thread.is_idle and due_ns is not None and due_ns <= self.now_ns():
                thread.is_idle = False
            return thread.is_idle


def _checked_rate(rate: float) -> float:
    if isinstance(rate, bool) or not isinstance(rate, (int, float)):
        raise TypeError(f"invalid rate {rate!r}: expected a number")
    if not 0 <= rate <= 1_000_000:
        raise ValueError(f"invalid rate {rate!r}: expected 0 (stopped) to 1000000")
    return float(rate)


class _Patience:
    """The clock for time-outs of calls: while virtual time stands still, they end on real time."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock

    def now_ms(self) -> int:
        return self._clock.patience_ns() // _MS_NS

    def timestamp_ms(self) -> int:
        return self._clock.timestamp_ms()
