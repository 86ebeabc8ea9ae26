"""The state of a producer, for people and for monitoring."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from klamm.client.outlook import cluster_problems
from klamm.client.producer.accumulator import Accumulator
from klamm.client.producer.sender import Sender
from klamm.client.runtime import Core


@dataclass(frozen=True, slots=True)
class ProducerHealth:
    """The state at one moment."""

    is_healthy: bool
    problems: tuple[str, ...]  # why not
    buffered_bytes: int  # of `buffer.memory`
    oldest_record_ms: int | None  # how long the oldest record has waited to be delivered
    last_error: str | None


def health(
    core: Core, accumulator: Accumulator, sender: Sender, ended: BaseException | None, *, is_closed: bool
) -> ProducerHealth:
    """What is known on this side; no broker is asked."""
    problems = ["closed"] if is_closed else []
    if ended is not None:
        problems.append(f"the client's thread has stopped: {ended!r}")
    if sender.fatal is not None:
        problems.append(f"nothing can be sent any more: {sender.fatal}")
    problems += cluster_problems(core)
    oldest_ms = accumulator.oldest_ms()
    error = ended or sender.fatal or sender.last_error or core.metadata.error
    return ProducerHealth(
        is_healthy=not problems,
        problems=tuple(problems),
        buffered_bytes=accumulator.used_bytes,
        oldest_record_ms=None if oldest_ms is None else max(0, core.now_ms - oldest_ms),
        last_error=None if error is None else str(error),
    )


def metrics(accumulator: Accumulator, sender: Sender) -> dict[str, float]:
    """Counters since the beginning, and what is buffered now."""
    return {
        **asdict(sender.counts),
        "buffered_bytes": accumulator.used_bytes,
        "buffered_records": accumulator.record_count,
    }
