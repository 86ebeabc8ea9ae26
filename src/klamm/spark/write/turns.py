"""Tasks of one machine that write to the same partitions in one transaction take turns.

A broker accepts the batches of a producer in the order of their sequence numbers, so a task must know where
the others have stopped. Each partition has a small file: its lock is the turn, its content the position.
That the result is right does not depend on it: brokers reject a number that is not the next one, and the
commit compares what the tasks report.
"""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Protocol, Self

from klamm.client.producer.encoded import EncodedBatch
from klamm.client.producer.transactions.handover import OpenTransaction
from klamm.clock import Clock
from klamm.errors import KlammError, KlammTimeoutError
from klamm.protocol.types import TopicPartition
from klamm.records.arrow import EncodedRegion

try:
    import fcntl
except ImportError:  # Windows has none: there, a partition needs one task
    fcntl = None  # type: ignore[assignment]

CAN_SHARE: Final = fcntl is not None
# Records of a partition that are collected before a turn, unless nothing more comes.
TURN_BYTES: Final = 2 << 20
# Records that wait for turns; above this limit a task waits for one.
MAX_WAITING_BYTES: Final = 32 << 20
PAUSE_S: Final = 0.002
_FILE: Final = struct.Struct("<qiqi")  # producer id, epoch, position, 1 while a turn lasts


class Span(NamedTuple):
    """Records of a partition that one task wrote in a row, as positions among all of the transaction."""

    first: int
    following: int


class SequencedProducer(Protocol):
    """What taking turns needs of a producer."""

    def send_regions(self, topic: str, regions: list[EncodedRegion]) -> list[EncodedBatch]: ...
    def continue_at(self, partition: TopicPartition, position: int) -> None: ...
    def wait(self, batches: list[EncodedBatch]) -> None: ...


class TurnFiles:
    """The files of one transaction's partitions, as one task uses them."""

    def __init__(self, folder: Path, transaction: OpenTransaction) -> None:
        name = sha256(transaction.transactional_id.encode()).hexdigest()[:24]
        self._folder = folder / name
        self._folder.mkdir(parents=True, exist_ok=True)
        self._identity = transaction.producer_id, transaction.epoch
        self._files: dict[TopicPartition, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Release all locks; a turn that was not ended stays marked."""
        for descriptor in self._files.values():
            os.close(descriptor)
        self._files.clear()

    def take(self, partition: TopicPartition) -> int | None:
        """Begin a turn: the position to continue at; None while it is another task's turn."""
        descriptor = self._files.get(partition)
        if descriptor is None:
            path = self._folder / f"{partition.topic}-{partition.partition}"
            descriptor = self._files[partition] = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return None
        position = 0
        content = os.pread(descriptor, _FILE.size, 0)
        if len(content) == _FILE.size:
            producer_id, epoch, reached, is_open = _FILE.unpack(content)
            if (producer_id, epoch) == self._identity:  # else it is what an earlier batch has left
                if is_open:
                    raise KlammError(
                        f"a task ended while it wrote to {partition}: the batch is run again whole"
                    )
                position = reached
        os.pwrite(descriptor, _FILE.pack(*self._identity, position, 1), 0)
        return position

    def give_back(self, partition: TopicPartition, position: int) -> None:
        """End a turn; the next one continues at this position."""
        descriptor = self._files[partition]
        os.pwrite(descriptor, _FILE.pack(*self._identity, position, 0), 0)
        fcntl.flock(descriptor, fcntl.LOCK_UN)


@dataclass(slots=True)
class _Turn:
    first: int
    following: int
    batches: list[EncodedBatch]


@dataclass(slots=True)
class TakingTurns:
    """Sends regions in turns. A task that waits holds no turn, so no two tasks wait for each other."""

    producer: SequencedProducer
    files: TurnFiles
    clock: Clock
    timeout_s: float
    pause: Callable[[float], None] = time.sleep
    _waiting: dict[TopicPartition, list[EncodedRegion]] = field(default_factory=dict)
    _turns: dict[TopicPartition, _Turn] = field(default_factory=dict)
    _written: dict[TopicPartition, list[Span]] = field(default_factory=dict)

    def send(self, topic: str, regions: list[EncodedRegion]) -> None:
        """Send what it is this task's turn for; the rest is kept."""
        for region in regions:
            self._waiting.setdefault(TopicPartition(topic, region.partition), []).append(region)
        self._end_turns(settled_only=True)
        self._use_turns(TURN_BYTES)
        while sum(map(_size, self._waiting.values())) > MAX_WAITING_BYTES:
            self._wait_for_a_turn()

    def finish(self) -> None:
        """Send what is left, and wait until the brokers have everything."""
        while self._waiting:
            self._end_turns(settled_only=True)
            if not self._use_turns(0):
                self._wait_for_a_turn()
        self._end_turns()

    def written(self) -> Mapping[TopicPartition, tuple[Span, ...]]:
        """What was written in which order."""
        return {partition: tuple(parts) for partition, parts in self._written.items()}

    def _use_turns(self, min_bytes: int) -> bool:
        """Take every turn that is free and worth it; whether there was one."""
        taken = False
        for partition in [key for key, regions in self._waiting.items() if _size(regions) >= min_bytes]:
            position = None if partition in self._turns else self.files.take(partition)
            if position is None:
                continue
            taken = True
            regions = self._waiting.pop(partition)
            self.producer.continue_at(partition, position)
            batches = self.producer.send_regions(partition.topic, regions)
            following = position + sum(region.record_count for region in regions)
            self._turns[partition] = _Turn(position, following, batches)
        return taken

    def _end_turns(self, *, settled_only: bool = False) -> None:
        for partition, turn in list(self._turns.items()):
            if settled_only and not all(batch.is_settled for batch in turn.batches):
                continue
            self.producer.wait(turn.batches)
            del self._turns[partition]
            self.files.give_back(partition, turn.following)
            parts = self._written.setdefault(partition, [])
            parts.append(Span(turn.first, turn.following))

    def _wait_for_a_turn(self) -> None:
        self._end_turns()  # others may wait for these
        due_ms = self.clock.now_ms() + self.timeout_s * 1000
        while not self._use_turns(0):
            if self.clock.now_ms() >= due_ms:
                raise KlammTimeoutError(
                    f"{next(iter(self._waiting))} was in use by other tasks for {self.timeout_s:g} s"
                )
            self.pause(PAUSE_S)


def _size(regions: list[EncodedRegion]) -> int:
    return sum(len(region.data) for region in regions)
