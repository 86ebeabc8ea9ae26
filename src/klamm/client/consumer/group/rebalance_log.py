"""Why the group rebalanced, and what it cost: the last hundred times."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from klamm.clock import Clock
from klamm.groups.diagnosis.words import listed
from klamm.protocol.types import TopicPartition

log = logging.getLogger(__name__)

KEPT: Final = 100
DONE: Final = "done"
FIRST_JOIN: Final = "first join"


@dataclass(slots=True, repr=False)
class Rebalance:
    """One rebalance, as this member lived it."""

    cause: str
    timestamp_ms: int  # when it began
    marks: list[tuple[str, int]] = field(default_factory=list)  # phases, and when each began; "" is the end
    generation_id: int = -1
    is_leader: bool = False
    gained: list[TopicPartition] = field(default_factory=list)
    lost: list[TopicPartition] = field(default_factory=list)
    outcome: str = "running"  # then "done", or the error

    def __repr__(self) -> str:
        moved = "".join(
            f", {name} {listed(places)}"
            for name, places in (("gained", self.gained), ("lost", self.lost))
            if places
        )
        generation = "no generation yet" if self.generation_id < 0 else f"generation {self.generation_id}"
        return f"<Rebalance ({self.cause}): {self.outcome}, {generation}, {self.duration_ms} ms{moved}>"

    @property
    def phases(self) -> dict[str, int]:
        """Name to milliseconds, in order; without the one that has not ended."""
        found: dict[str, int] = {}
        for (name, since_ms), (_, until_ms) in pairwise(self.marks):
            if name:
                found[name] = found.get(name, 0) + until_ms - since_ms
        return found

    @property
    def duration_ms(self) -> int:
        return sum(self.phases.values())


class RebalanceLog:
    """Written by the client's thread, read by any thread."""

    def __init__(self, clock: Clock, group_id: str, assigned: Callable[[], list[TopicPartition]]) -> None:
        self._clock = clock
        self._group_id = group_id
        self._assigned = assigned
        self._entries: deque[Rebalance] = deque(maxlen=KEPT)
        self._current: Rebalance | None = None
        self.count = 0

    def begin(self, cause: str) -> None:
        """A rebalance starts, or goes on after a failed attempt."""
        if self._current is None:
            self.count += 1
            self._current = Rebalance(cause, self._clock.timestamp_ms())
            self._entries.append(self._current)

    def phase(self, name: str) -> None:
        """The next phase begins; the one before ends."""
        if self._current is not None:
            self._current.marks.append((name, self._clock.now_ms()))

    def lost(self, partitions: Collection[TopicPartition]) -> None:
        if partitions and self._current is not None:
            self._current.lost = sorted({*self._current.lost, *partitions})

    def gained(self, partitions: Collection[TopicPartition]) -> None:
        if partitions and self._current is not None:
            self._current.gained = sorted({*self._current.gained, *partitions})

    def joined(self, generation_id: int, *, is_leader: bool) -> None:
        if self._current is not None:
            self._current.generation_id = generation_id
            self._current.is_leader = is_leader

    def end(self, outcome: str) -> None:
        """It is over, one way or the other."""
        self.phase("")
        current, self._current = self._current, None
        if current is not None:
            if current.gained and current.lost:
                # Partitions that an eager rebalance revoked and assigned again have not moved.
                gained, lost = set(current.gained), set(current.lost)
                current.gained, current.lost = sorted(gained - lost), sorted(lost - gained)
            current.outcome = outcome
            if outcome == DONE:
                self._tell(current)

    def _tell(self, rebalance: Rebalance) -> None:
        revoked = f", revoked {listed(rebalance.lost)}" if rebalance.lost else ""
        log.info(
            "group %s: generation %d joined in %d ms: assigned %s%s",
            self._group_id,
            rebalance.generation_id,
            rebalance.duration_ms,
            listed(self._assigned()) or "no partition",
            revoked,
        )

    @property
    def has_joined(self) -> bool:
        """Whether a join has ended with an assignment."""
        return any(entry.outcome == DONE for entry in list(self._entries))

    def entries(self) -> list[Rebalance]:
        """The last ones, oldest first."""
        return list(self._entries)
