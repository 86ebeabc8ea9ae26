"""Enumerations whose members are also meant by their names, as kafka-python's."""

from __future__ import annotations

from enum import Enum, IntEnum
from typing import Any, Self


class ByName(Enum):
    """What their `build_from` and `value_for` do."""

    @classmethod
    def build_from(cls, val: Any) -> Self:
        """A member, by itself, its value or its name in any case."""
        for member in cls:
            if val is member or val == member.value:
                return member
        name = str(val).strip().upper().replace("-", "_")
        if name not in cls.__members__:
            raise ValueError(f"no {cls.__name__}: {val!r}; write one of {', '.join(cls.__members__)}")
        return cls[name]

    @classmethod
    def value_for(cls, val: Any) -> Any:
        """Its value."""
        return cls.build_from(val).value


class IsolationLevel(ByName, IntEnum):
    """Whether records of open and aborted transactions are read."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


class OffsetSpec(ByName, IntEnum):
    """Which offset of a partition is asked for."""

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3
    EARLIEST_LOCAL = -4
    LATEST_TIERED = -5


class OffsetTimestamp(int):
    """A time in milliseconds, where an offset may be meant, too."""
