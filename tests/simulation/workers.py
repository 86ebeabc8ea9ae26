"""Consume, transform, produce: every input has one output, whoever died on the way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from klamm.protocol.messages.fetch import PartitionData
from klamm.records.committed import visible_batches
from simulation.consumers import Fetcher, Place
from simulation.members import EXPECTED, Member, OutOfGroupError, Reader
from simulation.network import DisconnectedError
from simulation.offsets import Offsets
from simulation.transaction_ledger import Source
from simulation.transactors import GroupMovedError, Transactional, TransactionOverError

if TYPE_CHECKING:
    from simulation.world import World

READ_COMMITTED: Final = 1


def committed_sources(place: Place, position: int, data: PartitionData) -> list[Source]:
    """The records that a read_committed reader gets from an answer."""
    if not data.records:
        return []
    aborted = [(each.producer_id, each.first_offset) for each in data.aborted_transactions or ()]
    return [
        (*place, offset)
        for _, header in visible_batches(data.records, first_offset=position, aborted=aborted)
        for offset in range(max(header.base_offset, position), header.next_offset)
    ]


class _Inputs(Fetcher):
    """Reads what is committed, and keeps it until it is transformed."""

    def __init__(self, world: World, name: str) -> None:
        super().__init__(world, name)
        self.isolation_level = READ_COMMITTED
        self.sources: list[Source] = []

    def received(self, place: Place, data: PartitionData) -> None:
        self.sources += committed_sources(place, self.positions[place], data)


class Worker(Transactional):
    """Has some partitions to itself, with rivals for the same id: each fences the others when it begins."""

    def __init__(
        self,
        world: World,
        name: str,
        transactional_id: str,
        group: str,
        inputs: Sequence[Place],
        outputs: Sequence[Place],
        *,
        is_v2: bool,
        is_last: bool,
    ) -> None:
        super().__init__(world, name, transactional_id, is_v2=is_v2)
        self._group = group
        self._places = inputs
        self._outputs = outputs
        self._is_last = is_last  # of the rivals: it works until everything is done
        self._offsets = Offsets(self, group, require_stable=True)
        self._reader = _Inputs(world, f"{name}-reader")
        self._is_done = False
        world.transactions.ledger.consumed_topics |= {topic for topic, _ in inputs}

    @property
    def is_at_rest(self) -> bool:
        reader, world = self._reader, self.world
        return self._is_done or (
            set(reader.positions) == set(self._places)
            and not reader.sources
            and all(reader.positions[place] >= world.high_watermark(place) for place in self._places)
        )

    async def live(self) -> None:
        await self._reader.learn(*dict(self._places))
        await self.learn(*dict(self._places), *dict(self._outputs))
        while not self.world.is_over:
            if self.world.is_calm and not self._is_last:
                self._is_done = True
                return
            try:
                await self.init()
                await self._work()
            except TransactionOverError:
                await self.pause(self.random.choice((0, 500, 3_000)))
            except DisconnectedError:
                await self.back_off()

    async def _work(self) -> None:
        positions = await self._offsets.fetch(self._places, EXPECTED)
        if positions is None:
            await self.back_off()
            return
        self._reader.begin_at(positions)
        self._reader.sources = []
        while not self.world.is_over and (self._is_last or not self.world.is_calm):
            await self._reader.fetch(max_wait_ms=300)
            await self.pause(self.random.choice((5, 100, 500)))
            if self._reader.sources:
                await self._transform()
            if not self.world.is_calm and self.random.random() < 0.05:
                return  # another process in its place

    async def _transform(self) -> None:
        sources, positions = self._reader.sources, dict(self._reader.positions)
        told = self.begin()
        for place in self._outputs:
            chosen = [source for source in sources if source[2] % len(self._outputs) == place[1]]
            if chosen:
                await self.write(told, place, len(chosen), chosen)
        await self.send_offsets(told, self._group, positions)
        if not self.world.is_calm and self.random.random() < 0.1:
            await self.end(told, is_commit=False)
            raise TransactionOverError  # back to what is committed
        await self.end(told, is_commit=True)
        self._reader.sources = []


class _MemberInputs(Reader):
    def __init__(self, world: World, name: str, group: str) -> None:
        super().__init__(world, name, group)
        self.isolation_level = READ_COMMITTED
        self.sources: list[Source] = []

    def received(self, place: Place, data: PartitionData) -> None:
        self.sources += committed_sources(place, self.positions[place], data)


class TransactingMember(Member):
    """A member that commits its offsets in transactions; the group fences those that have lost their work."""

    OUTPUTS: tuple[Place, ...] = ()
    reader: _MemberInputs

    def __init__(
        self, world: World, name: str, group: str, topics: Sequence[str], instance_id: str | None = None
    ) -> None:
        super().__init__(world, name, group, topics, instance_id)
        base_name = name.partition(".")[0]
        self._producer = Transactional(
            world, f"{name}-producer", f"{group}-{base_name}", is_v2=self.random.random() < 0.5
        )
        self.offsets = Offsets(self, group, require_stable=True)
        world.transactions.ledger.consumed_topics |= set(topics)

    def make_reader(self) -> Reader:
        return _MemberInputs(self.world, f"{self.name}-reader", self.group)

    async def _work(self) -> None:
        self.reader.sources = []
        await self._producer.learn(*dict(self.OUTPUTS))
        await self._again(self._producer.init())
        await super()._work()

    async def _commit(self) -> None:
        positions = dict(self.reader.positions)
        if positions.items() <= self.offsets.committed.items():  # as it is judged to be at rest
            return
        await self._again(self._transform(positions))
        self.offsets.committed = positions
        self.reader.sources = []

    async def _again(self, step: Any) -> None:
        try:
            await step
        except TransactionOverError:
            raise OutOfGroupError from None

    async def _transform(self, positions: dict[Place, int]) -> None:
        producer = self._producer
        told = producer.begin()
        for place in self.OUTPUTS:
            chosen = [source for source in self.reader.sources if source[2] % len(self.OUTPUTS) == place[1]]
            if chosen:
                await producer.write(told, place, len(chosen), chosen)
        try:
            await producer.send_offsets(
                told, self.group, positions, self.generation, self.member_id, self.instance_id
            )
        except GroupMovedError:
            await producer.end(told, is_commit=False)
            raise
        await producer.end(told, is_commit=True)
