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

        def act(self, shard: Shard[Any, Any], action: object) -> None:
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
from collections.abc import Callable
from functools import partial
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

from klamm.broker.net.context import HeldResponse, ParkedResponse, RequestContext
from klamm.clock import Clock
from klamm.coordinator.runtime.events import Event
from klamm.coordinator.runtime.log import CoordinatorLog, LogNotLoadedError, LogUnavailableError
from klamm.coordinator.runtime.machine import CorruptLogError
from klamm.coordinator.runtime.outcome import Context
from klamm.coordinator.runtime.shard import Shard, ShardHost, ShardStatus
from klamm.coordinator.runtime.shards import Shards
from klamm.protocol.message import Request

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

    def handle(self, request: Any, context: Context) -> None:
        """Decide a request; the response goes to `ShardHost.send` with the context's token, now or later."""
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
        self._handle = self.coordinator.handle
        self._timer: TimerHandle | None = None
        self._timer_at_ms = 0
        self._to_load: deque[Shard[Any, Any]] = deque()
        self._loads_soon = False
        self._loading_since_ms: dict[Shard[Any, Any], int] = {}
        self._retries: dict[Shard[Any, Any], _Retry] = {}
        self.longest_load_ms = 0

    def stop(self) -> None:
        """Serve nothing from now on; requests that wait are answered with an error."""
        if self._timer is not None:
            self._timer.cancel()
        for retry in self._retries.values():
            retry.handle.cancel()
        self.shards.stop()

    # --- requests --------------------------------------------------------------------------------------

    def ask(self, request: Request[Response], context: RequestContext) -> Response | HeldResponse[Response]:
        """Decide; the response, or a held one when it waits for the disk."""
        promise: HeldResponse[Response] = HeldResponse()
        self._handle(
            request,
            Context(
                self._now_ms(), self._timestamp_ms(), context.client_id, context.client_host, "", promise
            ),
        )
        response = promise.response
        return promise if response is None else response

    def ask_parked(
        self, request: Request[Response], context: RequestContext, fresh_id: str = ""
    ) -> Response | ParkedResponse[Response]:
        """Decide; the response, or a parked one when it waits for other clients."""
        promise: ParkedResponse[Response] = ParkedResponse()
        self._handle(
            request,
            Context(
                self._now_ms(),
                self._timestamp_ms(),
                context.client_id,
                context.client_host,
                fresh_id,
                promise,
            ),
        )
        response = promise.response
        return promise if response is None else response

    def now(self) -> Context:
        """The context of work without a client, such as a timer."""
        return Context(now_ms=self._now_ms(), timestamp_ms=self._timestamp_ms())

    def signal(self, shard: Shard[Any, Any], signal: object) -> None:
        """The result of an action, or a fact from elsewhere, enters a shard. An inactive shard ignores it."""
        shard.signal(signal, self.now())

    # --- calls of the shards ----------------------------------------------------------------------------

    def send(self, token: Any, response: object) -> None:
        token.keep(response)

    def tell(self, event: Event) -> None:
        self._events.tell(event)

    def act(self, shard: Shard[Any, Any], action: object) -> None:
        raise AssertionError(f"{shard.name}: nothing carries out {action!r}")

    def act_early(self, shard: Shard[Any, Any], action: object) -> bool:
        return False

    def wake(self, at_ms: int) -> None:
        if self._timer is not None:
            if self._timer_at_ms <= at_ms:
                return
            self._timer.cancel()
        self._timer_at_ms = at_ms
        delay_ms = max(0, at_ms - self._now_ms())
        self._timer = self._loop.call_later(delay_ms / 1000, self._tick)

    def load(self, shard: Shard[Any, Any]) -> None:
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
            self.longest_load_ms = max(self.longest_load_ms, took_ms)
            _log.info("%s is served at epoch %d, loaded in %d ms", shard.name, shard.epoch, took_ms)
        elif shard.status is ShardStatus.FAILED:
            self._retry_later(shard)

    def _load_on(self, shard: Shard[Any, Any]) -> None:
        """The next part of its log is in memory."""
        self._to_load.append(shard)
        self._load_soon()

    def _retry_later(self, shard: Shard[Any, Any]) -> None:
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

    def _retry(self, shard: Shard[Any, Any]) -> None:
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
        self.shards.tick(self.now())
        next_ms = self.shards.next_look_ms()
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
