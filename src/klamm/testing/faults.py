"""Faults that a test orders: `broker.faults.fail("OffsetCommit", group="billing", error=..., times=2)`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from difflib import get_close_matches
from enum import Enum
from errno import EIO, ENOSPC
from typing import TYPE_CHECKING, Any, Final, Literal, TypedDict, Unpack, get_type_hints

from klamm.clock import Clock
from klamm.coordinator.runtime.events import Event
from klamm.durations import nanoseconds
from klamm.protocol.errors import ErrorCode
from klamm.storage.engines.simulated_disk import SimulatedFiles
from klamm.testing.disk_faults import DiskFault, DiskFaultInjected
from klamm.testing.ordered_fault import OrderedFault
from klamm.testing.selection import Selection, api_name, api_named, subject

if TYPE_CHECKING:
    from klamm.broker.net.context import RequestContext
    from klamm.broker.net.dispatch import Endpoint
    from klamm.broker.services import Services


class FaultKind(Enum):
    """What happens to a request."""

    FAIL = "answered with"
    DELAY = "delayed by"
    DROP_BEFORE = "connection dropped before the work"
    DROP_AFTER = "connection dropped after the work"
    LOSE = "response not sent"
    CUT = "response cut short"
    HANG = "not read any further"


class Occurrence(TypedDict, total=False):
    """How often."""

    times: int  # then the fault is over; without it, until it is lifted
    probability: float
    seed: int  # of the probability


class OnDisk(Occurrence, total=False):
    """Whose files, and how often."""

    topic: str  # also an internal one, as __consumer_offsets
    partition: int


class Selectors(OnDisk, total=False):
    """Which requests, and how often."""

    version: int  # of the API
    client_id: str
    group: str
    transactional_id: str


@dataclass(frozen=True, slots=True)
class FaultInjected:
    """An event: a fault of the test happened to a request."""

    timestamp_ms: int
    key: str  # the group or transactional id of the request
    request: str
    outcome: str
    client_id: str
    is_warning: bool = True

    def as_json(self) -> Mapping[str, object]:
        return {
            "type": "fault_injected",
            "timestamp_ms": self.timestamp_ms,
            "subject": self.key,
            "request": self.request,
            "outcome": self.outcome,
            "client_id": self.client_id,
        }

    def line(self) -> str:
        about = f" for {self.key}" if self.key else ""
        return f"injected fault: {self.request}{about} from {self.client_id or 'a client'}: {self.outcome}"


class Fault(OrderedFault):
    """A fault of requests, until it has happened often enough, or is lifted. Also a `with` block."""

    def __init__(
        self,
        faults: Faults,
        kind: FaultKind,
        selection: Selection,
        *,
        error: ErrorCode = ErrorCode.none,
        delay_s: float = 0.0,
        **how: Any,
    ) -> None:
        super().__init__(**how)
        self._faults = faults
        self._when_lifted: list[Callable[[], object]] = []
        self.kind = kind
        self.selection = selection
        self.error = error
        self.delay_s = delay_s

    def __repr__(self) -> str:
        return f"<Fault {self.selection}: {self.outcome}, happened {self.count} times>"

    @property
    def outcome(self) -> str:
        """What it does, in words."""
        if self.kind is FaultKind.FAIL:
            return f"{self.kind.value} {str(self.error.name).upper()}"
        if self.kind is FaultKind.DELAY:
            return f"{self.kind.value} {self.delay_s:g} s"
        return str(self.kind.value)

    @property
    def is_over(self) -> bool:
        """Whether it was lifted, or has happened as often as ordered; one that keeps requests is not over."""
        return self.is_lifted or (self.times_left == 0 and self.kind is not FaultKind.HANG)

    def lift(self) -> None:
        """End it. Requests that it keeps waiting go on."""
        super().lift()
        self._faults.forget(self)
        callbacks, self._when_lifted = self._when_lifted, []
        for callback in callbacks:
            callback()

    def when_lifted(self, callback: Callable[[], object]) -> None:
        """Call back, from the thread that lifts it; at once if that has happened."""
        self._when_lifted.append(callback)
        if self.is_lifted:
            callback()

    def happens(self) -> bool:
        is_so = super().happens()
        if is_so and self.is_over:
            self._faults.forget(self)
        return is_so


class Faults:
    """The faults of one broker. The first one that is for a request happens."""

    def __init__(self, clock: Clock, files: SimulatedFiles | None, tell: Callable[[Event], None]) -> None:
        self._clock = clock
        self._tell = tell  # of what happens to the disk, from any thread
        self._files = files
        self._lock = threading.Lock()
        self._active: tuple[Fault, ...] = ()
        self.injected: list[FaultInjected | DiskFaultInjected] = []  # what happened, in order
        self._of_disk: tuple[DiskFault, ...] = ()

    def __iter__(self) -> Iterator[Fault]:
        return iter(self._active)

    # --- of requests -------------------------------------------------------------------------------------

    def fail(self, api: str, *, error: str, **selectors: Unpack[Selectors]) -> Fault:
        """Answer with an error, without doing the work: `error="COORDINATOR_LOAD_IN_PROGRESS"`."""
        return self._add(FaultKind.FAIL, api, selectors, error=_error_named(error))

    def delay(self, api: str | None = None, *, by: str | timedelta, **selectors: Unpack[Selectors]) -> Fault:
        """Do the work later, on the broker's clock. What follows on the same connection waits, too."""
        return self._add(FaultKind.DELAY, api, selectors, delay_s=nanoseconds(by) / 1_000_000_000)

    def drop(
        self,
        api: str | None = None,
        *,
        when: Literal["before", "after"] = "before",
        **selectors: Unpack[Selectors],
    ) -> Fault:
        """Close the connection before the work is done, or after it, instead of an answer."""
        if when not in ("before", "after"):
            raise ValueError(f"invalid when={when!r}: expected 'before' or 'after' the work")
        return self._add(FaultKind.DROP_BEFORE if when == "before" else FaultKind.DROP_AFTER, api, selectors)

    def lose(self, api: str | None = None, **selectors: Unpack[Selectors]) -> Fault:
        """Do the work, and never answer, nor anything that follows on the connection. It stays open."""
        return self._add(FaultKind.LOSE, api, selectors)

    def cut(self, api: str | None = None, **selectors: Unpack[Selectors]) -> Fault:
        """Do the work, send half of the answer, and close the connection."""
        return self._add(FaultKind.CUT, api, selectors)

    def hang(self, api: str | None = None, **selectors: Unpack[Selectors]) -> Fault:
        """Read nothing more from the connection, until the fault is lifted."""
        return self._add(FaultKind.HANG, api, selectors)

    # --- of the disk -------------------------------------------------------------------------------------

    def fill_disk(self, **which: Unpack[OnDisk]) -> DiskFault:
        """Writes fail with "no space left on device": all until it is lifted, or as often as ordered."""
        return self._add_to_disk("write", ENOSPC, which)

    def fail_fsync(self, **which: Unpack[OnDisk]) -> DiskFault:
        """Flushes to disk fail: all until it is lifted, or as often as ordered (`times=1`)."""
        return self._add_to_disk("sync", EIO, which)

    def separates(self, topic: str, partition: int) -> bool:
        """Whether a partition is written and flushed apart from others, because a fault is for its files."""
        return any(fault.selects(topic, partition) for fault in self._of_disk)

    # --- all ---------------------------------------------------------------------------------------------

    def lift(self) -> None:
        """End all faults."""
        for fault in self._active:
            fault.lift()
        with self._lock:
            of_disk, self._of_disk = self._of_disk, ()
        for disk_fault in of_disk:
            disk_fault.lift()

    def forget(self, fault: Fault) -> None:
        with self._lock:
            self._active = tuple(each for each in self._active if each is not fault)

    def pick(
        self, services: Services, endpoint: Endpoint, context: RequestContext, request: Any
    ) -> Fault | None:
        """The fault that happens to a request."""
        for fault in self._active:
            if fault.selection.covers(services, endpoint, context, request) and fault.happens():
                event = FaultInjected(
                    timestamp_ms=self._clock.timestamp_ms(),
                    key=subject(request),
                    request=f"{api_name(endpoint.api_key)} v{endpoint.version}",
                    outcome=fault.outcome,
                    client_id=context.client_id,
                )
                self.injected.append(event)
                services.events.tell(event)
                return fault
        return None

    def _add(self, kind: FaultKind, api: str | None, given: Selectors, **details: Any) -> Fault:
        _check_names(given, Selectors)
        how = {name: value for name, value in given.items() if name in Occurrence.__annotations__}
        which = {name: value for name, value in given.items() if name not in how}
        selection = Selection(None if api is None else api_named(api), **which)  # type: ignore[arg-type]
        fault = Fault(self, kind, selection, **details, **how)  # type: ignore[arg-type]
        with self._lock:
            self._active = (*self._active, fault)
        return fault

    def _add_to_disk(
        self, operation: Literal["write", "sync"], error_number: int, which: OnDisk
    ) -> DiskFault:
        if self._files is None:
            raise RuntimeError("disk faults need a broker in memory: start it without a data folder")
        _check_names(which, OnDisk, "a fault of the disk has no {name!r}: expected {known}")
        fault = DiskFault(self._files, operation, error_number, self._disk_failed, **which)
        with self._lock:
            self._of_disk = (*(each for each in self._of_disk if not each.is_over), fault)
        return fault

    def _disk_failed(self, operation: str, outcome: str) -> None:
        event = DiskFaultInjected(self._clock.timestamp_ms(), operation, outcome)
        self.injected.append(event)
        self._tell(event)


def _check_names(
    given: Mapping[str, Any], known: type, refusal: str = "unknown selector {name!r}: expected one of {known}"
) -> None:
    names = sorted(get_type_hints(known))
    if unknown := set(given) - set(names):
        raise TypeError(refusal.format(name=min(unknown), known=", ".join(names)))


_ERRORS: Final = {code.name.upper(): code for code in ErrorCode if code is not ErrorCode.none}


def _error_named(name: str) -> ErrorCode:
    if not isinstance(name, str):
        raise TypeError(f"invalid error {name!r}: expected a name as in 'NOT_COORDINATOR'")
    found = _ERRORS.get(name)
    if found is None:
        near = get_close_matches(name.upper(), _ERRORS, 1, 0.5)
        hint = f"did you mean {near[0]}?" if near else "expected a name from Kafka's list of error codes"
        raise ValueError(f"unknown error {name!r}: {hint}")
    return found
