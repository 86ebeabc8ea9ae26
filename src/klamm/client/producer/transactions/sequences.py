"""Identity and sequence numbers in transactions: the coordinator gives one identity for all partitions."""

from __future__ import annotations

from collections.abc import Mapping

from klamm.client.producer.batch import Batch, next_sequence
from klamm.client.producer.sequences import is_next
from klamm.protocol.types import TopicPartition


class TransactionSequences:
    """Numbers batches. A new identity starts all partitions at 0, the same one goes on counting."""

    needs_id = False  # the coordinator gives it, in init_transactions

    def __init__(self) -> None:
        self.producer_id = -1
        self.epoch = -1
        self.is_broken = False  # a number is lost: this epoch must not be used in another transaction
        self._next: dict[TopicPartition, int] = {}

    def identify(
        self, producer_id: int, epoch: int, following: Mapping[TopicPartition, int] | None = None
    ) -> None:
        """Take an identity; `following` has the next sequence of partitions that were written with it."""
        if (producer_id, epoch) != (self.producer_id, self.epoch) or following is not None:
            self._next = dict(following or {})
            self.is_broken = False
        self.producer_id, self.epoch = producer_id, epoch

    def number(self, batch: Batch, *, has_in_flight: bool) -> bool:
        """Set a batch's producer id, epoch and sequence; a batch that was sent before keeps them."""
        if not batch.was_sent:
            batch.is_transactional = True
            batch.producer_id, batch.producer_epoch = self.producer_id, self.epoch
            batch.base_sequence = self._next.get(batch.partition, 0)
            self._next[batch.partition] = next_sequence(batch.base_sequence, batch.record_count)
        return True

    def is_next(self, batch: Batch, still_open: list[Batch]) -> bool:
        """Whether nothing with a lower number is under way or waiting to be sent again."""
        return is_next(batch, still_open)

    def broke(self, partition: TopicPartition) -> None:
        """A number of this partition may never be seen by the broker."""
        self.is_broken = True

    def continue_at(self, partition: TopicPartition, position: int) -> None:
        """Other processes wrote to this partition: its next record has this number, modulo 2**31."""
        self._next[partition] = next_sequence(0, position)

    def following(self) -> dict[TopicPartition, int]:
        """The next sequence of each partition that was written with this identity."""
        return dict(self._next)
