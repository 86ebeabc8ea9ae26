"""Records sent before their topic is known: each waits by itself until the metadata gives it a partition."""

from __future__ import annotations

from typing import Final

from klamm.client.producer.batch import BATCH_OVERHEAD_BYTES, Batch, Content
from klamm.protocol.types import TopicPartition

UNPLACED: Final = -1  # the partition of a record that has none yet


class ParkedRecord(Batch):
    """A batch of one record that is never sent itself.

    Placed, the record is added to a batch of its partition; this one then ends as that one does.
    """

    __slots__ = ("asked_partition",)

    def __init__(self, topic: str, asked_partition: int | None, created_at_ms: int, size_bytes: int) -> None:
        super().__init__(TopicPartition(topic, UNPLACED), created_at_ms, size_bytes + BATCH_OVERHEAD_BYTES)
        self.asked_partition = asked_partition

    def content(self) -> Content:
        (record,) = self._records()
        return record.timestamp_ms, record.key, record.value, record.headers
