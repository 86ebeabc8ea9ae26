"""A short story of transactions that is told again and again, with a crash at each append in turn."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from klamm.protocol.errors import ErrorCode
from simulation.admins import create_topics
from simulation.consumers import Consumer, Place
from simulation.machine import CrashPoint
from simulation.network import DisconnectedError
from simulation.offsets import Offsets
from simulation.transactors import Transactional, TransactionOverError
from simulation.workers import READ_COMMITTED
from simulation.world import World

PLACES: Final[tuple[Place, ...]] = (("bank", 0), ("bank", 1))
GROUP: Final = "group"
_SEED: Final = 11
_STABLE: Final = {
    ErrorCode.coordinator_load_in_progress: "the broker has just started",
    ErrorCode.coordinator_not_available: "the topic is being made",
    ErrorCode.not_coordinator: "the broker stops",
}


class Storyteller(Transactional):
    """Commits a transaction with offsets, aborts one, leaves one to be fenced; insists on each of them."""

    def __init__(self, world: World, name: str, *, is_v2: bool) -> None:
        super().__init__(world, name, name, is_v2=is_v2)
        self._offsets = Offsets(self, GROUP, require_stable=True)
        self._place = ("bank", int(is_v2))  # whose offset it commits
        self._is_done = False

    @property
    def is_at_rest(self) -> bool:
        return self._is_done

    async def live(self) -> None:
        await self.learn("bank")
        await self.init()
        for number, is_commit in enumerate((True, False, True)):
            while not await self._is_ended(number + 1, is_commit):
                await self.init()
        told = self.begin()
        with suppress(TransactionOverError):
            await self.write(told, PLACES[0], 1)
        await self.init()  # which aborts it
        if await self._committed() != 3:
            self.world.broken(f"{self.name} has committed 3, and reads {await self._committed()}")
        self._is_done = True

    async def _is_ended(self, offset: int, is_commit: bool) -> bool:
        """One transaction; False when the coordinator aborted it, and it is to be done again."""
        told = self.begin()
        try:
            for place in PLACES:
                await self.write(told, place, 2)
            await self.send_offsets(told, GROUP, {self._place: offset})
            await self.end(told, is_commit=is_commit)
        except TransactionOverError:
            return False
        return True

    async def _committed(self) -> int | None:
        while True:
            with suppress(DisconnectedError):  # the crash may come while the other one tells its story
                positions = await self._offsets.fetch([self._place], _STABLE)
                if positions is not None:
                    return positions[self._place]
            await self.back_off()


def tell(crash: CrashPoint | None = None) -> World:
    """The whole story; the world as it is at the end."""
    with World(_SEED) as world:
        world.machine.crash = crash
        world.do(
            create_topics(world, {"bank": (2, {"segment.bytes": "1024", "index.interval.bytes": "100"})})
        )
        world.add(
            Storyteller(world, "old", is_v2=False),
            Storyteller(world, "new", is_v2=True),
            Consumer(world, "reader", PLACES, READ_COMMITTED),
        )
        world.run(for_ms=1_000)
        world.heal()
        return world
