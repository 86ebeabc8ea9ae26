"""One host for coordinators: runs the shards of one internal topic on the event loop.

A coordinator decides and owns no clock, no loop and no disk (`coordinator.runtime`). Its host gives it time,
loads its shards, answers requests, writes events and begins actions. To run another coordinator, subclass
`CoordinatorHost` as `groups.Groups` does:

    class Transactions(CoordinatorHost[TransactionCoordinator]):
        def __init__(self, services: Services) -> None:
            topic = CoordinatorTopic(services, TRANSACTIONS_TOPIC)
            super().__init__(
                services.loop,
                services.clock,
                lambda host: TransactionCoordinator(..., partition_count=topic.partition_count, host=host),
                events=services.events,
            )
            self.topic = topic
            topic.attach(self)  # last: shards of partitions that are open begin to load now

        def act(self, shard: Shard, action: object) -> None:
            ...  # begin the work; when it is done: self.signal(shard, MarkersWritten(...))

- `ask` passes a request to the coordinator. The response is returned at once or as a promise; its type
  follows from the request's: `ask(EndTxnRequest(...), context)` is an `EndTxnResponse` or a `HeldResponse`
  of one.
- `act` begins what an outcome listed in `actions`, once the decision is durable. It must not call back into
  the shard before it returns. The result enters with `signal`, at any later time: a shard that was unloaded
  ignores it; one that was rebuilt in between decides on it like on any other, so a signal must say which
  transaction, epoch or generation it is about. Actions that a rebuild dropped are decided again by
  `Machine.loaded`.
- `tell` passes an event on to `__klamm_events` and to the log. Override it to count.
- `CoordinatorTopic` creates the internal topic and reports leadership, durability and failed flushes of its
  partitions with `elect`, `resign`, `on_durable` and `on_flush_failed`. A simulation with logs of its own
  calls these four itself.
"""

from __future__ import annotations

import logging
from asyncio import AbstractEventLoop, TimerHandle
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, Protocol, TypeVar

from klamm.broker.net.context import HeldResponse, RequestContext
from klamm.clock import Clock
from klamm.coordinator.runtime.events import Event
from klamm.coordinator.runtime.log import CoordinatorLog, LogNotLoadedError, LogUnavailableError
from klamm.coordinator.runtime.machine import CorruptLogError
from klamm.coordinator.runtime.outcome import Context
from klamm.coordinator.runtime.shard import Shard, ShardStatus
from klamm.coordinator.runtime.shard_host import ShardHost
from klamm.coordinator.runtime.shards import Shards
from klamm.protocol.message import Request

if TYPE_CHECKING:
    from klamm.broker.coordinators.topic import CoordinatorTopic

LOAD_BYTES: Final = 1024 * 1024  # of one log per turn of the loop: loading must not delay other requests
STANDSTILL_MS: Final = 200  # no turn of the loop lasts that long
RETRY_MS: Final = 1_000  # after loading failed for the first time, then twice as long each time
MAX_RETRY_MS: Final = 60_000
LOADING_PATIENCE_MS: Final = 1_000  # how long a request waits for a shard that is being loaded

_log = logging.getLogger(__name__)


class Coordinator(Protocol):
    """What a host runs."""

    @property
    def shards(self) -> Shards[Any, Any]:
        """The shards of its internal topic."""
        ...

    @property
    def handlers(self) -> Mapping[type, Callable[[Any, Context], None]]:
        """What takes a request of each type to its shards."""
        ...

    def partition_for(self, key: str) -> int:
        """The partition of its topic for a key."""
        ...


class EventSink(Protocol):
    """Where events go."""

    def tell(self, event: Event) -> None: ...


Hosted = TypeVar("Hosted", bound=Coordinator)
Response = TypeVar("Response")


class _Retry(NamedTuple):
    """Loading that failed, and is tried again."""

    delay_ms: int
    handle: TimerHandle


class CoordinatorHost(Generic[Hosted]):
    """Runs one coordinator. Everything happens on the event loop."""

    topic: CoordinatorTopic  # set by subclasses that have one

    def __init__(
        self,
        loop: AbstractEventLoop,
        clock: Clock,
        make_coordinator: Callable[[ShardHost], Hosted],
        *,
        events: EventSink,
        grace_ms: Callable[[], int] = lambda: 0,
    ) -> None:
        """`grace_ms` tells how long nothing may time out, because clients could not be answered."""
        self._loop = loop
        self._now_ms = clock.now_ms
        self._timestamp_ms = clock.timestamp_ms
        self._events = events
        self._grace_ms = grace_ms
        self.coordinator = make_coordinator(self)
        self.shards = self.coordinator.shards
        self._handlers = self.coordinator.handlers
        self._timer: TimerHandle | None = None
        self._timer_at_ms = 0
        self.fresh_ids: Iterator[str] = iter(())  # for members that have none
        self._to_load: deque[Shard] = deque()
        self._loads_soon = False
        self._loading_since_ms: dict[Shard, int] = {}
        self._served: list[tuple[Shard, int]] = []  # loaded since that was logged, and how long each took
        self._retries: dict[Shard, _Retry] = {}
        self.longest_load_ms: int | None = None  # None: no shard has been loaded

    def stop(self) -> None:
        """Serve nothing from now on; requests that wait are answered with an error."""
        if self._timer is not None:
            self._timer.cancel()
        for retry in self._retries.values():
            retry.handle.cancel()
        self.shards.stop()

    # --- requests --------------------------------------------------------------------------------------

    def ask(
        self,
        request: Request[Response],
        context: RequestContext,
        promise: HeldResponse[Response] | None = None,
        fresh_id: str = "",
    ) -> Response | HeldResponse[Response]:
        """Decide; the response, or the promise of one, if it waits: by itself for the disk alone."""
        if promise is None:
            promise = HeldResponse()
        self._handlers[type(request)](
            request,
            Context(
                self._now_ms(),
                self._timestamp_ms(),
                context.client_id,
                context.client_host,
                fresh_id,
                promise,
                context.principal,
            ),
        )
        response = promise.response
        return promise if response is None else response

    def now(self) -> Context:
        """The context of work without a client, such as a timer."""
        return Context(now_ms=self._now_ms(), timestamp_ms=self._timestamp_ms())

    def signal(self, shard: Shard, signal: object) -> None:
        """The result of an action, or a fact from elsewhere, enters a shard. An inactive shard ignores it."""
        shard.signal(signal, self.now())

    # --- calls of the shards ----------------------------------------------------------------------------

    def send(self, token: Any, response: object) -> None:
        token.keep(response)

    def tell(self, event: Event) -> None:
        self._events.tell(event)

    def act(self, shard: Shard, action: object) -> None:
        raise AssertionError(f"{shard.name}: nothing carries out {action!r}")

    def act_early(self, shard: Shard, action: object) -> bool:
        return False

    def wake(self, at_ms: int) -> None:
        if self._timer is not None:
            if self._timer_at_ms <= at_ms:
                return
            self._timer.cancel()
        self._timer_at_ms = at_ms
        delay_ms = max(0, at_ms - self._now_ms())
        self._timer = self._loop.call_later(delay_ms / 1000, self._tick)

    def load(self, shard: Shard) -> None:
        self._loading_since_ms.setdefault(shard, self._now_ms())
        self._to_load.append(shard)
        self._load_soon()

    # --- loading ---------------------------------------------------------------------------------------

    def _load_soon(self) -> None:
        """One shard after the other, a part in each turn of the loop: nothing waits for more than that."""
        if self._to_load and not self._loads_soon:
            self._loads_soon = True
            self._loop.call_soon(self._load)

    def _load(self) -> None:
        self._loads_soon = False
        shard = self._to_load.popleft()
        try:
            if not shard.load_some(self.now(), LOAD_BYTES):
                self._to_load.appendleft(shard)
                return
        except LogNotLoadedError as waiting:
            waiting.then(partial(self._load_on, shard))
            return
        finally:
            self._load_soon()
        if shard.status is ShardStatus.LOADING:
            return  # it waits for a flush
        took_ms = self._now_ms() - self._loading_since_ms.pop(shard)
        if shard.status is ShardStatus.ACTIVE:
            self._retries.pop(shard, None)
            self.longest_load_ms = max(self.longest_load_ms or 0, took_ms)
            self._served.append((shard, took_ms))
        elif shard.status is ShardStatus.FAILED:
            self._retry_later(shard)
        if not any(other.status is ShardStatus.LOADING for other in self._loading_since_ms):
            self._tell_served()

    def _tell_served(self) -> None:
        """One line for all that were loaded together, as all partitions of a topic are at a first start."""
        served, self._served = self._served, []
        for topic, group in groupby(served, key=lambda item: item[0].name.rpartition("-")[0]):
            listed = list(group)
            shard, _ = listed[0]
            if len(listed) == 1:
                _log.info("%s is served at epoch %d, loaded in %d ms", shard.name, shard.epoch, listed[0][1])
                continue
            longest_ms = max(took_ms for _, took_ms in listed)
            _log.info("%d partitions of %s are served, loaded in %d ms", len(listed), topic, longest_ms)
            for shard, took_ms in listed:
                _log.debug("%s is served at epoch %d, loaded in %d ms", shard.name, shard.epoch, took_ms)

    def _load_on(self, shard: Shard) -> None:
        """The next part of its log is in memory."""
        self._to_load.append(shard)
        self._load_soon()

    def _retry_later(self, shard: Shard) -> None:
        retry = self._retries.get(shard)
        delay_ms = RETRY_MS if retry is None else min(2 * retry.delay_ms, MAX_RETRY_MS)
        handle = self._loop.call_later(delay_ms / 1000, self._retry, shard)
        self._retries[shard] = _Retry(delay_ms, handle)
        assert shard.failure is not None
        offset, error = shard.failure
        is_expected = isinstance(error, CorruptLogError | LogUnavailableError)
        _log.error(
            "loading %s failed at offset %d: %s; retrying in %d ms",
            shard.name,
            offset,
            error if is_expected else repr(error),
            delay_ms,
            exc_info=None if is_expected else error,
        )

    def _retry(self, shard: Shard) -> None:
        if shard.status is ShardStatus.FAILED:
            shard.reload()
        else:
            del self._retries[shard]  # replaced by another, or not led here any more

    # --- time ------------------------------------------------------------------------------------------

    def _tick(self) -> None:
        self._timer = None
        if grace_ms := self._grace_ms():
            self.wake(self._now_ms() + grace_ms)
        elif self._now_ms() - self._timer_at_ms > STANDSTILL_MS:
            # The process was suspended, and timers run before sockets: heartbeats that have arrived already
            # are handled before a session may expire.
            self._loop.call_soon(self._loop.call_soon, self._fire)
        else:
            self._fire()

    def _fire(self) -> None:
        try:
            self.shards.tick(self.now())
        finally:  # without this the timers of all shards would stop
            next_ms = self.shards.next_check_ms()
            if next_ms is not None:
                self.wake(next_ms)

    # --- leadership and durability ---------------------------------------------------------------------

    def elect(self, partition: int, epoch: int, open_log: Callable[[], CoordinatorLog]) -> bool:
        """This broker leads a partition at an epoch: load its shard. False if the epoch is not newer."""
        return self.shards.elect(partition, epoch, open_log)

    def resign(self, partition: int, epoch: int) -> None:
        """Another broker leads a partition at this epoch, or its log cannot be served any more."""
        self.shards.resign(partition, epoch)

    def on_durable(self, partition: int) -> None:
        """The durable end of a partition's log moved."""
        shard = self.shards.by_partition.get(partition)
        if shard is not None:
            shard.on_durable(self.now)

    def on_flush_failed(self, partition: int) -> None:
        """A flush failed: what was not durable is lost."""
        shard = self.shards.by_partition.get(partition)
        if shard is not None:
            shard.on_flush_failed()
