"""A member of a scripted group: klamm's own consumer, without its thread and its sockets."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from klamm.client.callables import takes
from klamm.client.consumer.consumer import Consumer
from klamm.client.consumer.consumer_operations import ConsumerOperations
from klamm.client.consumer.group.generation import MemberState
from klamm.client.consumer.group.heartbeating import HeartbeatingMember, HeartbeatState
from klamm.client.consumer.group.listener import RebalanceListener
from klamm.client.consumer.polling.hosts import run_blocking
from klamm.client.consumer.polling.inbox import Signal
from klamm.client.consumer.state import SubscriptionType
from klamm.client.runtime import Core
from klamm.clock import Clock
from klamm.errors import DisconnectedError
from klamm.net.wire import Call
from klamm.protocol.types import TopicPartition
from klamm.testing.rebalances.history import Callback, CallbackKind
from klamm.testing.rebalances.network import DirectCore, Exchange, Pipe
from klamm.testing.rebalances.settings import MemberSettings

if TYPE_CHECKING:
    from klamm.testing.rebalances.world import World

ListenerMaker = Callable[..., RebalanceListener]

PAUSE_AFTER_ERROR_MS: Final = 1_000  # of an application that catches what poll raises, before it polls again


class Status(Enum):
    """What a member's process does."""

    RUNNING = "running"
    NOT_POLLING = "not polling"  # heartbeats go on
    STALLED = "stalled"  # as in a long pause of the garbage collector: it does nothing at all
    GONE = "gone"


class ScriptedMember:
    """One consumer. Its application does nothing but poll."""

    def __init__(
        self,
        world: World,
        name: str,
        settings: MemberSettings,
        make_listener: ListenerMaker | None,
    ) -> None:
        self._world = world
        self.name = name
        self.status = Status.RUNNING
        self.due_ms: int | None = 0  # when it has something to do
        self.is_stirred = False  # it has heard or done something: the client has to go on in this instant
        self.topics_seen = -1  # how many changes of topics its metadata has
        self._is_idle = False  # stalled, or gone
        self._may_poll = True  # it runs, and does not close
        self._is_polling = True  # it may, and is not in a callback
        self._is_in_callback = False
        self._is_closing = False
        self._polls_again_ms = 0
        self._clock = world.clock
        self._traffic = world.traffic
        self._under_way: dict[Exchange, None] = {}  # requests without an answer
        self._decided: Exchange | None = None  # the one that the coordinator has read and not answered
        self._core = core = DirectCore(
            settings.network, settings.metadata, random=world.jitter, now_ms=world.now_ms
        )
        core.network.post = self._post
        core.network.on_disconnect = self.disconnect
        self.to_coordinator = Pipe(self._arrive)
        self.to_client = Pipe(self._receive)
        operations = ConsumerOperations(_Host(world, core), settings.consumer)
        self._poller = operations.poller
        self.engine = operations.engine
        self.engine.is_waiting = True  # in a poll
        self._inbox, self._membership, self._joining = (
            self.engine.inbox,
            self.engine.membership,
            self.engine.joining,
        )
        self._state = self.engine.state
        self.consumer: Consumer[Any, Any] = Consumer.__new__(Consumer)
        self.consumer._begin(operations)
        self.listener = _made(make_listener, self.consumer)
        self.recorder = _Recorder(self, self.listener)

    def __repr__(self) -> str:
        return f"<{self.name} {self.status.value}>"

    # --- what it holds -----------------------------------------------------------------------------------

    @property
    def generation(self) -> int:
        return self._membership.generation.generation_id

    @property
    def member_id(self) -> str:
        return self._membership.generation.member_id

    @property
    def assignment(self) -> tuple[TopicPartition, ...]:
        return tuple(sorted(self.engine.state.partitions))

    def is_settled(self, generation: int) -> bool:
        """Whether it is a member in this generation and has nothing to do."""
        membership = self._membership
        return (
            membership.state in (MemberState.STABLE, HeartbeatState.STABLE)
            and not self.engine.joining.is_running
            and not membership.needs_rejoin
            and membership.generation.generation_id == generation
            and not self._inbox.jobs
        )

    def watches_topics(self, leader_id: str | None) -> bool:
        """Whether it rejoins when topics change: the leader does, and who subscribed by a pattern."""
        return self.member_id == leader_id or self.engine.state.type is SubscriptionType.AUTO_PATTERN

    # --- requests and answers ----------------------------------------------------------------------------

    def _post(self, call: Call, request: Any) -> None:
        exchange = Exchange(call, request, self._answered)
        self._under_way[exchange] = None
        self._world.request(self, exchange)

    def _arrive(self, exchange: Exchange) -> None:
        # Nothing behind a request is decided before it is answered, as on a connection to a broker.
        self.to_coordinator.is_held = True
        self._decided = exchange
        self._world.decide(self, exchange)

    def _answered(self, exchange: Exchange) -> None:
        """The coordinator has answered."""
        if exchange is self._decided:  # else it came by a connection that is broken
            self._decided = None
            self._world.answered(self, exchange)
            if self.to_coordinator.items:
                self._traffic.release(self.to_coordinator)
            else:
                self.to_coordinator.is_held = False
            self.reply(exchange)

    def reply(self, exchange: Exchange) -> None:
        """Send the response, unless nobody waits for it any more."""
        if exchange in self._under_way:
            self._traffic.send(self.to_client, exchange)

    def _receive(self, exchange: Exchange) -> None:
        if exchange in self._under_way:
            del self._under_way[exchange]
            self._core.network.now_ms = now_ms = self._clock.now_ms()
            exchange.call.finish(exchange.response, None)
            self._turn(now_ms)

    def disconnect(self, error: DisconnectedError) -> None:
        """Its connection breaks: what is under way fails, what the coordinator has not read is lost."""
        self.to_coordinator.items.clear()
        self.to_client.items.clear()
        self.to_coordinator.is_held = False
        self._decided = None
        lost, self._under_way = self._under_way, {}
        for exchange in lost:
            exchange.call.finish(None, error)

    # --- its process -------------------------------------------------------------------------------------

    def turn(self) -> None:
        """Let the application poll; the client goes on when everything that is under way has arrived."""
        self._turn(self._clock.now_ms())

    def _turn(self, now_ms: int) -> None:
        if self._is_polling:
            self._poll(now_ms)
        if not (self.is_stirred or self._is_idle):
            self.is_stirred = True
            self._world.stirred.append(self)

    def tick(self) -> None:
        """Let the client do what is due."""
        self.is_stirred = False
        if self._is_idle:
            return
        now_ms = self._clock.now_ms()
        self.due_ms = self._core.tick(now_ms)
        if self._is_polling:
            self._poll(now_ms)
        if self._polls_again_ms > now_ms:
            self.due_ms = min(self.due_ms or self._polls_again_ms, self._polls_again_ms)

    def _poll(self, now_ms: int) -> None:
        if now_ms < self._polls_again_ms:
            return
        inbox, membership, joining = self._inbox, self._membership, self._joining
        while True:
            if membership.needs_rejoin and not joining.is_running and self._state.is_auto:
                joining.on_poll()
            if not inbox.needs_attention:
                return
            self._is_in_callback, self._is_polling = True, False
            try:
                run_blocking(self._poller.run_jobs())
            except Exception as error:  # what the application's poll would raise
                self._world.poll_failed(self, error)
                self._polls_again_ms = now_ms + PAUSE_AFTER_ERROR_MS
                return
            finally:
                self._is_in_callback, self._is_polling = False, self._may_poll

    def _become(self, status: Status) -> None:
        self.status = status
        self._is_idle = status is Status.STALLED or status is Status.GONE
        self._may_poll = status is Status.RUNNING and not self._is_closing
        self._is_polling = self._may_poll and not self._is_in_callback

    def close(self) -> None:
        """Leave the group as a consumer that is closed does."""
        self._is_closing = True
        self._become(self.status)
        self.engine.is_waiting = False
        try:
            self.consumer.close()
        finally:
            self.end()

    def end(self) -> None:
        """The process ends. Requests that it has sent arrive all the same."""
        self._become(Status.GONE)
        self.due_ms = None
        self._under_way.clear()

    def deliver(self) -> None:
        """Let the requests arrive that it has sent: a new process of its name sends later than this one."""
        pipe = self.to_coordinator
        while pipe.items and not pipe.is_held:
            pipe.receive(pipe.items.popleft())

    def let_go(self) -> None:
        """Another process has its name now: break the cycles of this one, so that it is freed at once.

        The garbage collector would take a twentieth of a script's time for it. A request that waits keeps it.
        """
        pipe, engine, network = self.to_coordinator, self.engine, self._core.network
        if pipe.items or pipe.is_held:
            return
        pipe.receive = self.to_client.receive = network.post = network.on_disconnect = _ignore
        self.recorder.member = None
        self._core.components.clear()
        self._core.metadata.unlisten(engine.on_metadata)
        engine.coordinator.on_found = engine.joining.on_joined = engine.leading.on_outdated = _ignore
        engine.membership.last_poll_ms = _long_ago
        if isinstance(engine.membership, HeartbeatingMember):
            member = engine.membership
            member.on_target = member.on_stale = member.on_lost = _ignore

    def stop_polling(self) -> None:
        self._become(Status.NOT_POLLING)
        self.engine.is_waiting = False
        self.engine.last_poll_ms = self._world.now_ms

    def stall(self) -> None:
        self._become(Status.STALLED)
        self.to_client.is_held = True
        self.due_ms = None

    def resume(self) -> None:
        self._become(Status.RUNNING)
        self.engine.is_waiting = True
        self._world.traffic.release(self.to_client)
        self.turn()


class _Recorder(RebalanceListener):
    """Notes each callback, then calls the listener under test."""

    def __init__(self, member: ScriptedMember, inner: RebalanceListener) -> None:
        self.member: ScriptedMember | None = member
        self._inner = inner

    def on_revoked(self, partitions: list[TopicPartition]) -> Any:
        self._note("revoked", partitions)
        return self._inner.on_revoked(partitions)

    def on_assigned(self, partitions: list[TopicPartition]) -> Any:
        self._note("assigned", partitions)
        return self._inner.on_assigned(partitions)

    def on_lost(self, partitions: list[TopicPartition]) -> Any:
        self._note("lost", partitions)
        return self._inner.on_lost(partitions)

    def _note(self, kind: CallbackKind, partitions: list[TopicPartition]) -> None:
        member = self.member
        assert member is not None, "a process that has ended has no callbacks"
        at_ms = member._clock.now_ms()
        member._world.called(member, Callback(member.name, kind, tuple(partitions), member.generation, at_ms))


def _ignore(*_arguments: object) -> None:
    """Nobody is there."""


def _long_ago() -> int:
    return 0


def _made(make: ListenerMaker | None, consumer: Consumer[Any, Any]) -> RebalanceListener:
    if make is None:
        return RebalanceListener()
    found = make(consumer) if takes(make, 1) else make()
    if not isinstance(found, RebalanceListener):
        raise TypeError(f"listener={make!r}: expected a function or class that makes a RebalanceListener")
    return found


class _Signal:
    """A flag. To wait for it is to let the world go on."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._is_set = False

    def set(self) -> None:
        self._is_set = True

    def clear(self) -> None:
        self._is_set = False

    async def wait(self, due_at_ms: int | None) -> None:
        self._world.run_until(lambda: self._is_set, due_at_ms)


class _Host:
    """In place of the client's thread: what is submitted runs at once."""

    def __init__(self, world: World, core: Core) -> None:
        self.clock: Clock = world.clock
        self.patience: Clock = world.clock
        self.core = core
        self.failure: BaseException | None = None  # there is no thread that could fail
        self.signal: Signal = _Signal(world)

    def submit(self, work: Callable[[], None]) -> None:
        work()

    def check(self) -> None:
        """There is no thread that could have stopped."""

    def stop(self) -> None:
        """There is no thread."""
