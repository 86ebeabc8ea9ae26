"""Two brokers on one store, handing leadership to and fro while groups live on it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from random import Random
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from klamm.assignors.base import PartitionView
from klamm.clock import ManualClock
from klamm.coordinator.group.machine import GroupMachine
from klamm.coordinator.group.placement import OFFSETS_TOPIC
from klamm.coordinator.group.topics import KnownTopic, TopicDirectory
from klamm.coordinator.runtime.shard import ShardStatus
from klamm.protocol.api import ApiKey
from klamm.protocol.codec import request_decoder, request_encoder, response_decoder, response_encoder
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from klamm.storage.cluster import LeaderChange, PartitionRegistration, TopicState
from klamm.storage.engines.memory_cluster import MemoryCluster
from simulation.admins import committed
from simulation.clients import PASSING, Client
from simulation.consumer_group_checker import ConsumerGroupChecker
from simulation.consumer_members import ConsumerMember
from simulation.group_checker import GroupChecker
from simulation.loops import Agenda, ProcessLoop, end
from simulation.members import Member, Reader, at_rest
from simulation.network import DisconnectedError, Exchange
from simulation.nodes import Node, SharedLog
from simulation.offset_checker import OffsetChecker
from simulation.offsets import Offsets
from simulation.world import BrokenPromiseError

if TYPE_CHECKING:
    from simulation.world import World

Result = TypeVar("Result")

TOPIC: Final = KnownTopic("work", b"0123456789abcdef", 4)
GROUPS: Final = ("movers", "stayers")  # which live in one partition each
CONSUMER_GROUPS: Final = ("drifters", "dwellers")  # so do these, in the consumer protocol
LEDGERS: Final = ("ledger", "books")  # so do these
_HEALED_WITHIN_MS: Final = 120_000


class _Topics:
    version = 0

    def are_complete(self) -> bool:
        return True

    def names(self) -> tuple[str, ...]:
        return (TOPIC.name,)

    def partition_views(self, name: str) -> tuple[PartitionView, ...]:
        return ()

    def by_name(self, name: str) -> KnownTopic | None:
        return TOPIC if name == TOPIC.name else None

    def by_id(self, topic_id: bytes) -> KnownTopic | None:
        return TOPIC if topic_id == TOPIC.topic_id else None


class Idler(Reader):
    """Reads nothing: its positions advance by themselves."""

    async def learn_once(self, *topics: str) -> bool:
        self.topic_ids = {TOPIC.name: TOPIC.topic_id}
        return True

    async def fetch(self, max_wait_ms: int = 500) -> None:
        if not self.world.is_calm:
            self.positions = {place: offset + 1 for place, offset in self.positions.items()}


class Settler(Member):
    """A member that only cares about its group."""

    def make_reader(self) -> Reader:
        return Idler(self.world, f"{self.name}-reader", self.group)


class Drifter(ConsumerMember):
    """One in the consumer protocol that only cares about its group."""

    def make_reader(self) -> Reader:
        return Idler(self.world, f"{self.name}-reader", self.group)


class Served(GroupChecker):
    """The machines of the shards that lead."""

    def __init__(self, realm: Realm) -> None:
        self._realm = realm

    def machines(self) -> Iterator[tuple[int, GroupMachine]]:
        for node in self._realm.nodes.values():
            for partition, shard in node.shards.by_partition.items():
                if shard.status is ShardStatus.ACTIVE and node.leads(partition):
                    assert isinstance(shard.machine, GroupMachine)
                    yield partition, shard.machine


class Clerk(Client):
    """Commits and reads offsets in quick succession: something is always on its way to the disk."""

    def __init__(self, world: World, name: str, group: str, *, reads: float) -> None:
        super().__init__(world, name)
        self.topic_ids = {TOPIC.name: TOPIC.topic_id}
        self._reads = reads
        self._group = group
        self._offsets = Offsets(self, group)
        self._next_offset = 0

    async def live(self) -> None:
        while not self.world.is_calm:
            try:
                if await self._find():
                    while await self._work():
                        await self.pause(self.random.choice((0, 2, 10, 60)))
            except DisconnectedError:
                pass
            await self.back_off()

    async def _find(self) -> bool:
        response = await self.ask(ApiKey.FIND_COORDINATOR, 3, FindCoordinatorRequest(self._group, 0))
        return not response.error_code

    async def _work(self) -> bool:
        """Commit or read; whether the one who was asked is the coordinator."""
        if self.world.is_calm:
            return False
        if self.random.random() < self._reads:
            return await committed(self, self._group) is not None
        self._next_offset += 1
        error_code = await self._offsets.commit({(TOPIC.name, 0): self._next_offset}, -1, "", None)
        self.refused("a commit", error_code, {ErrorCode.none: "", **PASSING})
        return not error_code


class Wire:
    """A client's way to the brokers: to whichever it was told to ask."""

    def __init__(self, realm: Realm, client: str) -> None:
        self._realm = realm
        self.client = client
        self.is_open_at_client = True
        self.node: Node | None = None

    def send(self, api_key: ApiKey, version: int, request: Any) -> asyncio.Future[Any]:
        realm = self._realm
        exchange = Exchange(
            self, 0, api_key, version, request, 0, sent_at_ms=realm.clock.now_ms(),
            received=realm.loop.create_future(),
        )  # fmt: skip
        encoded = b"".join(request_encoder(api_key, version)(request))
        decoded = request_decoder(api_key, version)(encoded, 0)
        realm.later_ms(realm.delay_ms(), lambda: realm.ask(exchange, decoded))
        assert exchange.received is not None
        return exchange.received

    def hang_up(self) -> None:
        self.is_open_at_client = False

    def __str__(self) -> str:
        return self.client


class _Network:
    def __init__(self, realm: Realm) -> None:
        self._realm = realm

    async def connect(self, client: str) -> Wire:
        await asyncio.sleep(0.001)
        return Wire(self._realm, client)


class Realm:
    """Two nodes, one store, and clients that cannot tell it from a whole world."""

    def __init__(
        self, seed: int, *, drop: float = 0.0, flush_error: float = 0.0, stumble: float = 0.0
    ) -> None:
        self.seed = seed
        self.drop = drop
        self.flush_error = flush_error
        self.stumble = stumble  # per record, note or batch: a fault of ours in the middle of a decision
        self.stumbles = 0
        self.failed_loads = 0  # flushes that failed while a shard was loading
        self.random = Random(seed)
        self.clock = ManualClock()
        self.agenda = Agenda(self.clock)
        self.loop = ProcessLoop(self.clock)
        self.loop.set_exception_handler(self._failed)
        self.agenda.add(self.loop)
        self.network = _Network(self)
        self.topics: TopicDirectory = _Topics()
        self.logs = {0: SharedLog(), 1: SharedLog()}
        self.cluster = MemoryCluster(random=self.random)
        self.cluster.create_topic(
            TopicState(
                OFFSETS_TOPIC, bytes(16), tuple(PartitionRegistration(p, (1, 2), -1, -1) for p in self.logs)
            ),
            {},
        )
        self.partition_counts = {TOPIC.name: TOPIC.partition_count}
        self.offsets = OffsetChecker(cast("World", self))
        self.groups = GroupChecker(cast("World", self), self.offsets)
        self.consumer_groups = ConsumerGroupChecker(cast("World", self), Served(self))
        self.is_calm = self.is_over = False
        self.members: list[Member | ConsumerMember] = []
        self.handovers: list[str] = []
        self.stale_answers = 0
        self._moment = 0
        self._violations: list[str] = []
        self._led_when_asked: dict[Exchange, bool] = {}
        self.nodes = {1: Node(self, 1), 2: Node(self, 2)}
        for partition in self.logs:
            self.hand_over(partition, to=1, told=True)

    def __enter__(self) -> Realm:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for node in self.nodes.values():
            node.die()
        end(self.loop)

    # -- leadership

    def hand_over(self, partition: int, *, to: int, told: bool) -> None:
        """A broker takes the next epoch in the store. Both learn of it, each in its own time, or not yet."""
        state = self.cluster.topics()[OFFSETS_TOPIC].partitions[partition]
        self.cluster.finish_moves(
            [LeaderChange(OFFSETS_TOPIC, partition, state.leader_id, state.leader_epoch, to)]
        )
        epoch = state.leader_epoch + 1
        new, old = self.nodes[to], self.nodes[3 - to]
        self.later_ms(self.random.choice((0, 5, 50)), lambda: new.lead(partition, epoch))
        if told:
            self.later_ms(self.random.choice((0, 5, 50)), lambda: old.retire(partition, epoch))
        else:
            self.later_ms(self.random.choice((1_000, 6_000)), lambda: old.retire(partition, epoch))

    def crash(self, broker_id: int) -> None:
        """A broker is gone; the other takes over when it notices, and later a new one comes up."""
        for exchange in self.nodes[broker_id].die():
            self.ended(exchange)
        self.nodes[broker_id] = Node(self, broker_id)
        led = [p for p in self.logs if self.leader_id(p) == broker_id]
        for partition in led:
            self.later_ms(
                self.random.choice((10, 2_000)),
                partial(self.hand_over, partition, to=3 - broker_id, told=True),
            )

    def leader_id(self, partition: int) -> int:
        """Who leads, as the store has it."""
        return self.cluster.topics()[OFFSETS_TOPIC].partitions[partition].leader_id

    async def _politics(self) -> None:
        while True:
            await asyncio.sleep(self.random.choice((0.2, 1.0, 4.0)))
            if self.is_calm:
                return
            partition = self.random.choice(list(self.logs))
            leader_id = self.leader_id(partition)
            what = self.random.choice(("by plan", "unheard of", "crash", "to itself"))
            self.handovers.append(what)
            if what == "crash":
                self.crash(self.random.choice((1, 2)))
            elif what == "to itself":
                self.hand_over(partition, to=leader_id, told=True)
            else:
                self.hand_over(partition, to=3 - leader_id, told=what == "by plan")

    # -- the wire

    def ask(self, exchange: Exchange, request: Any) -> None:
        """A request reaches the broker that its client believes in, if anybody is there."""
        if self.random.random() < self.drop:
            self._disconnect(exchange)
            return
        exchange.delivered_at = self.moment()
        if exchange.api_key is ApiKey.FIND_COORDINATOR:
            exchange.link.node = self._find(exchange, request)
            return
        node = exchange.link.node
        if node is None or not node.is_alive:
            self._disconnect(exchange)
            return
        self._led_when_asked[exchange] = node.leads(self._partition(exchange))
        self.offsets.delivered(exchange)
        self.groups.delivered(exchange)
        node.handle(exchange, request)

    def _find(self, exchange: Exchange, request: Any) -> Node:
        """Whom to ask; one time in ten the one asked has not heard of the last change."""
        key = request.coordinator_keys[0] if request.coordinator_keys else request.key
        leader_id = self.leader_id(self.nodes[1].coordinator.partition_for(key))
        if self.random.random() < 0.1 and not self.is_calm:
            leader_id = 3 - leader_id
        found = Coordinator(key, leader_id, "host", 9092)
        self._return(
            exchange,
            FindCoordinatorResponse(coordinators=[found], node_id=leader_id, host="host", port=9092),
        )
        return self.nodes[leader_id]

    def _partition(self, exchange: Exchange) -> int:
        request = exchange.request
        group = request.groups[0].group_id if getattr(request, "groups", ()) else request.group_id
        return self.nodes[1].coordinator.partition_for(group)

    def answer(self, exchange: Exchange, response: object) -> None:
        version = exchange.version
        encoded = b"".join(response_encoder(exchange.api_key, version)(response))
        exchange.response = response_decoder(exchange.api_key, version)(encoded, 0)
        exchange.answered_at = exchange.ended_at = self.moment()
        # Whoever was deposed and does not know may tell old news; it must not write any.
        led = self._led_when_asked.pop(exchange) and exchange.link.node.leads(self._partition(exchange))
        self.stale_answers += not led
        if led or exchange.api_key is ApiKey.OFFSET_COMMIT:
            self.offsets.answered(exchange)
            self.groups.answered(exchange)
        if led:
            self.consumer_groups.answered(exchange)
            self.consumer_groups.look()
        self._return(exchange, exchange.response)

    def ended(self, exchange: Exchange) -> None:
        self.groups.ended(exchange)
        self._disconnect(exchange)

    def _return(self, exchange: Exchange, response: object) -> None:
        received = exchange.received
        assert received is not None
        if self.random.random() < self.drop:
            self._disconnect(exchange)
            return
        self.later_ms(self.delay_ms(), lambda: None if received.done() else received.set_result(response))

    def _disconnect(self, exchange: Exchange) -> None:
        received = exchange.received
        assert received is not None

        def hear() -> None:
            exchange.link.hang_up()
            if not received.done():
                received.set_exception(DisconnectedError())
                received.exception()  # the client may have stopped listening

        self.later_ms(self.delay_ms(), hear)

    def delay_ms(self) -> int:
        return self.random.choice((0, 1, 1, 2, 80))

    def later_ms(self, delay_ms: int, action: Callable[[], object]) -> None:
        self.loop.call_later(delay_ms / 1000, action)

    # -- what clients and checkers know of a world

    def add(self, *members: Member | ConsumerMember) -> None:
        for member in members:
            self.members.append(member)
            self.loop.create_task(member.live())

    def employ(self, *clerks: Clerk) -> None:
        for clerk in clerks:
            self.loop.create_task(clerk.live())

    def later(self, coroutine: Coroutine[Any, Any, None]) -> None:
        self.loop.create_task(coroutine)

    def moment(self) -> int:
        self._moment += 1
        return self._moment

    def broken(self, message: str) -> None:
        self._violations.append(message)

    def high_watermark(self, place: tuple[str, int]) -> int:
        return 0

    def topic_name(self, topic_id: bytes) -> str:
        return TOPIC.name

    def _failed(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self.broken(f"{context.get('message')}: {context.get('exception')!r}")

    # -- letting it run

    def run(self, for_ms: int) -> None:
        self.loop.create_task(self._politics())
        self.pass_ms(for_ms)

    def pass_ms(self, duration_ms: int) -> None:
        self.agenda.run(self.clock.now_ms() + duration_ms, self._check)

    def _check(self) -> None:
        if self._violations:
            raise BrokenPromiseError(
                f"seed {self.seed}, after {self.clock.now_ms()} ms: {self._violations[0]}\n"
                f"replay: KLAMM_SEED={self.seed} python -m pytest tests/simulation/test_leadership.py"
            )

    def heal(self) -> None:
        """No more politics: groups become stable under whoever leads, and nothing is lost."""
        self.is_calm = True
        self.drop = self.flush_error = self.stumble = 0.0
        give_up_ms = self.clock.now_ms() + _HEALED_WITHIN_MS
        while not self._is_at_rest():
            if self.clock.now_ms() > give_up_ms:
                self.broken("did not come to rest")
            self.pass_ms(500)
        self.do(self._inspect())
        self._check()

    def do(self, coroutine: Coroutine[Any, Any, Result]) -> Result:
        task = self.loop.create_task(coroutine)
        while not task.done():
            self.pass_ms(100)
        return task.result()

    def _is_at_rest(self) -> bool:
        world = cast("World", self)
        groups = [[member for member in self.members if member.group == group] for group in GROUPS]
        return all(member.is_at_rest for member in self.members) and all(
            at_rest(world, members) for members in groups
        )

    async def _inspect(self) -> None:
        """Everything that was ever committed is read once more, and the logs tell the same story."""
        client = Client(cast("World", self), "inspector")
        self.consumer_groups.at_the_end()
        for group in (*GROUPS, *CONSUMER_GROUPS):
            wire = cast(Wire, await client.link())
            partition = self.nodes[1].coordinator.partition_for(group)
            wire.node = self.nodes[self.leader_id(partition)]
            # What was begun before it was calm may move leadership while the answer is on its way.
            while await committed(client, group) is None or not wire.node.leads(partition):
                await client.back_off()
                wire.node = self.nodes[self.leader_id(partition)]
            machine = wire.node.coordinator.shards.by_partition[partition].machine
            assert isinstance(machine, GroupMachine)
            rebuilt = GroupMachine(machine.state.config)
            for batch in self.logs[partition].batches:
                rebuilt.load(batch)
            if rebuilt.state.remembered() != machine.state.remembered():
                self.broken(f"{OFFSETS_TOPIC}-{partition}: the log tells another story")
