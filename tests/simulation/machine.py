"""A machine with a broker on it: it loses power, its broker is killed, its disk refuses; it starts again."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from random import Random
from typing import Any, Final, NamedTuple, Protocol

from klamm.broker.broker import BrokerNode
from klamm.broker.config.broker_config import BrokerConfig
from klamm.broker.coordinators.host import CoordinatorHost
from klamm.broker.coordinators.logs import PartitionCoordinatorLog
from klamm.broker.net.connection import Connection
from klamm.broker.storage import Storage, segment_store
from klamm.protocol.errors import NO_ERROR
from klamm.storage.engines.simulated_disk import PowerLossError
from klamm.storage.log import EngineLog, LogError, LogStore
from simulation.faults import Faults
from simulation.hardware import Disk, DurableCluster, Moment, SyncOnLoopError, Threads
from simulation.loops import Agenda, ProcessLoop, end
from simulation.markers import make_unreliable

FOLDER: Final = "/logs"
_AWAY_MS: Final = (0, 10, 300, 2_000)


class CrashPoint(NamedTuple):
    """Where exactly a broker dies: at its n-th append."""

    append: int
    moment: Moment
    loses_power: bool  # what was not synced is lost or torn; else only the process ends


class Witness(Protocol):
    """Who watches a machine from outside."""

    def log_opened(self, log: EngineLog) -> None: ...
    def appending(self, log: EngineLog, batch: bytes) -> None: ...
    def appended(self, log: EngineLog, batch: bytes, base_offset: int) -> None: ...
    def turned(self, *, disk_was_used: bool) -> None:
        """The broker had a turn."""
        ...

    def started(self) -> None: ...
    def died(self, how: str) -> None: ...
    def unexpected(self, message: str, error: BaseException | None) -> None:
        """Something happened in the broker that nobody injected."""
        ...


class Machine:
    """Runs one broker after the other on the same disk."""

    def __init__(self, random: Random, agenda: Agenda, settings: Mapping[str, str], witness: Witness) -> None:
        self._random = random
        self._agenda = agenda
        self._witness = witness
        self.config = BrokerConfig.from_settings(settings)
        self.faults = Faults()
        self.disk = Disk(random, agenda.clock, self._power_lost)
        self.disk.make_directory(FOLDER)
        self.disk.sync_directory("/")
        self.cluster = DurableCluster(self.disk, random)
        self.loop = ProcessLoop(agenda.clock)  # of no broker yet
        self.broker: BrokerNode | None = None
        self.incarnation = 0
        self.is_on = False
        self.is_serving = False
        self.is_dead = False  # and not buried
        self.appends = 0  # to any log, by any broker
        self.crash: CrashPoint | None = None
        self._has_stopped = False
        self._disk_uses = 0
        self.disk.is_serving = lambda: self.is_serving

    def set_faults(self, faults: Faults) -> None:
        self.faults = faults
        self.disk.arm(faults)

    def start(self) -> None:
        """Switch on and start a broker; it serves after a while, unless it dies in the attempt."""
        assert not self.is_on
        assert not self.is_dead
        self.incarnation += 1
        self.is_on = True
        self.loop = ProcessLoop(self._agenda.clock, self._turned)
        self.loop.set_exception_handler(self._exception)
        self._agenda.add(self.loop)
        self.disk.arm(self.faults)
        self.loop.create_task(self._start())

    async def _start(self) -> None:
        try:
            logs = segment_store(self.config, FOLDER, self.cluster, self.disk, self._agenda.clock)
            self._watch(logs)
            broker = BrokerNode(
                self.config,
                clock=self._agenda.clock,
                random=self._random,
                storage=Storage(logs, self.cluster, self.disk),
                sleep=lambda _: None,  # a virtual thread runs at one instant
                run_blocking=Threads(self.loop, self._random, lambda: self.faults, self.disk),
            )
            await broker.start(listen=False)
        except (PowerLossError, OSError, LogError):
            # The process ends; whoever watches over it starts it again.
            self.disk.switch_off()
            return
        self.broker = broker
        make_unreliable(broker.services, self._random, lambda: self.faults)
        self.is_serving = True
        self._witness.started()

    def _appending(self, log: EngineLog, batch: bytes) -> None:
        self._witness.appending(log, batch)
        self.appends += 1
        if self.crash is not None and self.appends == self.crash.append:
            self.disk.fail_at(self.crash.moment)

    def _watch(self, logs: LogStore) -> None:
        """Let the witness see every log, and everything that is about to be appended to one."""
        really_open = logs.open

        def opened(*arguments: Any, **options: Any) -> EngineLog:
            log = really_open(*arguments, **options)
            really_append, really_append_own = log.append, log.append_own

            def append(batch: Any, *more: Any, **how: Any) -> Any:
                if not self.is_on:
                    return really_append(batch, *more, **how)
                self._appending(log, bytes(batch))
                result = really_append(batch, *more, **how)
                if not result.is_duplicate:
                    self._witness.appended(log, bytes(batch), result.base_offset)
                return result

            def append_own(batch: bytes, now_ms: int) -> int:
                if not self.is_on:
                    return really_append_own(batch, now_ms)
                self._appending(log, batch)
                setattr(log, "append", really_append)  # noqa: B010 - which it may call
                try:
                    base_offset = really_append_own(batch, now_ms)
                finally:
                    setattr(log, "append", append)  # noqa: B010 - as below
                self._witness.appended(log, batch, base_offset)
                return base_offset

            setattr(log, "append", append)  # noqa: B010 - a method is replaced, for this one log
            setattr(log, "append_own", append_own)  # noqa: B010 - as above
            self._witness.log_opened(log)
            return log

        setattr(logs, "open", opened)  # noqa: B010 - as above

    def stop(self) -> None:
        """Let the broker stop in good order."""
        broker = self.broker
        if not self.is_serving or broker is None:
            return
        self.is_serving = False

        async def stop() -> None:
            with suppress(PowerLossError, OSError, LogError):
                await broker.stop()
                self._has_stopped = True
            self.disk.switch_off()

        self.loop.create_task(stop())

    def move_a_shard(self) -> None:
        """Let a coordinator lose a partition to nobody, and get it back a little later."""
        broker = self.broker
        if not self.is_serving or broker is None:
            return
        host: CoordinatorHost[Any] = self._random.choice(
            (broker.services.groups, broker.services.transactions)
        )
        if not host.shards.by_partition:
            return
        number = self._random.choice(list(host.shards.by_partition))
        topic = host.shards.by_partition[number].name.rpartition("-")[0]
        partition = broker.services.partitions.get(topic, number)
        if partition is None or partition.error_code is not NO_ERROR:
            return
        host.resign(number, partition.leader_epoch)

        def come_back() -> None:
            if partition.error_code is NO_ERROR:
                log = PartitionCoordinatorLog(partition, broker.services.flusher)
                host.elect(number, partition.leader_epoch, lambda: log)

        self.loop.call_later(self._random.choice(_AWAY_MS) / 1000, come_back)

    def accept(self) -> Connection:
        assert self.broker is not None
        return self.broker.server.plain_connection("PLAINTEXT")

    def _power_lost(self) -> None:
        """From this instant on nothing that the broker does has an effect."""
        self.is_on = self.is_serving = False
        self.is_dead = True
        self.loop.stop()

    def bury(self) -> str:
        """Put away what is left of a dead broker; how it died."""
        self._agenda.remove(self.loop)
        end(self.loop)
        self.broker = None
        self.is_dead = False
        rates = self.faults
        power_share = rates.torn_write / (rates.crash + rates.torn_write or 1.0)
        is_power_loss = not self._has_stopped and self._random.random() < power_share
        if self.crash is not None and not self._has_stopped:
            is_power_loss = self.crash.loses_power
        how = "stopped" if self._has_stopped else "lost power" if is_power_loss else "killed"
        self._has_stopped = False
        self.disk.switch_on(after_power_loss=is_power_loss)
        self._witness.died(how)
        return how

    def _turned(self) -> None:
        if self.disk.refusals:
            self._witness.unexpected(
                "a file is synced on the event loop", SyncOnLoopError(self.disk.refusals[0])
            )
        if self.is_on:
            uses, self._disk_uses = self._disk_uses, self.disk.counters.total
            self._witness.turned(disk_was_used=uses != self._disk_uses)

    def _exception(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if self.is_on:
            self._witness.unexpected(str(context.get("message")), context.get("exception"))
