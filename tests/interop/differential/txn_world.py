"""Transactions as both brokers see them, and sides that have producer ids of their own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from interop.differential.batches import PRODUCER_ID, field_of, with_field
from interop.differential.sides import Side
from klamm.protocol.api import ApiKey

TOPICS: Final = {"xa": 2, "xb": 1}
GROUPS: Final = ("xg", "xh")
_FIRST_STAND_IN: Final = 7_000_000_000  # no broker hands out ids that high here


class TxnSide(Side):
    """One broker, and its producer ids behind our stand-ins."""

    knows_producers = True

    def __init__(self, name: str, address: str) -> None:
        super().__init__(name, address)
        self._real_producers: dict[int, int] = {}
        self._producer_stand_ins: dict[int, int] = {}

    def learn_producer(self, number: int, real: int) -> None:
        """The broker handed out an id: the `number`th that either of them did."""
        if real >= 0 and real not in self._producer_stand_ins:
            stand_in = _FIRST_STAND_IN + number
            self._real_producers[stand_in], self._producer_stand_ins[real] = real, stand_in

    def producer_stand_in(self, real: int) -> int:
        return self._producer_stand_ins.get(real, real)

    def _real_field(self, name: str, value: Any) -> Any:
        if name in ("producer_id", "v3_and_below_producer_id"):
            return self._real_producers.get(value, value)
        if name == "records" and value:
            real = self._real_producers.get(field_of(value, PRODUCER_ID))
            return value if real is None else with_field(value, PRODUCER_ID, real)
        if name == "producer_id_filters":
            return [self._real_producers.get(each, each) for each in value]
        return super()._real_field(name, value)


@dataclass(slots=True)
class Transaction:
    """What a producer with this transactional id believes."""

    transactional_id: str
    producer_id: int = -1  # a stand-in
    epoch: int = -1
    is_v2: bool = False  # the protocol of the transaction that is open
    sequences: dict[tuple[str, int], int] = field(default_factory=dict)
    added: set[tuple[str, int]] = field(default_factory=set)
    added_groups: set[str] = field(default_factory=set)
    identities: list[tuple[int, int]] = field(default_factory=list)  # that it had before

    def restart(self, producer_id: int, epoch: int, *, keeps_sequences: bool = False) -> None:
        """The broker gave it another identity, or ended its transaction."""
        if (producer_id, epoch) != (self.producer_id, self.epoch):
            self.identities.append((self.producer_id, self.epoch))
        self.producer_id, self.epoch = producer_id, epoch
        self.added.clear()
        self.added_groups.clear()
        if not keeps_sequences:
            self.sequences.clear()


@dataclass(slots=True)
class Asked:
    """A request, and what to remember if it goes well."""

    api_key: ApiKey
    version: int
    request: Any
    says: str = ""
    transaction: Transaction | None = None
    frame_change: Callable[[bytes], bytes] | None = None
    appends: tuple[tuple[str, int], int, int] | None = None  # partition, its next sequence, records

    def __str__(self) -> str:
        return f"{self.api_key.name} {self.version} {self.says}"


@dataclass(slots=True)
class TxnWorld:
    """What the steps choose from."""

    random: Random
    transactions: list[Transaction]
    start_ms: int

    def transaction(self) -> Transaction:
        return self.random.choice(self.transactions)

    def partition(self) -> tuple[str, int]:
        topic = self.random.choice(list(TOPICS))
        return topic, self.random.randrange(TOPICS[topic])

    def identity(self, transaction: Transaction, *, right: float = 0.88) -> tuple[int, int, str]:
        """Mostly its own producer id and epoch, sometimes older or wrong ones."""
        producer_id, epoch = transaction.producer_id, transaction.epoch
        chance = self.random.random()
        if chance < right:
            return producer_id, epoch, ""
        if chance < right + 0.04 and transaction.identities:
            return (*self.random.choice(transaction.identities[-3:]), "an older identity")
        if chance < right + 0.07:
            return producer_id, max(0, epoch - 1), "epoch - 1"
        if chance < right + 0.09:
            return producer_id, epoch + 1, "epoch + 1"
        return 6_999_999_999, epoch, "a foreign producer id"
