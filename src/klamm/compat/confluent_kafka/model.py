"""confluent-kafka's values that describe a cluster."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Iterable
from enum import Enum


class Node:
    """A broker."""

    def __init__(self, id: int, host: str, port: int, rack: str | None = None) -> None:  # noqa: A002
        self.id = id
        self.id_string = str(id)
        self.host = host
        self.port = port
        self.rack = rack

    def __str__(self) -> str:
        return f"({self.id}) {self.host}:{self.port} {f'(Rack - {self.rack})' if self.rack else ''}"


class Uuid:
    """The id of a topic: two halves of 64 bits, signed; its text is base64."""

    def __init__(self, most_significant_bits: int, least_significant_bits: int) -> None:
        self._halves = (most_significant_bits, least_significant_bits)

    @classmethod
    def of(cls, raw: bytes | uuid.UUID) -> Uuid:
        data = raw.bytes if isinstance(raw, uuid.UUID) else raw
        return cls(int.from_bytes(data[:8], signed=True), int.from_bytes(data[8:], signed=True))

    def get_most_significant_bits(self) -> int:
        return self._halves[0]

    def get_least_significant_bits(self) -> int:
        return self._halves[1]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Uuid) and self._halves == other._halves

    def __hash__(self) -> int:
        return hash(self._halves)

    def __str__(self) -> str:
        raw = b"".join(half.to_bytes(8, signed=True) for half in self._halves)
        return base64.urlsafe_b64encode(raw).decode().rstrip("=")

    __repr__ = __str__


class TopicPartitionInfo:
    """One partition of a described topic."""

    def __init__(
        self,
        id: int,  # noqa: A002
        leader: Node | None,
        replicas: list[Node],
        isr: list[Node],
    ) -> None:
        self.id = id
        self.leader = leader
        self.replicas = replicas
        self.isr = isr


class TopicCollection:
    """The topics to describe."""

    def __init__(self, topic_names: Iterable[str]) -> None:
        self.topic_names = list(topic_names)


class IsolationLevel(Enum):
    """Whether records of open and aborted transactions are read."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


class ElectionType(Enum):
    """Which leader is elected."""

    PREFERRED = 0
    UNCLEAN = 1


class ConsumerGroupState(Enum):
    """The state of a group. The older spelling of two of them has "ING" at the end."""

    UNKNOWN = 0
    PREPARING_REBALANCING = 1
    COMPLETING_REBALANCING = 2
    STABLE = 3
    DEAD = 4
    EMPTY = 5


class ConsumerGroupType(Enum):
    """The protocol of a group."""

    UNKNOWN = 0
    CONSUMER = 1
    CLASSIC = 2


GROUP_STATES = {
    "PreparingRebalance": ConsumerGroupState.PREPARING_REBALANCING,
    "CompletingRebalance": ConsumerGroupState.COMPLETING_REBALANCING,
    "Stable": ConsumerGroupState.STABLE,
    "Dead": ConsumerGroupState.DEAD,
    "Empty": ConsumerGroupState.EMPTY,
}
GROUP_TYPES = {"consumer": ConsumerGroupType.CONSUMER, "classic": ConsumerGroupType.CLASSIC}
