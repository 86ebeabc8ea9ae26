"""Histories of single values that many write and read at the same time: which answers were possible?"""

from __future__ import annotations

from dataclasses import dataclass, field

Value = tuple[int, str] | None  # an offset and its note; None is nothing committed


@dataclass(slots=True)
class Write:
    """A write that may have been done at any moment between its two ends."""

    value: Value
    began_at: int
    ended_at: int | None = None  # None: it may still happen
    is_certain: bool = False  # it was done, somebody was told or has seen it
    may_be_undone: bool = False  # nobody is promised that it lasts


@dataclass(slots=True)
class Register:
    """One value through time. A read must give the last write, or one that was under way."""

    writes: list[Write] = field(default_factory=lambda: [Write(None, 0, 0, is_certain=True)])

    def write(self, value: Value, began_at: int) -> Write:
        write = Write(value, began_at)
        self.writes.append(write)
        return write

    def refused(self, write: Write) -> None:
        """It was not done, and never will be."""
        self.writes.remove(write)

    def possible(self, began_at: int) -> list[Write]:
        """What a read that began then may give: all but what was surely overwritten before."""
        newest_certain = max(
            write.began_at
            for write in self.writes
            if write.is_certain and write.ended_at is not None and write.ended_at < began_at
        )
        return [write for write in self.writes if write.ended_at is None or write.ended_at >= newest_certain]

    def read(self, value: Value, began_at: int, ended_at: int) -> bool:
        """Whether a read could give this value; if so it is remembered that it did."""
        candidates = [
            write for write in self.possible(began_at) if write.value == value and write.began_at < ended_at
        ]
        if not candidates:
            return False
        if len(candidates) == 1 and not candidates[0].may_be_undone:
            # Seen is done: nobody may ever read an older one again.
            (write,) = candidates
            write.is_certain = True
            write.ended_at = ended_at if write.ended_at is None else min(write.ended_at, ended_at)
        return True
