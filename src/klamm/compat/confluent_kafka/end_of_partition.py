"""`enable.partition.eof`: a consumer learns that it has read a partition to its end."""

from __future__ import annotations

from klamm.client.consumer.consumer_operations import ConsumerOperations
from klamm.client.consumer.state import PositionStatus
from klamm.compat.confluent_kafka.error import KafkaError
from klamm.compat.confluent_kafka.error_codes import CODES
from klamm.compat.confluent_kafka.message import Message
from klamm.protocol.types import TopicPartition


class Ends:
    """Tells each end once: again when records were read beyond it, or after a seek."""

    def __init__(self, operations: ConsumerOperations) -> None:
        self._operations = operations
        self._told: dict[TopicPartition, int] = {}

    def forget(self, partition: TopicPartition) -> None:
        self._told.pop(partition, None)

    def take(self) -> Message | None:
        """An end that was not told yet. Positions are exact only when nothing is left to hand out."""
        engine = self._operations.engine
        if engine.handout.has_more:
            return None
        with engine.state.lock:
            for partition, item in engine.state.partitions.items():
                if item.status is not PositionStatus.FETCHING or item.is_paused:
                    continue
                reads_committed = engine.settings.is_read_committed
                end = item.last_stable_offset if reads_committed else item.high_watermark
                if 0 <= end <= item.offset != self._told.get(partition):
                    self._told[partition] = item.offset
                    return _end(partition, item.offset)
        return None


def _end(partition: TopicPartition, offset: int) -> Message:
    text = f"Fetch from broker reached end of partition at offset {offset}"
    error = KafkaError(CODES["_PARTITION_EOF"], text)
    return Message(partition.topic, partition.partition, offset, error=error)
