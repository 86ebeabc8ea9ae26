"""What an event of a coordinator looks like to the writer of `__klamm_events`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class Event(Protocol):
    """An event for `__klamm_events` and the log. No decision depends on it."""

    @property
    def timestamp_ms(self) -> int: ...

    @property
    def key(self) -> str:
        """What it is about: a group id, a transactional id. Events with one key stay in order."""
        ...

    @property
    def is_warning(self) -> bool:
        """Whether its line is logged as a warning, not as information."""
        ...

    def as_json(self) -> Mapping[str, object]:
        """Its fields, `type` first."""
        ...

    def line(self) -> str:
        """One line for the log."""
        ...
