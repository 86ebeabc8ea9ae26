"""Three brokers on PostgreSQL, on virtual time: the store's own faults come to those of `brokers`.

Brokers lose connections with statements under way, are cut off from the database, stand still, have clocks
that run fast or slow; the database is restarted. Readers check that no broker answers from a memory that
others have gone beyond.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from random import Random
from typing import Any, Final, TypeVar, TypeVarTuple

from internals.shared_jar import JarNode, SharedJar
from internals.virtual_disk import VirtualDisk
from klamm.broker.cluster.postgresql_lease import PostgresLease
from klamm.broker.config.broker_config import BrokerConfig
from klamm.broker.net.server import StartError
from klamm.broker.storage import Storage
from klamm.clock import ManualClock
from klamm.protocol.api import ApiKey
from klamm.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from klamm.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from klamm.storage.cluster import ClusterStore, ClusterStoreError
from klamm.storage.engines.postgresql.cluster import PostgresCluster
from klamm.storage.engines.postgresql.lease_rules import LeaseRules
from klamm.storage.engines.postgresql.rows import PostgresChange
from klamm.storage.engines.postgresql.store import PostgresLogStore
from klamm.testing.virtual_loop import VirtualLoop
from postgresql import PostgresServer
from simulation.asking import Ask, Asking
from simulation.brokers import PARTITIONS, SETTINGS, Brokers, Committer, IdempotentProducer
from simulation.database import BYSTANDER, SimulatedDatabase
from simulation.loop_rounds import SessionTakenError, SimulatedRounds

Result = TypeVar("Result")
Arguments = TypeVarTuple("Arguments")

SESSION_MS: Final = 3_000
WINDOW_MS: Final = 1_000
LEASES: Final = {
    "broker.heartbeat.interval.ms": "300",
    "klamm.broker.serve.window.ms": str(WINDOW_MS),
    "broker.session.timeout.ms": str(SESSION_MS),
}
KINDS: Final = ("move", "kill", "stop", "restart", "cut off", "stand still", "cut", "restart database")
_DELAYS_MS: Final = (0, 0, 0, 1, 3, 20)
_DRIFT: Final = (0.85, 1.0, 1.15)  # what a second of a broker's clock is
_POLL_MS: Final = 1_000  # when a lost notification is made up for


class Threads(VirtualDisk):
    """`run_blocking` of one broker: each call takes its time, and while the broker is cut off, until then."""

    def __init__(self, loop: VirtualLoop, random: Random, delays_ms: Callable[[], Sequence[int]]) -> None:
        super().__init__(loop)
        self._random = random
        self._delays_ms = delays_ms
        self.is_cut_off = False
        self.is_dead = False
        self._waiting: list[Callable[[], None]] = []

    def __call__(
        self, function: Callable[[*Arguments], Result], *arguments: *Arguments
    ) -> asyncio.Future[Result]:
        future: asyncio.Future[Result] = self._loop.create_future()
        before_ms, after_ms = self._random.choices(self._delays_ms(), k=2)

        def run() -> None:
            if self.is_cut_off:
                self._waiting.append(run)
                return
            if self.is_dead:
                return
            try:
                result = function(*arguments)
            except SessionTakenError:
                self._loop.call_later(0.001, run)
            except Exception as error:
                self._loop.call_later(after_ms / 1000, self._end, future, None, error)
            else:
                self._loop.call_later(after_ms / 1000, self._end, future, result, None)

        self._loop.call_later((self.delay_ms + before_ms) / 1000, run)
        return future

    def later(self, function: Callable[..., None], *arguments: Any) -> None:
        """Something reaches the database or the broker after some time; not while it is cut off."""

        def run() -> None:
            if self.is_cut_off:
                self._waiting.append(run)
            elif not self.is_dead:
                function(*arguments)

        self._loop.call_later(self._random.choice(self._delays_ms()) / 1000, run)

    def _end(self, future: asyncio.Future[Any], result: Any, error: Exception | None) -> None:
        if not future.done() and not self.is_dead:
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)

    def reconnect(self) -> None:
        self.is_cut_off = False
        waiting, self._waiting = self._waiting, []
        for run in waiting:
            run()


class SimulatedCluster(PostgresCluster):
    """The cluster store of one broker. Notifications of changes are lost now and then, as NOTIFY's are."""

    def __init__(self, database: SimulatedDatabase, owner: int, random: Random) -> None:
        self._database = database
        self._seen_notices = -1
        self._polled_at_ms = -_POLL_MS
        super().__init__(
            database.url,
            random=random,
            session_timeout_ms=SESSION_MS,
            make_address=database.address_of(owner),
        )

    def changed(self) -> bool:
        now_ms = self._database.clock.now_ms()
        is_notified = self._seen_notices != self._database.notices
        self._seen_notices = self._database.notices
        if is_notified and self._database.random.random() < 0.1:
            return False
        if not is_notified and now_ms - self._polled_at_ms < _POLL_MS:
            return False
        self._polled_at_ms = now_ms
        return True

    @contextmanager
    def _changing(self, *, is_registration: bool = False) -> Iterator[PostgresChange]:
        with super()._changing(is_registration=is_registration) as change:
            yield change
        self._database.notices += 1


class SimulatedLease(PostgresLease):
    """A lease measured by a broker's own clock, which drifts."""

    def __init__(
        self, cluster: PostgresCluster, broker_id: int, rules: LeaseRules, clock: ManualClock, drift: float
    ) -> None:
        self._clock = clock
        self._drift = drift
        # Real time decides about no statement.
        super().__init__(cluster, broker_id, rules, renewal_timeout_ms=60_000)

    def now_ms(self) -> int:
        return int(self._clock.now_ms() * self._drift)


class PostgresJar(SharedJar):
    """Brokers on one database."""

    def __init__(self, server: PostgresServer, seed: int) -> None:
        self._server = server
        self.random = Random(seed)
        self.threads: dict[int, Threads] = {}
        self.delays_ms: Sequence[int] = (0,)  # of a statement, and of its answer
        super().__init__(3, SETTINGS | LEASES, seed=seed)

    def _make_store(self, seed: int) -> ClusterStore:
        self.database = SimulatedDatabase(self._server, self.loop, self.clock, Random(seed))
        return SimulatedCluster(self.database, BYSTANDER, Random(seed))

    def disk_of(self, node_id: int) -> Threads:
        self.threads[node_id] = Threads(self.loop, self.random, lambda: self.delays_ms)
        return self.threads[node_id]

    def storage_of(self, config: BrokerConfig) -> Storage:
        cluster = SimulatedCluster(self.database, config.node_id, self.random)
        rules = cluster.lease_rules = LeaseRules(cluster.cluster_id, SESSION_MS, WINDOW_MS)
        lease = SimulatedLease(cluster, config.node_id, rules, self.clock, self.random.choice(_DRIFT))
        logs = PostgresLogStore(cluster, clock=self.clock, reading_connections=1)
        later = self.threads[config.node_id].later
        logs._rounds = SimulatedRounds(logs._writing, cluster, logs._is_closing, later)
        return Storage(logs, cluster, place="a simulated database", lease=lease)

    def start(self, node_id: int) -> JarNode:
        """Start a broker; again when it ends because the database cannot be used, as a supervisor would."""
        while True:
            try:
                return super().start(node_id)
            except (StartError, ClusterStoreError):
                self._died(node_id)

    def vanish(self, node_id: int) -> None:
        self.threads[node_id].reconnect()
        super().vanish(node_id)
        self._died(node_id)

    def _died(self, node_id: int) -> None:
        self.threads[node_id].is_dead = True
        self.database.cut(node_id)

    def _close_store(self) -> None:
        self.database.loss_rate = 0.0
        assert isinstance(self.cluster, SimulatedCluster)
        self.cluster.close()
        self.database.close()


class OffsetReader(Asking):
    """Reads what a group has committed: never less than was acknowledged before it asked."""

    def __init__(self, cluster: Brokers, of: Committer) -> None:
        super().__init__(cluster, of.topic, of.partition)
        self._of = of
        self._least = -1
        self.reads = 0

    def request(self, node: JarNode) -> Ask:
        self._least = self._of.acknowledged
        topics = [OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
        return (
            ApiKey.OFFSET_FETCH,
            8,
            OffsetFetchRequest([OffsetFetchRequestGroup(self._of.group, topics=topics)]),
        )

    def answered(self, answer: Any) -> None:
        (group,) = answer.groups
        if group.error_code:
            assert group.error_code in (14, 15, 16), f"group {self._of.group}: error {group.error_code}"
            return
        offset = group.topics[0].partitions[0].committed_offset
        assert offset >= self._least, f"{self._of.group}: {self._least} was acknowledged, then {offset} read"
        self.reads += 1

    def progress(self) -> int:
        return self.reads


class EndReader(Asking):
    """Asks where a partition ends: never before what was acknowledged before it asked."""

    def __init__(self, cluster: Brokers, partition: int, writers: Sequence[IdempotentProducer]) -> None:
        super().__init__(cluster, "t", partition)
        self._writers = writers
        self._least = 0
        self.reads = 0

    def request(self, node: JarNode) -> Ask:
        self._least = max((each.offsets[-1] + 1 for each in self._writers if each.offsets), default=0)
        partitions = [ListOffsetsPartition(self.partition, timestamp=-1)]
        return ApiKey.LIST_OFFSETS, 7, ListOffsetsRequest(-1, topics=[ListOffsetsTopic("t", partitions)])

    def answered(self, answer: Any) -> None:
        line = answer.topics[0].partitions[0]
        if line.error_code:
            assert line.error_code in (3, 5, 6, 56), f"end of {self.partition}: error {line.error_code}"
            return
        assert line.offset >= self._least, f"t-{self.partition} ends at {line.offset}, not {self._least}"
        self.reads += 1

    def progress(self) -> int:
        return self.reads


class PostgresBrokers(Brokers):
    """The cluster, its clients, and what goes wrong with it and its database."""

    steps_ms = (5, 20, 50, 100)

    def __init__(
        self,
        seed: int,
        server: PostgresServer,
        *,
        loss_rate: float = 0.01,
        kinds: Sequence[str] = KINDS,
        cut_off_ms: Sequence[int] = (200, 1_500, 6_000),
    ) -> None:
        """Of all statements `loss_rate` lose their connection; brokers are cut off for `cut_off_ms`."""
        self.kinds = kinds
        self._cut_off_ms = cut_off_ms
        self.postgres = PostgresJar(server, seed)
        self._mail: dict[int, list[Callable[[], object]]] = {}  # of brokers that stand still
        super().__init__(seed, self.postgres)
        for client in list(self.clients):
            if isinstance(client, Committer):
                self.clients.append(OffsetReader(self, client))
        writers = [each for each in self.clients if isinstance(each, IdempotentProducer)]
        for partition in range(PARTITIONS):
            self.clients.append(
                EndReader(self, partition, [each for each in writers if each.partition == partition])
            )
        self.postgres.delays_ms = _DELAYS_MS
        self.postgres.database.loss_rate = loss_rate

    def deliver(self, node: JarNode, send: Callable[[], object]) -> None:
        if node.node_id in self._mail:
            self._mail[node.node_id].append(send)
        else:
            send()

    def happens(self, kind: str, node: JarNode) -> None:
        database, random = self.postgres.database, self.random
        match kind:
            case "cut off" | "stand still":
                threads = self.postgres.threads[node.node_id]
                others = [each for each in self.postgres.threads.values() if each is not threads]
                is_first = not any(each.is_cut_off for each in others)
                if threads.is_cut_off or not (is_first or random.random() < 0.2):
                    return  # mostly one at a time: the others must be able to take over
                threads.is_cut_off = True
                if kind == "stand still":
                    self._mail[node.node_id] = []
                duration_ms = random.choice(self._cut_off_ms)
                self.jar.loop.call_later(duration_ms / 1000, self._go_on, node, threads)
            case "cut":
                database.cut(node.node_id, random.choice(("appends", "reads", "lease", "cluster", None)))
            case "restart database":
                database.restart()
            case _:
                super().happens(kind, node)

    def _go_on(self, node: JarNode, threads: Threads) -> None:
        """What arrived meanwhile is read before the database can be asked."""
        for send in self._mail.pop(node.node_id, []):
            if self.jar.nodes.get(node.node_id) is node:
                send()
        threads.reconnect()

    def heal(self) -> None:
        self.postgres.database.loss_rate = 0.0
        self.jar.pass_ms(max(self._cut_off_ms))
        super().heal()

    def check(self) -> None:
        self.postgres.delays_ms = (0,)
        self.jar.pass_ms(100)
        super().check()
        misplaced = self.postgres.database.misplaced()
        assert not misplaced, f"appended at another leader epoch than was led: {misplaced}"
