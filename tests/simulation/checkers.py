"""What is watched from outside, and what must be true of it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode
from klamm.records.batch import BatchHeader
from klamm.storage.log import EngineLog
from simulation.network import Exchange

if TYPE_CHECKING:
    from simulation.world import World

Place = tuple[str, int]

_LONGEST_WAIT_MS: Final = 30_000  # longer than any timeout in these worlds


class Checker:
    """Sees everything; says `world.broken` when it should not be."""

    def __init__(self, world: World) -> None:
        self.world = world

    # the wire
    def delivered(self, exchange: Exchange) -> None: ...
    def answered(self, exchange: Exchange) -> None: ...
    def ended(self, exchange: Exchange) -> None: ...

    # the disk
    def log_opened(self, log: EngineLog) -> None: ...
    def appending(self, log: EngineLog, batch: bytes) -> None: ...
    def appended(self, log: EngineLog, batch: bytes, base_offset: int) -> None:
        """The log has it, and it was no duplicate."""

    def became_safe(self, log: EngineLog, header: BatchHeader, batch: bytes) -> None:
        """A batch is below the high watermark from now on; of each partition in the order of offsets."""

    # the broker
    def started(self) -> None: ...
    def died(self, how: str) -> None: ...

    def at_the_end(self) -> None:
        """Everything has healed and come to rest."""


class WireChecker(Checker):
    """Every request ends once: in its answer, in order, or with its connection."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.endings: Counter[Exchange] = Counter()
        self.joins: dict[Exchange, None] = {}
        self.answers: Counter[str] = Counter()
        self._open: dict[Exchange, None] = {}

    def delivered(self, exchange: Exchange) -> None:
        if exchange.api_key is ApiKey.JOIN_GROUP:
            self.joins[exchange] = None
        if exchange.wants_answer:
            self._open[exchange] = None

    def answered(self, exchange: Exchange) -> None:
        self.answers[exchange.api_key.name] += 1
        self._end(exchange)
        if getattr(exchange.response, "error_code", 0) == ErrorCode.unknown_server_error:
            self.world.broken(
                f"{exchange.api_key.name} of {exchange.client} failed for no reason: {exchange}"
            )

    def ended(self, exchange: Exchange) -> None:
        if exchange.delivered_at is not None:
            self._end(exchange)

    def _end(self, exchange: Exchange) -> None:
        self._open.pop(exchange, None)
        if exchange in self.joins:
            self.endings[exchange] += 1

    def at_the_end(self) -> None:
        """Nobody waits for ever: what is parked now came lately."""
        since_ms = self.world.clock.now_ms() - _LONGEST_WAIT_MS
        for exchange in self._open:
            if exchange.sent_at_ms < since_ms:
                self.world.broken(f"{exchange.api_key.name} of {exchange.link} never ended")


class Ledger:
    """What producers were told is safe: the number of the first record of each acknowledged batch."""

    def __init__(self) -> None:
        self.batches: dict[Place, dict[str, set[int]]] = {}

    def acknowledged(self, place: Place, producer: str, first_number: int) -> None:
        self.batches.setdefault(place, {}).setdefault(producer, set()).add(first_number)
