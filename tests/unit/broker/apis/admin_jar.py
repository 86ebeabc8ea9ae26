"""A broker in a jar for tests of topics and configurations: one client, and a look at the logs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from internals.jar import Jar, JarClient
from klamm.storage.log import EngineLog


class AdminJar(Jar):
    """A jar with one client connected."""

    def __init__(self, settings: Mapping[str, str] | None = None, **others: Any) -> None:
        super().__init__(settings, **others)
        self.client: JarClient = self.connect()
        self._is_closed = False

    @property
    def logs(self) -> dict[tuple[str, int], EngineLog]:
        """The logs that serve."""
        return {(each.topic, each.partition): cast(EngineLog, each.log) for each in self.services.partitions}

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            super().close()
