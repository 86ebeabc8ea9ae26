"""Identity and sequence numbers: what makes a repeated batch recognisable."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from klamm.client.producer.batch import Batch, next_sequence
from klamm.protocol.types import TopicPartition

LAST_EPOCH: Final = 32_766


@dataclass(slots=True)
class _Numbers:
    producer_id: int
    epoch: int
    next_sequence: int = 0
    is_broken: bool = False  # a batch is lost: restart once nothing is in flight


class Sequences:
    """One producer id; epoch and sequence per partition.

    A broker keeps its record of a producer per partition, so a partition that lost a batch goes on with an
    epoch of its own and sequence 0, and the others notice nothing.
    """

    def __init__(self) -> None:
        self.producer_id = -1
        self._partitions: dict[TopicPartition, _Numbers] = {}
        self.needs_id = True

    def has_id(self, producer_id: int) -> None:
        """A new producer id and epoch; partitions use it from their next restart."""
        self.producer_id = producer_id
        self.needs_id = False

    def number(self, batch: Batch, *, has_in_flight: bool) -> bool:
        """Give a batch its identity and sequence; False when it must wait for what is in flight."""
        numbers = self._partitions.get(batch.partition)
        if numbers is None:
            numbers = self._partitions[batch.partition] = _Numbers(self.producer_id, 0)
        if numbers.is_broken:
            if has_in_flight:
                return False
            self._start_anew(numbers)
        if batch.was_sent and (batch.producer_id, batch.producer_epoch) == (
            numbers.producer_id,
            numbers.epoch,
        ):
            return True  # a retry keeps its number
        batch.producer_id, batch.producer_epoch = numbers.producer_id, numbers.epoch
        batch.base_sequence = numbers.next_sequence
        numbers.next_sequence = next_sequence(numbers.next_sequence, batch.record_count)
        return True

    def is_next(self, batch: Batch, still_open: list[Batch]) -> bool:
        """Whether nothing with a lower number is under way or waiting to be sent again."""
        return is_next(batch, still_open)

    def broke(self, partition: TopicPartition) -> None:
        """A sequence of this partition is lost: its next batch restarts at 0."""
        numbers = self._partitions.get(partition)
        if numbers is not None:
            numbers.is_broken = True

    def _start_anew(self, numbers: _Numbers) -> None:
        if numbers.producer_id != self.producer_id:
            numbers.producer_id, numbers.epoch = self.producer_id, 0
        elif numbers.epoch >= LAST_EPOCH:
            self.needs_id = True  # this identity is used up; the next caller gets a new one
            return
        else:
            numbers.epoch += 1
        numbers.next_sequence = 0
        numbers.is_broken = False


def is_next(batch: Batch, still_open: list[Batch]) -> bool:
    """Whether no other batch of the same epoch has a lower number."""
    return not any(
        other is not batch
        and other.producer_epoch == batch.producer_epoch
        and ((batch.base_sequence - other.base_sequence) & 0x7FFFFFFF) < 0x40000000
        for other in still_open
    )
