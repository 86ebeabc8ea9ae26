"""confluent-kafka's TopicPartition, and what is made of it."""

from __future__ import annotations

from typing import Any, Final

from klamm.client.committed import Committed
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
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.metadata = metadata
        self.leader_epoch = leader_epoch
        self.error: KafkaError | None = None

    @property
    def own(self) -> OwnPartition:
        return OwnPartition(self.topic, self.partition)

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


class ConsumerGroupTopicPartitions:
    """A group, and partitions of which its offsets are asked for, changed or told."""

    def __init__(self, group_id: str, topic_partitions: list[TopicPartition] | None = None) -> None:
        self.group_id = group_id
        self.topic_partitions = topic_partitions

    def __repr__(self) -> Any:
        return f"ConsumerGroupTopicPartitions({self.group_id!r}, {self.topic_partitions})"
