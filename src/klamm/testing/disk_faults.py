"""Faults of the simulated disk of a broker: no space left, a flush that fails."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from klamm.storage.engines.simulated_disk import Fault as DiskError
from klamm.storage.engines.simulated_disk import SimulatedFiles
from klamm.testing.ordered_fault import OrderedFault

_NAMES = {"write": "write", "sync": "flush"}
# Small batches of all partitions are written and flushed together, in one journal: a fault of one topic there
# would be one of all. What its clients see of a failed disk is an error of requests.
HAS_NO_SELECTORS: Final = (
    "partitions share the disk and its flushes; for one topic alone, order "
    "fail('Produce', topic=..., error='KAFKA_STORAGE_ERROR')"
)


@dataclass(frozen=True, slots=True)
class DiskFaultInjected:
    """An event: a fault of the test happened to the disk.

    It is in the story, and not in the topic of events: that is on the disk that fails.
    """

    timestamp_ms: int
    operation: str
    outcome: str
    key: str = ""  # of no group
    is_warning: bool = True

    def as_json(self) -> Mapping[str, object]:
        return {
            "type": "fault_injected",
            "timestamp_ms": self.timestamp_ms,
            "subject": self.key,
            "request": self.operation,
            "outcome": self.outcome,
            "client_id": "",
        }

    def line(self) -> str:
        return f"injected fault: {self.operation} to disk: {self.outcome}"


class DiskFault(OrderedFault):
    """A fault of the disk, until it has happened often enough, or is lifted. Also a `with` block."""

    def __init__(
        self,
        files: SimulatedFiles,
        operation: Literal["write", "sync"],
        error_number: int,
        tell: Callable[[str, str], None],
        *,
        times: int | None = None,
        probability: float = 1.0,
        seed: int = 0,
    ) -> None:
        super().__init__(times=times, probability=probability, seed=seed)
        self._files = files
        self._tell = tell
        self._operation = _NAMES[operation]
        self._outcome = os.strerror(error_number).lower()
        self._error = DiskError(operation, error_number=error_number, is_lasting=True, happens=self.happens)
        files.faults.append(self._error)

    def __repr__(self) -> str:
        return f"<DiskFault {self._operation}: {self._outcome}, happened {self.count} times>"

    def happens(self) -> bool:
        is_so = super().happens()
        if is_so:
            self._tell(self._operation, self._outcome)
        return is_so

    def lift(self) -> None:
        """The disk works again."""
        super().lift()
        if self._error in self._files.faults:
            self._files.faults.remove(self._error)
