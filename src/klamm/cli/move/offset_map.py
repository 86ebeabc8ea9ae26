"""Which offset of the source became which offset of the target.

A log has gaps where records were compacted or deleted, and where transactions were aborted or end. The copy
has none, so offsets shift. Runs without a gap keep the map small: one entry for each gap.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence


class OffsetMap:
    """The runs of one partition, in order. `target_next` is the offset of the next record that is copied."""

    def __init__(self, runs: Iterable[Sequence[int]] = (), target_next: int = 0) -> None:
        self._sources = []
        self._targets = []
        for source, target in runs:
            self._sources.append(source)
            self._targets.append(target)
        self.target_next = target_next

    @property
    def runs(self) -> list[list[int]]:
        """[source offset, target offset] of the first record of each run."""
        return [list(run) for run in zip(self._sources, self._targets, strict=True)]

    def add(self, source_offset: int) -> None:
        """The next record of the target has this offset at the source."""
        if not self._sources or source_offset - self._sources[-1] != self.target_next - self._targets[-1]:
            self._sources.append(source_offset)
            self._targets.append(self.target_next)
        self.target_next += 1

    def translate(self, source_offset: int) -> int:
        """The target's offset of the first copied record at or above an offset of the source."""
        index = bisect_right(self._sources, source_offset) - 1
        if index < 0:
            return self._targets[0] if self._targets else self.target_next
        is_last = index + 1 == len(self._targets)
        end = self.target_next if is_last else self._targets[index + 1]
        return min(self._targets[index] + source_offset - self._sources[index], end)

    def copy(self) -> OffsetMap:
        return OffsetMap(self.runs, self.target_next)
