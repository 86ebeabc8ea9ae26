"""A transaction as a value: what another process needs to carry it on or to end it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from klamm.errors import IllegalStateError
from klamm.protocol.types import TopicPartition


class PreparedTransaction(NamedTuple):
    """The identity of a prepared transaction, to be kept with the decision of a two-phase commit.

    `str()` and `parse` turn it into text and back.
    """

    producer_id: int
    epoch: int

    def __str__(self) -> str:
        return f"{self.producer_id}:{self.epoch}"

    @classmethod
    def parse(cls, text: str) -> PreparedTransaction:
        """From `producer_id:epoch`."""
        producer_id, colon, epoch = text.partition(":")
        try:
            if colon:
                return cls(int(producer_id), int(epoch))
        except ValueError:
            pass
        raise ValueError(f"invalid prepared transaction {text!r}: expected producer_id:epoch, as in 4001:3")


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """An open transaction; pickle it to hand it over.

    Several processes may continue one transaction at the same time if each writes to its own partitions:
    sequences count per partition. `merged` combines their results, and rejects a partition that
    two of them wrote to.
    """

    transactional_id: str
    producer_id: int
    epoch: int
    version: int  # 2: partitions are added by writing to them; 1: by AddPartitionsToTxn
    next_sequences: dict[TopicPartition, int] = field(default_factory=dict)
    partitions: frozenset[TopicPartition] = frozenset()  # that records were sent to
    groups: frozenset[str] = frozenset()  # that offsets were sent to

    @property
    def identity(self) -> tuple[str, int, int]:
        return self.transactional_id, self.producer_id, self.epoch

    @property
    def is_written(self) -> bool:
        """Whether anything was written: records or offsets."""
        return bool(self.partitions or self.groups)

    def merged(self, others: Iterable[OpenTransaction]) -> OpenTransaction:
        """This transaction, combined with the results of other processes."""
        following = dict(self.next_sequences)
        partitions, groups = self.partitions, self.groups
        writers: set[TopicPartition] = set()
        for other in others:
            if other.identity != self.identity:
                raise IllegalStateError(
                    f"these are two transactions: {self.identity} and {other.identity}; "
                    "only what was resumed from one hand_over_transaction() can be merged"
                )
            for partition, sequence in other.next_sequences.items():
                if sequence == self.next_sequences.get(partition):
                    continue
                if partition in writers:
                    raise IllegalStateError(
                        f"two processes wrote to {partition} in one transaction: the broker drops "
                        "the second write as a duplicate; abort, and give each process its own partitions"
                    )
                writers.add(partition)
                following[partition] = sequence
            partitions |= other.partitions
            groups |= other.groups
        return replace(self, next_sequences=following, partitions=partitions, groups=groups)
