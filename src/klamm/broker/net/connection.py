"""One client connection: frames in, decisions in order, answers out in the same order.

A request is *undecided* until its handler ran, *parked* while its handler waits for something to happen,
*held* while only its answer waits for the disk. Behind a parked request nothing is decided; behind a held
one everything is, but for the few APIs that have to wait their turn.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

from klamm.broker.net.answer import Answer, AwaitedResponse, UnprovenResponse
from klamm.broker.net.context import ClientSoftware, CloseConnectionError, HeldResponse, RequestContext
from klamm.broker.net.dispatch import API_VERSIONS_KEY, Dispatcher, Endpoint, RefusalLog
from klamm.broker.net.idle import IdleTimer
from klamm.broker.net.memory import RequestMemory, Share
from klamm.broker.net.sender import Sender
from klamm.broker.net.throttling import throttled
from klamm.protocol.api import ApiKey
from klamm.protocol.errors import DecodeError, ErrorCode
from klamm.protocol.framing import FrameReader
from klamm.protocol.headers import RequestHeaders

if TYPE_CHECKING:
    from collections.abc import Callable

    from klamm.broker.net.outbox import Outbox
    from klamm.broker.services import Services

MAX_UNDECIDED: Final = 64
MAX_UNDECIDED_BYTES: Final = 1024 * 1024
MAX_UNANSWERED: Final = 1024

_log = logging.getLogger(__name__)


class Connection(asyncio.Protocol):
    """The asyncio side of one connection: frames and the order of responses. It does not decode requests."""

    __slots__ = (
        "_broken", "_context", "_dispatcher", "_find_endpoint", "_has_turn", "_headers", "_idle",
        "_is_lost", "_is_pumping", "_loop", "_memory", "_now_ms", "_on_lost", "_on_made", "_outbox",
        "_overlapping", "_parked", "_reader", "_reading_is_paused", "_refusals", "_sender",
        "_services", "_share", "_takes_no_more", "_transport", "_unanswered", "_undecided",
        "active_at_ms", "client_ip", "peer",
    )  # fmt: skip

    _overrides_write: ClassVar = False  # whether every response must go through the `_write` of a subclass

    def __init__(
        self,
        services: Services,
        dispatcher: Dispatcher,
        refusals: RefusalLog,
        listener: str,
        outbox: Outbox,
        memory: RequestMemory,
        *,
        on_made: Callable[[Connection], bool],
        on_lost: Callable[[Connection], None],
    ) -> None:
        self._services = services
        self._loop = services.loop
        self._now_ms = services.clock.now_ms
        self._dispatcher = dispatcher
        self._find_endpoint = dispatcher.find
        self._overlapping = dispatcher.overlapping
        self._refusals = refusals
        self._on_made = on_made
        self._on_lost = on_lost
        self._reader = FrameReader(services.config.socket_request_max_bytes)
        self._headers = RequestHeaders()
        self._transport: asyncio.Transport | None = None
        self._undecided: deque[bytes] = deque()
        self._unanswered: deque[Answer] = deque()
        self._parked: HeldResponse[Any] | None = None
        self._outbox = outbox
        self._sender = Sender(self, outbox)
        self._memory = memory
        self._share = Share(memory, self)
        self._is_pumping = False
        self._has_turn = False  # the outbox is about to call `take_turn`
        self._reading_is_paused = False
        self._broken: str | None = None  # why nothing after the last whole frame can be read
        self._takes_no_more = False  # answers what was decided, then closes
        self._is_lost = False
        self._idle = IdleTimer(self, services)
        self.active_at_ms = self._now_ms()  # when data was last received or sent
        self._context = RequestContext("", "", listener, ClientSoftware())
        self.peer = ""
        self.client_ip = ""

    @property
    def listener(self) -> str:
        return self._context.listener

    @property
    def client_software(self) -> tuple[str, str]:
        """Name and version that the client reported; empty when it did not."""
        return self._context.software.name, self._context.software.version

    @property
    def is_busy(self) -> bool:
        """Whether a request of it has no answer yet, through no fault of the client."""
        return bool(
            self._unanswered or (self._undecided and not self._sender.has_backlog) or self._share.is_waiting
        )

    @property
    def waits_for_client(self) -> bool:
        """Whether nothing but the client, which sends or reads no further, keeps its requests in memory."""
        return self._sender.is_blocked or not self._unanswered

    # What asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport = cast(asyncio.Transport, transport)  # uvloop's does not say so
        self._sender.attach(transport)
        peer = transport.get_extra_info("peername")
        self.client_ip = str(peer[0]) if peer else "?"
        self._context = self._context.at_host(f"/{self.client_ip}")
        self.peer = f"{self.client_ip}:{peer[1]}" if peer else "?"
        if not self._on_made(self):
            self._takes_no_more = True
            transport.abort()
            return
        self._idle.start()

    def data_received(self, data: bytes) -> None:
        self.active_at_ms = self._now_ms()
        if self._takes_no_more or self._broken is not None:
            return
        frame = None
        # A request is parked, or awaits its turn, only behind one that is not answered.
        unanswered = self._unanswered
        if not self._undecided and not self._sender.is_blocked and (not unanswered or self._may_decide()):
            frame = self._reader.only(data)
        if frame is not None and not (unanswered and self._must_wait(frame)):
            self._decide(frame)
        else:
            self._take_in(data)
        if self._sender.unsent:
            self._sender.flush()
        memory = self._memory
        is_usual = frame is not None and not self._undecided and not self._reading_is_paused
        if not is_usual or memory.held_bytes >= memory.limit_bytes:
            self.mind_reading()

    def _take_in(self, data: bytes) -> None:
        undecided = self._undecided
        count = len(undecided)
        try:
            frames = self._reader.several(data)
            undecided.extend(
                self._reader.feed(data) if frames is None else frames
            )  # those before an invalid one
        except DecodeError as error:
            self._broken = str(error)  # requests before the invalid bytes are served first
        if len(undecided) > count:
            self._share.is_admitted = False  # what is incomplete now is another request
        self._pump()

    def eof_received(self) -> None:
        self._peer_is_gone()

    def connection_lost(self, exc: Exception | None) -> None:
        self._peer_is_gone()
        self._idle.stop()
        self._on_lost(self)

    def pause_writing(self) -> None:
        self._sender.pause()
        self.mind_reading()

    def resume_writing(self) -> None:
        self._sender.resume()
        self.part_is_sent()

    def part_is_sent(self) -> None:
        """The client has accepted something of the responses that it did not accept at once."""
        self.active_at_ms = self._now_ms()
        if not self._sender.is_blocked:
            self.turn_soon()
        elif self._takes_no_more:
            self._idle.linger()  # the client still reads

    # Deciding

    def _pump(self) -> None:
        """Decide what may be decided now."""
        if self._is_pumping:
            return
        self._is_pumping = True
        undecided, unanswered, sender = self._undecided, self._unanswered, self._sender
        try:
            # `_may_decide` and `_must_wait`, without the calls.
            while (
                undecided
                and self._parked is None
                and not self._takes_no_more
                and not sender.is_blocked
                and len(unanswered) < MAX_UNANSWERED
                and (not unanswered or undecided[0][:2] in self._overlapping)
            ):
                self._decide(undecided.popleft())
        finally:
            self._is_pumping = False
        if self._broken is not None and not undecided and not self._takes_no_more:
            self._refuse(self._broken, "frame")

    def _may_decide(self) -> bool:
        return (
            self._parked is None
            and not self._takes_no_more
            and not self._sender.is_blocked
            and len(self._unanswered) < MAX_UNANSWERED
        )

    def _must_wait(self, frame: bytes) -> bool:
        """Whether a request is decided only when all before it are answered."""
        return bool(self._unanswered) and frame[:2] not in self._overlapping

    def _decide(self, frame: bytes) -> None:
        endpoint = self._find_endpoint(frame[:4])
        if endpoint is None:
            endpoint = self._new_endpoint(frame)
            if endpoint is None:
                return
        try:
            correlation_id, client_id, position = self._headers.read(frame, endpoint.header_has_tags)
            request = endpoint.decode(frame, position)
        except DecodeError as error:
            self._refuse(f"{endpoint}: {error}", "request")
            return
        context = self._context
        if client_id != context.client_id:
            context = self._context = context.of_client(client_id)
        services = self._services
        meter = services.meter
        began_at_ms = 0 if meter is None else self._now_ms()
        try:
            result = endpoint.handle(services, context, request)
        except Exception as error:
            # Whatever a handler raises, its client gets a response, and others are not affected.
            result = self._failure(endpoint, request, error)
        if meter is not None:
            meter.decided(endpoint, len(frame), self._now_ms() - began_at_ms)
        if type(result) is endpoint.response_type and not self._unanswered:
            self._write(endpoint, context, correlation_id, result, self.active_at_ms)
        elif isinstance(result, HeldResponse) and not result.is_parked:
            held, held_bytes = result, len(frame)
            self._memory.held_bytes += held_bytes
            held.listener = self.turn_soon
            self._unanswered.append((held, endpoint, context, correlation_id, self.active_at_ms, held_bytes))
        else:
            self._take_result(endpoint, context, correlation_id, request, result, len(frame))

    def _new_endpoint(self, frame: bytes) -> Endpoint | None:
        """The endpoint of an API on first use; None when it is not served: the request is refused here."""
        try:
            return self._dispatcher.endpoint(frame[:4])
        except DecodeError as error:
            if frame[:2] == API_VERSIONS_KEY:
                oldest, response = self._dispatcher.unsupported_api_versions(self._services)
                correlation_id = int.from_bytes(frame[4:8], "big", signed=True)
                self._take_result(oldest, self._context, correlation_id, None, response, len(frame))
            else:
                self._refuse(str(error), "unsupported")
            return None

    def _take_result(
        self,
        endpoint: Endpoint,
        context: RequestContext,
        correlation_id: int,
        request: Any,
        result: Any,
        size_bytes: int,
    ) -> None:
        """Take what a handler returned, unless it is held, or can be sent at once."""
        started_at_ms = self.active_at_ms
        if isinstance(result, HeldResponse):
            # What is parked is not counted: it may wait for another client's request, which must be read.
            self._park((result, endpoint, context, correlation_id, started_at_ms, 0))
        elif result is None:
            self._observe(endpoint, None, started_at_ms)
        elif type(result) is not endpoint.response_type and hasattr(result, "__await__"):
            handling = asyncio.ensure_future(result, loop=self._loop)
            awaited = AwaitedResponse(handling, partial(self._failure, endpoint, request))
            # An awaited Produce keeps its batches, and waits for nothing but a coordinator.
            held_bytes = size_bytes if endpoint.api_key is ApiKey.PRODUCE else 0
            self._memory.held_bytes += held_bytes
            self._park((awaited, endpoint, context, correlation_id, started_at_ms, held_bytes))
        elif self._unanswered:
            ready: HeldResponse[Any] = HeldResponse()
            ready.keep(result)
            self._unanswered.append((ready, endpoint, context, correlation_id, started_at_ms, 0))
        else:
            endpoint.response_type = type(result)
            self._write(endpoint, context, correlation_id, result, started_at_ms)

    def _park(self, answer: Answer) -> None:
        self._parked = answer[0]
        self._parked.listener = self.turn_soon
        self._unanswered.append(answer)
        if self._is_lost:
            self._cancel_parked()

    def _cancel_parked(self) -> None:
        if self._parked is not None:
            self._parked.drop()
            self.turn_soon()

    def _failure(self, endpoint: Endpoint, request: Any, error: BaseException) -> Any:
        """What a handler that raised answers: its API's error shape, or nothing and a closed connection."""
        if isinstance(error, CloseConnectionError):
            self._refuse(f"{endpoint}: {error}")
            return None
        _log.error("%s from %s failed", endpoint, self.peer, exc_info=error)
        if endpoint.api_key is ApiKey.PRODUCE and request.acks == 0:
            self._refuse(f"{endpoint} without an answer failed: {error}")
            return None
        return endpoint.failed(request, ErrorCode.unknown_server_error)

    # Answering

    def turn_soon(self) -> None:
        """A response is ready, or requests may go on: not now, this may be in the middle of a decision."""
        if not self._has_turn:
            self._has_turn = True
            self._outbox.add(self)

    def take_turn(self) -> None:
        """Send the responses that are ready, up to the first one that is not, and decide what follows."""
        self._has_turn = False
        if self._parked is not None and self._parked.is_done:
            self._parked = None
        if self._unanswered and self._unanswered[0][0].is_done:
            self.active_at_ms = self._now_ms()
            self._answer()
        is_usual = not self._undecided and self._broken is None and not self._takes_no_more
        if not is_usual:
            self._pump()
        if self._sender.unsent:
            self._sender.flush()
        # If it waits for room in memory, it is told when that is there, after those that wait longer.
        if not is_usual or (self._reading_is_paused and not self._share.is_waiting):
            self.mind_reading()
            self._close_if_finished()

    def _answer(self) -> None:
        """Write the responses that are complete, up to the first one that is not."""
        unanswered, services = self._unanswered, self._services
        is_plain = (
            not self._overrides_write
            and services.serve_window is None
            and services.meter is None
            and services.quotas is None
            and not self._is_lost
        )
        released_bytes = 0
        while unanswered and unanswered[0][0].is_done:
            held, endpoint, context, correlation_id, started_at_ms, held_bytes = unanswered.popleft()
            released_bytes += held_bytes
            response = held.response
            if is_plain and response is not None:
                self._put(endpoint, correlation_id, response)
            elif response is None:
                self._observe(endpoint, None, started_at_ms, has_waited=True)
            else:
                self._write(endpoint, context, correlation_id, response, started_at_ms, has_waited=True)
        memory = self._memory
        memory.held_bytes -= released_bytes
        if memory.waiting:
            memory.released()

    def _write(
        self,
        endpoint: Endpoint,
        context: RequestContext,
        correlation_id: int,
        response: Any,
        started_at_ms: int,
        *,
        has_waited: bool = False,
    ) -> None:
        services = self._services
        window = services.serve_window
        if window is not None and not window.may_send(endpoint.api_key, response) and not self._is_lost:
            unproven = UnprovenResponse(self, response, window)
            self._unanswered.appendleft((unproven, endpoint, context, correlation_id, started_at_ms, 0))
            return
        if services.meter is not None:
            self._observe(endpoint, response, started_at_ms, has_waited=has_waited)
        if self._is_lost:
            return
        if services.quotas is not None:
            throttle_ms = services.quotas.throttle_ms(context, endpoint.api_key, response)
            response = throttled(response, throttle_ms)
        self._put(endpoint, correlation_id, response)

    def _put(self, endpoint: Endpoint, correlation_id: int, response: Any) -> None:
        try:
            if endpoint.streams:
                parts, size_bytes = endpoint.parts(correlation_id, response)
                self._sender.put_parts(parts, size_bytes)
            else:
                self._sender.put(endpoint.whole(correlation_id, response))
        except Exception:
            _log.exception("encoding the response to %s from %s failed", endpoint, self.peer)
            self._take_no_more()

    def _observe(
        self, endpoint: Endpoint, response: Any, started_at_ms: int, *, has_waited: bool = False
    ) -> None:
        """The one place with the API, response and start time of every request."""
        meter = self._services.meter
        if meter is not None:
            total_ms = self._services.clock.now_ms() - started_at_ms
            meter.answered(endpoint, response, total_ms, has_waited=has_waited)

    # Reading no more than needed

    def mind_reading(self) -> None:
        """Read ahead a little, not more: what waits undecided is bounded."""
        if self._transport is None or self._is_lost or self._takes_no_more:
            return
        undecided_bytes = sum(map(len, self._undecided))
        must_wait = self._share.must_wait(undecided_bytes, self._reader)
        is_enough = (
            must_wait
            or self._sender.is_blocked
            or len(self._undecided) >= MAX_UNDECIDED
            or undecided_bytes >= MAX_UNDECIDED_BYTES
        )
        if is_enough and not self._reading_is_paused:
            self._reading_is_paused = True
            self._transport.pause_reading()
        elif not is_enough and self._reading_is_paused:
            self._reading_is_paused = False
            self._transport.resume_reading()

    # Ending

    def _refuse(self, reason: str, kind: str = "") -> None:
        """Send the responses of earlier requests, then close: the input is invalid."""
        self._refusals.report(self.peer, reason, kind)
        self._take_no_more()

    def _take_no_more(self) -> None:
        self._takes_no_more = True
        self._undecided.clear()
        self._share.close()
        if self._transport is not None and not self._is_lost and not self._reading_is_paused:
            self._reading_is_paused = True
            self._transport.pause_reading()
        self._loop.call_soon(self._close_if_finished)

    def _close_if_finished(self) -> None:
        if self._takes_no_more and not self._unanswered and self._transport is not None:
            self._sender.flush()
            if not self._sender.has_backlog:
                self._transport.close()
            self._idle.linger()

    def stop(self) -> None:
        """The broker stops: drop what is parked or undecided, answer what only waits for the disk, close."""
        self._take_no_more()
        self._cancel_parked()

    def give_up(self, reason: str) -> None:
        """Close now: the client is too slow for what it holds."""
        self._refusals.report(self.peer, reason)
        self.abort()

    def abort(self) -> None:
        """Close now, whatever is left unsent."""
        if self._transport is not None:
            self._transport.abort()

    def _peer_is_gone(self) -> None:
        """The client has disconnected; complete requests that were received are still carried out."""
        if self._is_lost:
            return
        self._is_lost = True
        self._share.close()
        self._sender.close()
        # A parked request is cancelled, which lets the next one be decided, and so on to the last.
        self._cancel_parked()
        self._pump()
