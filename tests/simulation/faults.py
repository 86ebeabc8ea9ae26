"""What may go wrong in a world, and how often."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """Chances, each per occasion. All zero is a world in which nothing ever goes wrong."""

    drop: float = 0.0  # per message: its connection breaks, and what is under way on it is lost
    crash: float = 0.0  # per disk operation: the broker is killed in the middle of it, the machine lives
    torn_write: float = 0.0  # per disk operation: the power goes; what was not synced is lost or torn
    io_error: float = 0.0  # per disk operation: the disk refuses
    slow_flush: float = 0.0  # per call that blocks: it takes seconds
    stop: float = 0.0  # per second: the broker is stopped in good order, and started again
    marker: float = 0.0  # per order to write markers: it is lost, unanswered, repeated or late
    move: float = 0.0  # per second: a coordinator's shard is unloaded, and loaded again a little later


NO_FAULTS = Faults()
