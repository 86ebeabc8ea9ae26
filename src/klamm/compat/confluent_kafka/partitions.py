"""confluent-kafka's TopicPartition, and what is made of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from klamm.client.committed import Committed
from klamm.compat.confluent_kafka.arguments import INT_BITS, text, whole
from klamm.compat.confluent_kafka.error import KafkaError
from klamm.protocol.types import TopicPartition as OwnPartition

OFFSET_BEGINNING: Final = -2
OFFSET_END: Final = -1
OFFSET_STORED: Final = -1000
OFFSET_INVALID: Final = -1001


class TopicPartition:
    """A partition, and an offset where one is meant."""

    def __init__(
        self,
        topic: str,
        partition: int = -1,
        offset: int = OFFSET_INVALID,
        metadata: str | None = None,
        leader_epoch: int | None = None,
    ) -> None:
        self.topic = text(topic, "topic")
        self.partition = whole(partition, "partition", INT_BITS)
        self.offset = whole(offset, "offset")
        self.metadata = metadata
        self.leader_epoch = leader_epoch
        self.error: KafkaError | None = None

    @property
    def own(self) -> OwnPartition:
        # Checked again: the fields can be set.
        return OwnPartition(text(self.topic, "topic"), whole(self.partition, "partition", INT_BITS))

    def to_commit(self) -> Committed:
        """What a commit of it stores."""
        epoch = -1 if self.leader_epoch is None else self.leader_epoch
        return Committed(self.offset, epoch, self.metadata or "")

    def _place(self) -> tuple[str, int]:
        return self.topic, self.partition

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TopicPartition) and self._place() == other._place()

    def __lt__(self, other: TopicPartition) -> bool:
        return self._place() < other._place()

    def __hash__(self) -> int:
        return hash(self._place())

    def __repr__(self) -> str:
        return (
            f"TopicPartition{{topic={self.topic},partition={self.partition},offset={self.offset},"
            f"leader_epoch={self.leader_epoch},error={self.error}}}"
        )


def one_partition(item: Any) -> TopicPartition:
    """The argument, if it is a partition."""
    if not isinstance(item, TopicPartition):
        raise TypeError(f"expected TopicPartition, not {type(item).__name__}")
    return item


def many_partitions(items: Iterable[TopicPartition]) -> list[TopicPartition]:
    """The argument, if it is a list of partitions."""
    if isinstance(items, str | TopicPartition) or not isinstance(items, Iterable):
        raise TypeError(f"requires list of TopicPartition, not {type(items).__name__}")
    return [one_partition(item) for item in items]


class ConsumerGroupTopicPartitions:
    """A group, and partitions of which its offsets are asked for, changed or told."""

    def __init__(self, group_id: str, topic_partitions: list[TopicPartition] | None = None) -> None:
        self.group_id = group_id
        self.topic_partitions = topic_partitions

    def __repr__(self) -> Any:
        return f"ConsumerGroupTopicPartitions({self.group_id!r}, {self.topic_partitions})"
