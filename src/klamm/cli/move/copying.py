"""Copies records, partition by partition in their order, and saves how far it got.

The target's log is empty at first and nobody else writes to it, so the offset of a copy is the number of
records copied before it. Each acknowledgement is compared with that.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Mapping
from typing import Any, Final
from zlib import crc32

from klamm.cli.move.ends import End
from klamm.cli.move.state import CopyProgress, MoveError, MoveState
from klamm.client.consumer.consumer import Consumer
from klamm.client.consumer.records import ConsumerRecord
from klamm.client.producer.delivery import Delivery
from klamm.client.producer.producer import Producer
from klamm.protocol.types import TopicPartition

SAVE_EVERY_S: Final = 2.0
SAVE_EVERY_BYTES: Final = 32 * 1024 * 1024
POLL_S: Final = 0.5
PATIENCE_S: Final = 300.0  # without any record, while the source should have some
_SETTLE_S: Final = 0.5  # what a killed run left in the network is written by then
_READING: Final[dict[str, Any]] = {
    "isolation.level": "read_committed",
    "enable.auto.commit": False,
    "auto.offset.reset": "earliest",
    "max.poll.records": 10_000,
}
_WRITING: Final[dict[str, Any]] = {
    "acks": "all",
    "enable.idempotence": True,
    "compression.type": "lz4",
    "linger.ms": 20,
    "batch.size": 262_144,
    "max.request.size": 2**31 - 1,
    "delivery.timeout.ms": 600_000,
}

Record = ConsumerRecord[bytes | None, bytes | None]
OnProgress = Callable[[int, int], None]  # records and bytes since the last call


def reader(end: End) -> Consumer[bytes | None, bytes | None]:
    return Consumer({**_READING, **end.settings})


def checksum(record: Record, so_far: int) -> int:
    """A checksum of all records up to this one: timestamps, keys, values and headers."""
    for part in (record.key, record.value):
        so_far = crc32(part or b"", crc32(_LENGTH.pack(-1 if part is None else len(part)), so_far))
    for name, value in record.headers:
        so_far = crc32(value or b"", crc32(name.encode() + (b"-" if value is None else b"+"), so_far))
    return crc32(_TIMESTAMP.pack(record.timestamp_ms, len(record.headers)), so_far)


_LENGTH: Final = struct.Struct(">i")
_TIMESTAMP: Final = struct.Struct(">qi")


def size_of(record: Record) -> int:
    return len(record.key or b"") + len(record.value or b"")


def copy_records(
    source: End,
    target: End,
    state: MoveState,
    ends: Mapping[TopicPartition, int],
    *,
    save: Callable[[], None],
    on_progress: OnProgress,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Copy every partition up to its offset in `ends`. Raises MoveError, or what the clusters refuse with."""
    with reader(source) as consumer, Producer({**_WRITING, **target.settings}) as producer:
        already = _written_since(target, state, ends, sleep)
        run = _Run(state, producer, target.name, already)
        waiting = {key for key, end in ends.items() if state.partitions[key].source_next < end}
        consumer.assign(sorted(waiting))
        for key in waiting:
            consumer.seek(key, state.partitions[key].source_next)
        saved_at = idle_since = time.monotonic()
        while waiting:
            count = size = 0
            for record in consumer.poll(POLL_S):
                if record.offset < ends[record.topic_partition]:
                    run.copy(record)
                    count += 1
                    size += size_of(record)
            on_progress(count, size)
            now = time.monotonic()
            idle_since = now if count else idle_since
            reached = {key for key in waiting if consumer.position(key) >= ends[key]}
            if reached:
                consumer.pause(*reached)
                waiting -= reached
            if not waiting or run.unsaved_bytes >= SAVE_EVERY_BYTES or now - saved_at >= SAVE_EVERY_S:
                run.settle({key: consumer.position(key) for key in ends if key in consumer.assignment()})
                save()
                saved_at = now
            if now - idle_since > PATIENCE_S:
                raise MoveError(
                    f"no record came from {source.name} for {PATIENCE_S:.0f} s, and "
                    f"{', '.join(map(str, sorted(waiting)))} have more: run the command again to go on"
                )
        run.check_counted()


def _written_since(
    target: End, state: MoveState, ends: Mapping[TopicPartition, int], sleep: Callable[[float], None]
) -> dict[TopicPartition, int]:
    """Records that an earlier run wrote after it had last saved its state."""
    found: dict[TopicPartition, int] = {}
    while True:
        before, found = (
            found,
            {key: each.offset for key, each in target.admin.list_offsets(list(ends)).items()},
        )
        ahead = {key: found[key] - state.partitions[key].offsets.target_next for key in ends}
        behind = [key for key, count in ahead.items() if count < 0]
        if behind:
            raise MoveError(
                f"{behind[0]} at {target.name} ends at offset {found[behind[0]]}, and "
                f"{state.partitions[behind[0]].offsets.target_next} records were copied: some are gone; "
                "delete the topic, and move it again"
            )
        if not any(ahead.values()) or before == found:
            return {key: count for key, count in ahead.items() if count}
        sleep(_SETTLE_S)


class _Run:
    """The records sent, and the state that is saved when all of them are acknowledged."""

    def __init__(
        self, state: MoveState, producer: Producer, target: str, already: dict[TopicPartition, int]
    ) -> None:
        self._state = state
        self._producer = producer
        self._target = target
        self._already = already  # records that are there, and are only counted
        self._sent: dict[TopicPartition, CopyProgress] = {}
        self._last: dict[TopicPartition, Delivery] = {}
        self.unsaved_bytes = 0

    def copy(self, record: Record) -> None:
        key = record.topic_partition
        sent = self._sent.get(key)
        if sent is None:
            sent = self._sent[key] = self._state.partitions[key].copy()
        sent.offsets.add(record.offset)
        sent.source_next = record.offset + 1
        sent.checksum = checksum(record, sent.checksum)
        if self._already.get(key):
            self._already[key] -= 1
            return
        self.unsaved_bytes += size_of(record)
        self._last[key] = self._producer.send(
            record.topic,
            record.value,
            record.key,
            record.headers,
            record.partition,
            record.timestamp_ms if record.timestamp_ms >= 0 else None,
        )

    def check_counted(self) -> None:
        """Everything at the target is a copy of this move, or of an earlier run of it."""
        for key, count in self._already.items():
            if count:
                raise MoveError(
                    f"{key} at {self._target} has {count} records that are not of this move: another "
                    "producer writes to it. Stop that, delete the topic there, and move it again"
                )

    def settle(self, positions: Mapping[TopicPartition, int]) -> None:
        """Wait for all acknowledgements; from then on the state has what was sent."""
        self._producer.flush()
        for key, delivery in self._last.items():
            expected = self._sent[key].offsets.target_next - 1
            offset = delivery.result().offset
            if offset != expected:
                raise MoveError(
                    f"{key} at {self._target}: a copied record has offset {offset} instead of {expected}: "
                    "another producer writes to it. Stop that, delete the topic there, and move it again"
                )
        self._state.partitions |= self._sent
        for key, position in positions.items():
            # Behind the last record there may be others that a transaction has aborted.
            self._state.partitions[key].source_next = max(position, self._state.partitions[key].source_next)
        self._sent = {}
        self._last = {}
        self.unsaved_bytes = 0
