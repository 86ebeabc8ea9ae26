"""Batches that must not reach their segment before the journal has them.

A flush writes segments before the journal's frame is durable, and recovery keeps every valid batch that it
finds in a segment. That is wrong for a batch that may only survive together with one of another log: such as
the marker of a transaction, with the record of its outcome. Both are in one frame, which survives as a whole
or not at all; until it is durable the batch is only in memory.
"""

from __future__ import annotations

from klamm.storage.engines.segments.chain import SegmentChain


class HoldingBack:
    """What one log holds back."""

    __slots__ = ("_chain",)

    def __init__(self, chain: SegmentChain) -> None:
        self._chain = chain

    @property
    def is_active(self) -> bool:
        return self._chain.active.held_from is not None

    def begin(self) -> None:
        """Hold back what is appended from now on."""
        active = self._chain.active
        if active.held_from is None:
            active.held_from = active.size_bytes

    def end(self) -> None:
        """Nothing is held back any more; what is pending is written with the next flush."""
        for segment in reversed(self._chain.segments):
            if segment.held_from is None:
                break
            segment.held_from = None
