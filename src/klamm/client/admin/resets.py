"""Moving a group that has no members to other offsets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from klamm.client.admin import arguments
from klamm.client.admin.model import CommittedOffset
from klamm.client.admin.offsets import (
    EARLIEST,
    LATEST,
    alter_group_offsets,
    list_group_offsets,
    list_offsets,
)
from klamm.client.admin.results import Results
from klamm.client.calls import Calls
from klamm.errors import KlammError
from klamm.protocol.types import TopicPartition


@dataclass(frozen=True, slots=True)
class ResetTarget:
    """Where to go: exactly one of these."""

    to: str | int | None = None  # "earliest", "latest" or an offset
    timestamp_ms: int | None = None
    shift_by: int | None = None

    def __post_init__(self) -> None:
        if [self.to, self.timestamp_ms, self.shift_by].count(None) != 2:
            raise ValueError("give exactly one of to, timestamp_ms and shift_by")
        if isinstance(self.to, str) and self.to not in {"earliest", "latest"}:
            raise ValueError(f"to={self.to!r}: expected 'earliest', 'latest' or an offset")

    @classmethod
    def of(cls, to: object, timestamp_ms: object, shift_by: object) -> ResetTarget:
        """The target of a caller's arguments."""
        return cls(
            to if to is None or isinstance(to, str) else arguments.integer(to, "to", 64),
            None if timestamp_ms is None else arguments.integer(timestamp_ms, "timestamp_ms", 64, least=0),
            None if shift_by is None else arguments.integer(shift_by, "shift_by", 64),
        )

    def offset(self, current: int | None, start: int, end: int, timed: int) -> int | None:
        """The target offset, limited to the range of the log; None without an offset to shift."""
        if self.shift_by is not None:
            if current is None:
                return None
            wanted = current + self.shift_by
        elif self.timestamp_ms is not None:
            wanted = timed if timed >= 0 else end
        elif isinstance(self.to, int):
            wanted = self.to
        else:
            wanted = start if self.to == "earliest" else end
        return min(max(wanted, start), end)


async def reset_group_offsets(
    calls: Calls,
    group_id: str,
    partitions: Sequence[TopicPartition] | None,
    target: ResetTarget,
    *,
    timeout_ms: int | None,
) -> Results[TopicPartition, int]:
    """Commit the target for these partitions, or for all that are committed; the new offsets."""
    deadline = calls.deadline(f"resetting offsets of group {group_id}", timeout_ms)
    committed = await list_group_offsets(
        calls, group_id, partitions, require_stable=False, timeout_ms=deadline.remaining_ms()
    )
    chosen = sorted(committed) if partitions is None else list(dict.fromkeys(partitions))
    results: dict[TopicPartition, int | KlammError] = {}
    found: list[dict[TopicPartition, int]] = []
    for at in (EARLIEST, LATEST, -1 if target.timestamp_ms is None else target.timestamp_ms):
        listed = await list_offsets(
            calls, dict.fromkeys(chosen, at), read_committed=False, timeout_ms=deadline.remaining_ms()
        )
        results.update(listed.errors)
        found.append({key: item.offset for key, item in listed.successes.items()})
    start, end, timed = found
    wanted: dict[TopicPartition, CommittedOffset] = {}
    for key in chosen:
        if key in results:
            continue
        current = committed[key].offset if key in committed else None
        offset = target.offset(current, start[key], end[key], timed[key])
        if offset is None:
            results[key] = KlammError(
                f"{group_id} has committed nothing for {key}: there is nothing to shift"
            )
        else:
            wanted[key] = CommittedOffset(offset)
    if wanted:
        altered = await alter_group_offsets(calls, group_id, wanted, timeout_ms=deadline.remaining_ms())
        results.update({key: wanted[key].offset for key in altered.successes})
        results.update(altered.errors)
    return Results(results)
