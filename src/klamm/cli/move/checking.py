"""The check at the end of a move: compares number and checksum of the copies with those of the source."""

from __future__ import annotations

import time

from klamm.cli.move.copying import PATIENCE_S, POLL_S, OnProgress, checksum, reader, size_of
from klamm.cli.move.ends import End
from klamm.cli.move.state import MoveState
from klamm.protocol.types import TopicPartition


def differences(target: End, state: MoveState, on_progress: OnProgress) -> list[str]:
    """What differs between the records read at the source and those at the target; a line per partition."""
    expected = {
        key: each for key, each in state.partitions.items() if each.checked_to < each.offsets.target_next
    }
    sums = dict.fromkeys(expected, 0)
    counts = dict.fromkeys(expected, 0)
    with reader(target) as consumer:
        consumer.assign(sorted(expected))
        for key, each in expected.items():
            consumer.seek(key, each.checked_to)
        waiting = set(expected)
        idle_since = time.monotonic()
        while waiting and time.monotonic() - idle_since < PATIENCE_S:
            count = size = 0
            for record in consumer.poll(POLL_S):
                key = record.topic_partition
                if record.offset < expected[key].offsets.target_next:
                    sums[key] = checksum(record, sums[key])
                    counts[key] += 1
                    count += 1
                    size += size_of(record)
            on_progress(count, size)
            if count:
                idle_since = time.monotonic()
            waiting = {key for key in waiting if consumer.position(key) < expected[key].offsets.target_next}
    return [line for key in sorted(expected) if (line := _difference(key, state, counts[key], sums[key]))]


def _difference(key: TopicPartition, state: MoveState, count: int, found_sum: int) -> str:
    each = state.partitions[key]
    expected = each.offsets.target_next - each.checked_to
    if count != expected:
        return f"{key}: {count} records at the target, {expected} were copied"
    if found_sum != each.checksum:
        return f"{key}: the {count} records at the target differ from those of the source"
    return ""


def checked(state: MoveState) -> None:
    """All copies are as the source's: a later run checks only what it adds."""
    for each in state.partitions.values():
        each.checked_to, each.checksum = each.offsets.target_next, 0
