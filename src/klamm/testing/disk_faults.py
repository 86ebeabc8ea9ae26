"""Faults of the simulated disk of a broker: no space left, a flush that fails."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from klamm.storage.engines.segments.names import parse_partition_directory
from klamm.storage.engines.simulated_disk import FailingOperation as DiskError
from klamm.storage.engines.simulated_disk import SimulatedFiles
from klamm.testing.ordered_fault import OrderedFault
from klamm.testing.selection import Selection

_NAMES = {"write": "write", "sync": "flush"}


@dataclass(frozen=True, slots=True)
class DiskFaultInjected:
    """An event: a fault of the test happened to the disk.

    It is in the story, and not in the topic of events: that is on the disk that fails.
    """

    timestamp_ms: int
    operation: str  # of one partition, if the fault is for those of a topic
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
    """A fault of the disk, until it has happened often enough, or is lifted. Also a `with` block.

    With a topic it is one of the files of its partitions. These do not share the journal's writes and flushes
    while the fault is in force: there, a fault of one would be one of all.
    """

    def __init__(
        self,
        files: SimulatedFiles,
        operation: Literal["write", "sync"],
        error_number: int,
        tell: Callable[[str, str], None],
        *,
        topic: str | None = None,
        partition: int | None = None,
        times: int | None = None,
        probability: float = 1.0,
        seed: int = 0,
    ) -> None:
        super().__init__(times=times, probability=probability, seed=seed)
        self._selection = Selection(topic=topic, partition=partition)
        self._files = files
        self._tell = tell
        self._operation = _NAMES[operation]
        self._outcome = os.strerror(error_number).lower()
        self._error = DiskError(
            operation, error_number=error_number, is_lasting=True, happens=self._happens_at
        )
        files.faults.append(self._error)

    def __repr__(self) -> str:
        selected = self._selection.selectors
        where = f" {selected}" if selected else ""
        return f"<DiskFault {self._operation}{where}: {self._outcome}, happened {self.count} times>"

    def selects(self, topic: str, partition: int) -> bool:
        """Whether it is for the files of this partition, and not for all."""
        wanted = self._selection
        return wanted.topic == topic and wanted.partition in (None, partition) and not self.is_over

    def _happens_at(self, path: str) -> bool:
        """Whether it happens to an operation on a file."""
        operation = self._operation
        if self._selection.topic is not None:
            directory = path.rpartition("/")[0].rpartition("/")[2]
            found = parse_partition_directory(directory)
            if found is None or not self.selects(*found):
                return False
            operation = f"{operation} of {directory}"
        is_so = self.happens()
        if is_so:
            self._tell(operation, self._outcome)
        return is_so

    def lift(self) -> None:
        """The disk works again."""
        super().lift()
        if self._error in self._files.faults:
            self._files.faults.remove(self._error)
