"""Producers: some count their batches and repeat them until they are in, some only throw."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.init_producer_id import InitProducerIdRequest
from klamm.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from klamm.protocol.types import ZERO_ID
from klamm.records.record import Record, encode_batch
from simulation.clients import PASSING, Client
from simulation.network import DisconnectedError

if TYPE_CHECKING:
    from simulation.world import World

_IN_FLIGHT: Final = 5
_PRODUCE_TIMEOUT_MS: Final = 5_000
_AFTER_A_FAILURE: Final = {**PASSING, ErrorCode.out_of_order_sequence_number: "one before it failed"}


@dataclass(slots=True)
class Batch:
    """A batch on its way."""

    sequence: int
    data: bytes


def value_of(producer: str, number: int) -> bytes:
    """What a record says of itself: who wrote it, and as which of its records for this partition."""
    return f"{producer} {number} ".encode()


class _Producing(Client):
    def __init__(self, world: World, name: str, targets: Sequence[tuple[str, int]]) -> None:
        super().__init__(world, name)
        self.targets = targets
        self.version = self.random.randint(3, 13)
        self.written = dict.fromkeys(targets, 0)  # records made so far
        self.is_done = False

    @property
    def is_at_rest(self) -> bool:
        return self.is_done

    def make_batch(self, target: tuple[str, int], **options: Any) -> bytes:
        random = self.random
        count = random.choice((1, 1, 2, 5))
        first = self.written[target]
        self.written[target] = first + count
        timestamp_ms = self.world.clock.timestamp_ms() - random.randrange(1000)
        records = [
            Record(
                index, timestamp_ms + index, b"%d" % random.randrange(8),
                value_of(self.name, first + index) + bytes(random.choice((0, 10, 200))),
            )
            for index in range(count)
        ]  # fmt: skip
        return encode_batch(records, codec=random.choice((0, 0, 0, 1, 3)), **options)

    def request(self, target: tuple[str, int], data: bytes, acks: int) -> ProduceRequest:
        topic, partition = target
        topic_id = self.topic_ids.get(topic, ZERO_ID)
        produced = TopicProduceData(topic_id, topic, [PartitionProduceData(partition, data)])
        return ProduceRequest(None, acks, _PRODUCE_TIMEOUT_MS, [produced])


class IdempotentProducer(_Producing):
    """Every batch exactly once and in order, whatever happens on the way."""

    async def live(self) -> None:
        await self.learn(*dict(self.targets))
        answer = await self.insist(
            ApiKey.INIT_PRODUCER_ID, self.random.randint(0, 5), InitProducerIdRequest()
        )
        while answer.error_code:
            self.refused("a producer id", answer.error_code, PASSING)
            await self.back_off()
            answer = await self.insist(ApiKey.INIT_PRODUCER_ID, 4, InitProducerIdRequest())
        self.producer_id, self.producer_epoch = answer.producer_id, answer.producer_epoch
        while not self.world.is_calm:
            await asyncio.gather(*(self._produce(target) for target in self.targets))
            await self.pause(self.random.choice((5, 100, 1_500)))
        self.is_done = True

    async def _produce(self, target: tuple[str, int]) -> None:
        window = [self._batch(target) for _ in range(self.random.randint(0, _IN_FLIGHT))]
        while window:
            try:
                errors = await self._send(target, window)
            except DisconnectedError:
                await self.back_off()
                continue
            failed = [error for error in errors if error]
            if failed:
                # Everything before the first was acknowledged: the broker has no reason to miss anything.
                self.refused(f"the next batch for {target}", failed[0], PASSING)
                for error in failed[1:]:
                    self.refused(f"a batch for {target}", error, _AFTER_A_FAILURE)
                await self.back_off()
            window = [batch for batch, error in zip(window, errors, strict=True) if error]

    def _batch(self, target: tuple[str, int]) -> Batch:
        sequence = self.written[target]
        return Batch(
            sequence,
            self.make_batch(
                target,
                producer_id=self.producer_id,
                producer_epoch=self.producer_epoch,
                base_sequence=sequence,
            ),
        )

    async def _send(self, target: tuple[str, int], window: Sequence[Batch]) -> list[int]:
        """Send all at once; the error of each."""
        link = await self.link()
        futures = []
        for batch in window:
            futures.append(link.send(ApiKey.PRODUCE, self.version, self.request(target, batch.data, -1)))
        errors = []
        for batch, future in zip(window, futures, strict=True):
            response = await self.answer(link, future)
            (answer,) = response.responses[0].partition_responses
            if not answer.error_code:
                self.world.ledger.acknowledged(target, self.name, batch.sequence)
            errors.append(answer.error_code)
        return errors


class CarelessProducer(_Producing):
    """Sends with acks 0 or 1 and forgets: much may get lost, but nothing that anybody has read."""

    async def live(self) -> None:
        while not self.world.is_calm:
            await self.learn(*dict(self.targets))
            target = self.random.choice(list(self.targets))
            acks = self.random.choice((0, 1))
            link = await self.link()
            request = self.request(target, self.make_batch(target), acks)
            future = link.send(ApiKey.PRODUCE, self.version, request, wants_answer=acks != 0)
            try:
                await self.answer(link, future)
            except DisconnectedError:
                await self.back_off()
            await self.pause(self.random.choice((10, 200, 1_000)))
        self.is_done = True
