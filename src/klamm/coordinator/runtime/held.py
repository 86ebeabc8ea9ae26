"""What a shard holds back until it is durable."""

from __future__ import annotations

from collections.abc import Sequence

from klamm.coordinator.runtime.outcome import Reply


class Held:
    """Replies, signals and actions of one decision."""

    __slots__ = ("actions", "offset", "replies", "signals", "since_ms")

    def __init__(
        self,
        offset: int,  # everything below must be durable
        replies: Sequence[Reply],
        signals: Sequence[object],
        actions: Sequence[object],
        since_ms: int,
    ) -> None:
        self.offset = offset
        self.replies = replies
        self.signals = signals
        self.actions = actions
        self.since_ms = since_ms
