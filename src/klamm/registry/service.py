"""A registry on a cluster: decisions one at a time, each answered when its records are in the log."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, Self, TypeVar

from klamm.registry.log import SchemasLog
from klamm.registry.records import TOPIC, RegistryRecord
from klamm.registry.registry import Decided, Registry
from klamm.registry.state import RegistryState

Answer = TypeVar("Answer")


class RegistryService:
    """Reads and decisions from any thread."""

    def __init__(self, settings: Mapping[str, Any], *, topic: str = TOPIC) -> None:
        self._registry = Registry(RegistryState())
        self._state = threading.Lock()
        self._writing = threading.Lock()
        self._log = SchemasLog(settings, topic, self._replay)

    def __enter__(self) -> Self:
        self._log.open()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._log.close()

    def _replay(self, record: RegistryRecord) -> None:
        with self._state:
            self._registry.state.replay(record)

    def look(self, read: Callable[[Registry], Answer]) -> Answer:
        """The result of a question. Raises RegistryError."""
        with self._state:
            return read(self._registry)

    def change(self, decide: Callable[[Registry], Decided]) -> Any:
        """The answer of a decision, when it is in the log. Raises RegistryError."""
        made: Decided | None = None

        def decided() -> tuple[RegistryRecord, ...]:
            nonlocal made
            made = self.look(decide)
            return made.records

        with self._writing:
            self._log.write(decided)
        assert made is not None
        return made.answer
