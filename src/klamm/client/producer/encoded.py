"""A producer of records that are encoded already: whole regions go in, the sender does the rest.

Identity, sequence numbers, order, retries and memory are those of every producer; only the way in differs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from klamm.client.producer.batch import BATCH_OVERHEAD_BYTES, Batch
from klamm.client.producer.producer import Producer
from klamm.errors import IllegalStateError, KlammTimeoutError
from klamm.protocol.types import TopicPartition
from klamm.records.arrow import EncodedRegion
from klamm.records.columns import seal
from klamm.records.core import decode_region, encode_region
from klamm.records.record import Record


class EncodedBatch(Batch):
    """A batch of records that are already encoded. There are no futures per record."""

    __slots__ = ("region",)

    def __init__(self, partition: TopicPartition, created_at_ms: int, region: EncodedRegion) -> None:
        super().__init__(partition, created_at_ms, 0)
        self.region = region
        self.close()

    @property
    def record_count(self) -> int:
        return self.region.record_count

    @property
    def size_bytes(self) -> int:
        return BATCH_OVERHEAD_BYTES + len(self.region.data)

    def encoded(self, codec: int, level: int | None) -> bytes:
        return seal(
            self.region,
            codec=codec,
            level=level,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=self.base_sequence,
            transactional=self.is_transactional,
        )

    def unseen_failures(self) -> list[Exception]:
        """None: the caller waits for regions instead."""
        return []

    def split(self, largest_bytes: int) -> list[Batch]:
        """The same records in two batches; `largest_bytes` is met by splitting again."""
        region = self.region
        records = decode_region(region.data, region.record_count, 0, region.base_timestamp_ms, None)
        middle = len(records) // 2
        parts: list[Batch] = []
        for first_index, chosen in ((0, records[:middle]), (middle, records[middle:])):
            part = EncodedBatch(self.partition, self.created_at_ms, _region(region.partition, chosen))
            part.first_index = first_index
            parts.append(part)
        return self._continued_by(parts)

    @property
    def failure(self) -> Exception | None:
        """What kept it, or a part of it, from being delivered."""
        if self.parts:
            return next(
                (part.failure for part in self.parts if isinstance(part, EncodedBatch) and part.failure), None
            )
        return self.error


def _region(partition: int, records: Sequence[Record]) -> EncodedRegion:
    numbered = [record._replace(offset=index) for index, record in enumerate(records)]
    base_ms = numbered[0].timestamp_ms
    data = encode_region(numbered, 0, base_ms)
    latest_ms = max(record.timestamp_ms for record in numbered)
    return EncodedRegion(partition, data, len(numbered), base_ms, latest_ms)


class EncodedProducer(Producer[bytes | None, bytes | None]):
    """Sends encoded regions instead of records; the settings are a producer's."""

    def partition_count(self, topic: str) -> int:
        """How many partitions a topic has; waits for it, `max.block.ms` at most."""
        return len(self._topic(topic, None, self._due_at_ms()).partitions)

    def send_regions(self, topic: str, regions: Iterable[EncodedRegion]) -> list[EncodedBatch]:
        """Send encoded records; blocks while `buffer.memory` is full. `wait` raises delivery errors."""
        if self._is_closed:
            raise IllegalStateError("this producer is closed")
        self._thread.reactor.check_fork()
        batches = []
        for region in regions:
            if self._sender.refuses:
                self._refuse()
            batch = EncodedBatch(TopicPartition(topic, region.partition), self._clock.now_ms(), region)
            self._accumulator.check_size(len(region.data) if region.record_count == 1 else 0)
            self._accumulator.append_batch(batch, self._due_at_ms())
            batches.append(batch)
        return batches

    def continue_at(self, partition: TopicPartition, position: int) -> None:
        """Continue a resumed transaction after so many records of a partition that other processes wrote.

        Nothing sent to the partition before may be unsettled.
        """
        if self._transactions is None:
            raise IllegalStateError("continue_at() needs a transactional producer: set transactional.id")
        self._transactions.manager.sequences.continue_at(partition, position)

    def wait(self, batches: Sequence[EncodedBatch]) -> None:
        """Return when all of these are delivered; raises what kept one from it.

        Every batch ends by `delivery.timeout.ms`, so this does, too.
        """
        for batch in batches:
            if not batch.wait(None):
                raise KlammTimeoutError(f"{batch.partition} was not delivered")
            if batch.failure is not None:
                raise batch.failure

    @property
    def is_broken(self) -> bool:
        """Whether a new one must be made."""
        return self._is_closed or self._sender.fatal is not None or self._thread.reactor.failure is not None

    def _due_at_ms(self) -> int:
        return self._clock.now_ms() + self._settings.max_block_ms
