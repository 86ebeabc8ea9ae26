"""A whole world from one number: a broker, its clients, everything that goes wrong, and who watches it."""

from __future__ import annotations

import asyncio
import logging
import re
from collections import deque
from collections.abc import Coroutine, Mapping, Sequence
from random import Random
from types import TracebackType
from typing import Any, Final
from zlib import crc32

from klamm.broker.partitions.registry import Partition
from klamm.clock import ManualClock
from klamm.protocol.errors import ErrorCode
from klamm.records.batch import BatchHeader
from klamm.storage.engines.simulated_disk import PowerLossError
from klamm.storage.log import EngineLog, LogError
from simulation.admins import inspect
from simulation.brief import brief
from simulation.checkers import Checker, Ledger, WireChecker
from simulation.clients import Client
from simulation.consumer_group_checker import ConsumerGroupChecker
from simulation.faults import NO_FAULTS, Faults
from simulation.group_checker import GroupChecker
from simulation.log_checker import LogChecker
from simulation.loops import Agenda, ProcessLoop, end
from simulation.machine import FOLDER, Machine
from simulation.members import Member, at_rest
from simulation.network import DisconnectedError, Exchange, Network
from simulation.offset_checker import OffsetChecker
from simulation.reopening import complaint_about
from simulation.transaction_checker import TransactionChecker
from simulation.txn_offset_checker import TxnOffsetChecker

SETTINGS: Final[Mapping[str, str]] = {
    "offsets.topic.num.partitions": "2",
    "offsets.topic.segment.bytes": "8192",
    "group.initial.rebalance.delay.ms": "500",
    "group.min.session.timeout.ms": "1000",
    "auto.create.topics.enable": "false",
    "log.retention.check.interval.ms": "7000",
    "log.flush.offset.checkpoint.interval.ms": "9000",
    "log.cleaner.backoff.ms": "5000",
    "transaction.state.log.num.partitions": "2",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "transaction.two.phase.commit.enable": "true",
}
_METADATA: Final = re.compile(r"(/\S+)/partition\.metadata")
_REMEMBERED_EVENTS: Final = 80
_LINE_LENGTH: Final = 400
_RESTART_AFTER_MS: Final = (50, 1_000, 4_000, 12_000)
_HEALED_WITHIN_MS: Final = 240_000
_LAST_FLUSH_MS: Final = 100  # what nothing waits for is flushed a little later


class BrokenPromiseError(AssertionError):
    """What should never be, with the seed that shows it."""


class World:
    """One run. The same seed gives the same run, to the byte."""

    def __init__(
        self,
        seed: int,
        faults: Faults = NO_FAULTS,
        settings: Mapping[str, str] | None = None,
        test: str = "test_seeds.py",
    ) -> None:
        self.seed = seed
        self._test = test  # the file that runs it again
        self.faults = faults
        self.random = Random(seed)
        self.clock = ManualClock()
        self.agenda = Agenda(self.clock)
        self.loop = ProcessLoop(self.clock)  # the clients'
        self.loop.set_exception_handler(self._client_failed)
        self.agenda.add(self.loop)
        self.machine = Machine(self.random, self.agenda, {**SETTINGS, **(settings or {})}, self)
        self.network = Network(self.random, self.loop, self.machine, self)
        self.ledger = Ledger()
        self.wire = WireChecker(self)
        self.logs = LogChecker(self)
        self.offsets = OffsetChecker(self)
        self.groups = GroupChecker(self, self.offsets)
        self.consumer_groups = ConsumerGroupChecker(self, self.groups)
        self.transactions = TransactionChecker(self)
        self.checkers: list[Checker] = [
            self.wire,
            self.logs,  # first of those that look into logs: it tells the others what is safe
            self.offsets,
            self.groups,
            self.consumer_groups,
            self.transactions,
            TxnOffsetChecker(self, self.offsets),
        ]
        self.partition_counts: dict[str, int] = {}
        self.intervals: dict[tuple[str, tuple[str, int]], list[tuple[int, int]]] = {}
        self.clients: list[Client] = []
        self.is_calm = False  # nothing new goes wrong, and nobody begins anything new
        self.is_over = False
        self.deaths: list[str] = []
        self.digest = 0  # of every byte that the broker sent
        self._events: deque[tuple[int, str, tuple[object, ...]]] = deque(maxlen=_REMEMBERED_EVENTS)
        self._moment = 0
        self._violations: list[str] = []
        self._log_handler = _ErrorLog(self)
        logging.getLogger("klamm").addHandler(self._log_handler)
        self._to_rename: set[str] = set()  # directories that the broker asked its operator to rename
        self.machine.start()
        self.agenda.run(1_000, self._check)

    def __enter__(self) -> World:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        logging.getLogger("klamm").removeHandler(self._log_handler)
        self.machine.disk.switch_off()
        for loop in (self.loop, self.machine.loop):
            if not loop.is_closed():
                end(loop)

    # -- letting it run

    def add(self, *clients: Client) -> None:
        for client in clients:
            self.clients.append(client)
            self.loop.create_task(self._live(client))

    async def _live(self, client: Client) -> None:
        try:
            await client.live()
        except asyncio.CancelledError:
            raise
        except Exception as error:
            self.broken(f"{client.name} does not understand the world: {error!r}")
            raise

    def later(self, coroutine: Coroutine[Any, Any, None]) -> None:
        self.loop.create_task(coroutine)

    def do(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Let something be done before anything goes wrong."""
        task = self.loop.create_task(coroutine)
        while not task.done():
            self.pass_ms(100)
        task.result()

    def run(self, for_ms: int) -> None:
        """Let the clients live and things go wrong."""
        self.machine.set_faults(self.faults)
        self.network.faults = self.faults
        weather = self.loop.create_task(self._weather())
        self.pass_ms(for_ms)
        weather.cancel()

    def pass_ms(self, duration_ms: int) -> None:
        self.agenda.run(self.clock.now_ms() + duration_ms, self._check)

    def heal(self) -> None:
        """Nothing goes wrong any more: everything must come to rest, and hold what was promised."""
        self.is_calm = True
        self.machine.set_faults(NO_FAULTS)
        self.network.faults = NO_FAULTS
        give_up_ms = self.clock.now_ms() + _HEALED_WITHIN_MS
        while restless := self._restless():
            if self.clock.now_ms() > give_up_ms:
                self.broken(f"did not come to rest: {', '.join(restless)}")
            self.pass_ms(1_000)
        self.do(inspect(self, self._members()))
        self.pass_ms(_LAST_FLUSH_MS)
        for checker in self.checkers:
            checker.at_the_end()
        self._check_consumed()
        self.is_over = True
        self._check()
        self._check_disk()
        self._check()

    def _restless(self) -> Sequence[str]:
        if not self.machine.is_serving:
            return ["the broker"]
        assert self.machine.broker is not None
        offline = [
            str(each.name)
            for each in self.machine.broker.services.partitions
            if each.error_code is not ErrorCode.none
        ]
        if offline:
            # An operator's part: the disk is well again, the log is opened again.
            self._to_rename &= {f"{FOLDER}/{each}" for each in offline}
            self.machine.stop()
            return offline
        restless = [client.name for client in self.clients if not client.is_at_rest]
        return restless or [group for group, members in self._members().items() if not at_rest(self, members)]

    def _members(self) -> dict[str, list[Member]]:
        groups: dict[str, list[Member]] = {}
        for client in self.clients:
            if isinstance(client, Member):
                groups.setdefault(client.group, []).append(client)
        return groups

    def _check_consumed(self) -> None:
        """Every group has got every record that is still there, whoever died on the way."""
        for (group, (topic, partition)), taken in self.intervals.items():
            history = self.logs.newest((topic, partition))
            next_offset = max(history.log.log_start_offset, history.start_seen)
            for first, last in sorted(taken):
                if first <= next_offset:
                    next_offset = max(next_offset, last)
            if next_offset < history.log.high_watermark:
                self.broken(f"{group} never got {topic}-{partition} from {next_offset} on")

    def _check_disk(self) -> None:
        """What is on disk says the same to everybody who opens it."""
        self.machine.stop()
        while self.machine.is_on:
            self.pass_ms(100)
        complaint = complaint_about(self.machine)
        if complaint is not None:
            self.broken(complaint)

    async def _weather(self) -> None:
        while True:
            await asyncio.sleep(1)
            if self.random.random() < self.faults.stop:
                self.machine.stop()
            elif self.random.random() < self.faults.move:
                self.machine.move_a_shard()

    def _check(self) -> None:
        """After every turn: has a promise been broken, has the broker died?"""
        if self.machine.is_dead:
            how = self.machine.bury()
            self.network.host_died()
            self.deaths.append(how)
            if self.is_calm:
                self._rename()
            if not self.is_over:
                delay_ms = 50 if self.is_calm else self.random.choice(_RESTART_AFTER_MS)
                self.loop.call_later(delay_ms / 1000, self.machine.start)
        if self._violations:
            raise BrokenPromiseError(self._story())

    def asked_to_rename(self, directory: str) -> None:
        """Whose log it is only its operator can know, who made its topic, or deleted it."""
        self._to_rename.add(directory)

    def _rename(self) -> None:
        directories, self._to_rename = self._to_rename, set()
        for directory in sorted(directories):
            self.machine.disk.rename(directory, f"{directory}.by-hand")

    def _story(self) -> str:
        lines = [
            f"{at_ms:>8} ms  {kind} {' '.join(map(brief, what))}"[:_LINE_LENGTH]
            for at_ms, kind, what in self._events
        ]
        return "\n".join(
            (
                f"seed {self.seed}, after {self.clock.now_ms()} ms: {self._violations[0]}",
                f"replay: KLAMM_SEED={self.seed} python -m pytest tests/simulation/{self._test}",
                *lines,
            )
        )

    # -- what the checkers are told

    def broken(self, message: str) -> None:
        """A promise is broken: the run ends after this turn."""
        self._violations.append(message)

    def note(self, kind: str, *what: object) -> None:
        """For the story of a failure."""
        self._events.append((self.clock.now_ms(), kind, what))

    def moment(self) -> int:
        self._moment += 1
        return self._moment

    def delivered(self, exchange: Exchange) -> None:
        self.note("asked", exchange.link, exchange.correlation_id, exchange.request)
        for checker in self.checkers:
            checker.delivered(exchange)

    def answered(self, exchange: Exchange, frame: bytes) -> None:
        self.digest = crc32(frame, self.digest)
        self.note("told", exchange.link, exchange.correlation_id, exchange.response)
        for checker in self.checkers:
            checker.answered(exchange)

    def ended(self, exchange: Exchange) -> None:
        self.note("unanswered", exchange.link, exchange.correlation_id)
        for checker in self.checkers:
            checker.ended(exchange)

    def log_opened(self, log: EngineLog) -> None:
        self.note("opened", f"{log.topic}-{log.partition}", log.log_start_offset, log.log_end_offset)
        for checker in self.checkers:
            checker.log_opened(log)

    def appending(self, log: EngineLog, batch: bytes) -> None:
        for checker in self.checkers:
            checker.appending(log, batch)

    def appended(self, log: EngineLog, batch: bytes, base_offset: int) -> None:
        for checker in self.checkers:
            checker.appended(log, batch, base_offset)

    def became_safe(self, log: EngineLog, header: BatchHeader, batch: bytes) -> None:
        for checker in self.checkers:
            checker.became_safe(log, header, batch)

    def turned(self, *, disk_was_used: bool) -> None:
        if disk_was_used:
            self.logs.turned()
            self.transactions.turned()
        self.groups.turned()
        self.consumer_groups.turned()

    def started(self) -> None:
        self.note("the broker serves")
        for checker in self.checkers:
            checker.started()

    def died(self, how: str) -> None:
        self.note("the broker", how)
        for checker in self.checkers:
            checker.died(how)

    def unexpected(self, message: str, error: BaseException | None) -> None:
        if not isinstance(error, (LogError, OSError, PowerLossError)):
            self.broken(f"in the broker: {message}: {error!r}")

    def _client_failed(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if not isinstance(error, DisconnectedError):
            self.broken(f"in a client: {context.get('message')}: {error!r}")

    # -- what clients want to know of the truth

    def high_watermark(self, place: tuple[str, int]) -> int:
        assert self.machine.broker is not None
        partition = self.machine.broker.services.partitions.get(*place)
        assert partition is not None
        return partition.log.high_watermark

    def partition(self, place: tuple[str, int]) -> Partition | None:
        """A partition that the broker serves now."""
        broker = self.machine.broker
        return None if broker is None else broker.services.partitions.get(*place)

    def topic_name(self, topic_id: bytes) -> str:
        """Also of one that is gone."""
        return self.logs.topic_names[topic_id]

    def consumed(self, group: str, place: tuple[str, int], first_offset: int, next_offset: int) -> None:
        """A member has got these records, before anybody commits them."""
        self.intervals.setdefault((group, place), []).append((first_offset, next_offset))

    def endings_per_join(self) -> dict[Exchange, int]:
        """How often each JoinGroup ended that the broker got."""
        return {join: self.wire.endings[join] for join in self.wire.joins}


class _ErrorLog(logging.Handler):
    """The broker's log as a witness: what it did not foresee, it logs with a traceback."""

    def __init__(self, world: World) -> None:
        super().__init__(logging.WARNING)
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        self._world.note("log", message)
        if "rename its directory" in message and (found := _METADATA.search(message)):
            self._world.asked_to_rename(found[1])
        error = record.exc_info[1] if record.exc_info else None
        if error is not None and self._world.machine.is_on:
            self._world.unexpected(record.getMessage(), error)
