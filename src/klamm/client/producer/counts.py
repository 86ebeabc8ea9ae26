"""What a producer did since it was made."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Counts:
    """For metrics."""

    requests: int = 0
    batches_sent: int = 0
    batches_repeated: int = 0
    bytes_sent: int = 0
    records_delivered: int = 0
    records_failed: int = 0
    answers: int = 0
    answers_ms: int = 0  # how long they took, in sum
    throttle_ms_max: int = 0

    def answered(self, took_ms: int, throttle_ms: int) -> None:
        """A broker has answered a Produce request."""
        self.answers += 1
        self.answers_ms += took_ms
        self.throttle_ms_max = max(self.throttle_ms_max, throttle_ms)
