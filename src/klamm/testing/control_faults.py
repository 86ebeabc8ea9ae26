"""Faults that are ordered in JSON: `{"fault": "fail", "api": "OffsetCommit", "error": "NOT_COORDINATOR"}`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, Final

from klamm.testing.faults import Faults, Occurrence, OnDisk, Selectors
from klamm.testing.ordered_fault import OrderedFault

MAX_FAULTS: Final = 1000  # that are ordered and not lifted
_OCCURRENCE: Final = tuple(Occurrence.__annotations__)
_SELECTORS: Final = (
    "api",
    *(name for name in Selectors.__annotations__ if name not in _OCCURRENCE),
    *_OCCURRENCE,
)
_ON_DISK: Final = (*(name for name in OnDisk.__annotations__ if name not in _OCCURRENCE), *_OCCURRENCE)
_Make = Callable[..., OrderedFault]


class FaultOrders:
    """The faults of a broker, by number."""

    def __init__(self, faults: Faults) -> None:
        self._faults = faults
        self._lock = threading.Lock()
        self._ordered: dict[int, tuple[Mapping[str, Any], OrderedFault]] = {}
        self._last_id = 0
        # What each is made by, what it must be given, and what it may be given.
        self._kinds: dict[str, tuple[_Make, tuple[str, ...], tuple[str, ...]]] = {
            "fail": (faults.fail, ("api", "error"), _SELECTORS),
            "delay": (faults.delay, ("by",), _SELECTORS),
            "drop": (faults.drop, (), ("when", *_SELECTORS)),
            "lose": (faults.lose, (), _SELECTORS),
            "cut": (faults.cut, (), _SELECTORS),
            "hang": (faults.hang, (), _SELECTORS),
            "fill_disk": (faults.fill_disk, (), _ON_DISK),
            "fail_fsync": (faults.fail_fsync, (), _ON_DISK),
        }

    def add(self, order: Mapping[str, Any]) -> dict[str, Any]:
        """Raises ValueError for an invalid order, RuntimeError for one that this broker cannot carry out."""
        kind = order.get("fault")
        if not isinstance(kind, str) or kind not in self._kinds:
            raise ValueError(f"invalid fault {kind!r}: expected one of {', '.join(self._kinds)}")
        make, required, optional = self._kinds[kind]
        given = {name: value for name, value in order.items() if name != "fault" and value is not None}
        for name in required:
            if name not in given:
                raise ValueError(f"fault {kind!r} needs {name!r}")
        for name in given:
            if name not in required and name not in optional:
                known = ", ".join(dict.fromkeys((*required, *optional)))
                raise ValueError(f"fault {kind!r} has no {name!r}: expected {known}")
        if not isinstance(given.get("seed", 0), int):
            raise ValueError(f"invalid seed {given['seed']!r}: expected a whole number")
        with self._lock:
            if len(self._ordered) >= MAX_FAULTS:
                raise RuntimeError(f"{MAX_FAULTS} faults are ordered: lift those that are not needed")
            try:
                fault = make(**given)
            except TypeError as error:  # a number for a name, and so on
                raise ValueError(str(error)) from None
            self._last_id += 1
            self._ordered[self._last_id] = ({"fault": kind, **given}, fault)
            return self._described(self._last_id)

    def described(self, number: int) -> dict[str, Any]:
        """Raises LookupError."""
        with self._lock:
            self._check(number)
            return self._described(number)

    def all(self) -> list[dict[str, Any]]:
        with self._lock:
            return [self._described(number) for number in self._ordered]

    def lift(self, number: int) -> dict[str, Any]:
        """Raises LookupError."""
        with self._lock:
            self._check(number)
            self._ordered[number][1].lift()
            last = self._described(number)
            del self._ordered[number]
        return last

    def lift_all(self) -> list[dict[str, Any]]:
        with self._lock:
            self._faults.lift()
            last = [self._described(number) for number in self._ordered]
            self._ordered.clear()
        return last

    def _check(self, number: int) -> None:
        if number not in self._ordered:
            raise LookupError(f"no fault has the id {number}: it does not exist, or was lifted")

    def _described(self, number: int) -> dict[str, Any]:
        order, fault = self._ordered[number]
        return {"id": number, **order, "count": fault.count, "is_over": fault.is_over}
