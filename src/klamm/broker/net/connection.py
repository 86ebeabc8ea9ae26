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
from klamm.broker.net.connection_states import BROKEN, CLOSING, LOST, MUTED, NEXT, OPEN, OVER, ServingState
from klamm.broker.net.context import CloseConnectionError, HeldResponse, RequestContext
from klamm.broker.net.dispatch import API_VERSIONS_KEY, Dispatcher, Endpoint, RefusalLog
from klamm.broker.net.idle import IdleTimer
from klamm.broker.net.intake import Intake
from klamm.broker.net.sender import ResponseSender
from klamm.broker.net.session_guard import FindEndpoint, SessionGuard
from klamm.broker.net.throttling import Mute
from klamm.protocol.api import ApiKey
from klamm.protocol.errors import DecodeError, ErrorCode
from klamm.protocol.headers import RequestHeaders

if TYPE_CHECKING:
    from collections.abc import Callable

    from klamm.broker.net.memory import RequestMemory
    from klamm.broker.net.outbox import Outbox
    from klamm.broker.services import Services

MAX_UNANSWERED: Final = 1024

_log = logging.getLogger(__name__)


class Connection:
    """The asyncio side of one connection: frames and the order of responses. It does not decode requests.

    It has the methods of an `asyncio.Protocol`, not its base: this class is compiled.
    """

    __slots__ = (
        "_broken", "_context", "_dispatcher", "_guard", "_has_turn", "_headers", "_idle",
        "_intake", "_is_pumping", "_loop", "_memory", "_mute", "_now_ms", "_on_lost", "_on_made", "_outbox",
        "_overlapping", "_parked", "_reader", "_refusals", "_sender",
        "_services", "_state", "_transport", "_unanswered", "_undecided",
        "active_at_ms", "client_ip", "find_endpoint", "peer",
    )  # fmt: skip

    _overrides_write: ClassVar = False  # whether every response must go through the `_write` of a subclass

    def __init__(
        self,
        services: Services,
        dispatcher: Dispatcher,
        refusals: RefusalLog,
        context: RequestContext,
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
        self.find_endpoint: FindEndpoint = dispatcher.find
        self._overlapping = dispatcher.overlapping
        self._refusals = refusals
        self._on_made = on_made
        self._on_lost = on_lost
        self._intake = Intake(self, memory, services.config.socket_request_max_bytes)
        self._reader = self._intake.reader
        self._undecided = self._intake.undecided
        self._headers = RequestHeaders()
        self._transport: asyncio.Transport | None = None
        self._unanswered: deque[Answer] = deque()
        self._parked: HeldResponse[Any] | None = None
        self._outbox = outbox
        self._sender = ResponseSender(self, outbox)
        self._memory = memory
        self._state: ServingState = OPEN
        self._is_pumping = False
        self._has_turn = False  # the outbox is about to call `take_turn`
        self._broken: str | None = None  # why nothing after the last whole frame can be read
        self._mute: Mute | None = None  # since it was throttled first
        self._guard: SessionGuard | None = None  # of a client that logged in
        self._idle = IdleTimer(self, services)
        self.active_at_ms = self._now_ms()  # when data was last received or sent
        self._context = context
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
            self._unanswered
            or (self._undecided and not self._sender.has_backlog)
            or self._intake.share.is_waiting
        )

    @property
    def waits_for_client(self) -> bool:
        """Whether nothing but the client, which sends or reads no further, keeps its requests in memory."""
        return self._sender.is_blocked or not self._unanswered

    # What asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast(asyncio.Transport, transport)  # uvloop's does not say so
        self._transport = self._intake.transport = transport
        self._sender.attach(transport)
        peer = transport.get_extra_info("peername")
        self.client_ip = str(peer[0]) if peer else "?"
        self._context = self._context.at_host(f"/{self.client_ip}")
        self.peer = f"{self.client_ip}:{peer[1]}" if peer else "?"
        if not self._on_made(self):
            self._move(CLOSING)
            transport.abort()
            return
        if self._context.session is not None:
            self._guard = SessionGuard(self, self._context.session, self._services, self._dispatcher)
        self._idle.start()

    def data_received(self, data: bytes) -> None:
        self.active_at_ms = self._now_ms()
        if not self._state.reads:
            if self._state is MUTED:
                self._take_in(data)  # on its way when reading was paused
            return
        frame = None
        unanswered = self._unanswered
        may_wait = self._undecided or self._sender.is_blocked or self._parked is not None
        if not may_wait and len(unanswered) < MAX_UNANSWERED:
            frame = self._reader.only(data)
        # Most requests are decided only when all before them are answered.
        if frame is not None and (not unanswered or frame[:2] in self._overlapping):
            self._decide(frame)
        else:
            self._take_in(data)
        if self._sender.unsent:
            self._outbox.send(self._sender)
        memory = self._memory
        is_usual = frame is not None and not self._undecided and not self._intake.is_paused
        if not is_usual or memory.held_bytes >= memory.limit_bytes:
            self.pause_or_resume_reading()

    def _take_in(self, data: bytes) -> None:
        try:
            self._intake.take(data)
        except DecodeError as error:
            self._broken = str(error)  # requests before the invalid bytes are served first
            if self._state is OPEN:
                self._move(BROKEN)
        self._pump()

    def eof_received(self) -> None:
        self._peer_is_gone()

    def connection_lost(self, exc: Exception | None) -> None:
        self._peer_is_gone()
        self._idle.stop()
        if self._guard is not None:
            self._guard.stop()
        self._on_lost(self)

    def pause_writing(self) -> None:
        self._sender.pause()
        self.pause_or_resume_reading()

    def resume_writing(self) -> None:
        self._sender.resume()
        self.part_is_sent()

    def part_is_sent(self) -> None:
        """The client has accepted something of the responses that it did not accept at once."""
        self.active_at_ms = self._now_ms()
        if not self._sender.is_blocked:
            self.turn_soon()
        elif self._state is CLOSING:
            self._idle.linger()  # the client still reads

    # Deciding

    def _pump(self) -> None:
        """Decide what may be decided now."""
        if self._is_pumping:
            return
        self._is_pumping = True
        undecided, unanswered, sender = self._undecided, self._unanswered, self._sender
        try:
            while (
                undecided
                and self._parked is None
                and self._state.decides
                and not sender.is_blocked
                and len(unanswered) < MAX_UNANSWERED
                and (not unanswered or undecided[0][:2] in self._overlapping)
            ):
                self._decide(undecided.popleft())
        finally:
            self._is_pumping = False
        if self._broken is not None and not undecided and self._state.decides:
            self._refuse(self._broken, "frame")

    def _decide(self, frame: bytes) -> None:
        endpoint = self.find_endpoint(frame[:4])
        if endpoint is None:
            endpoint = self._new_endpoint(frame)
            if endpoint is None:
                return
        services = self._services
        quotas = services.quotas
        since_s = 0.0 if quotas is None else quotas.now_s()
        try:
            correlation_id, client_id, position = self._headers.read(frame, endpoint.header_has_tags)
            request = endpoint.decode(frame, position)
        except DecodeError as error:
            self._refuse(f"{endpoint}: {error}", "request")
            return
        context = self._context
        if client_id != context.client_id:
            context = self._context = context.of_client(client_id)
        meter = services.meter
        began_at_ms = 0 if meter is None else self._now_ms()
        try:
            result = endpoint.handle(services, context, request)
        except Exception as error:
            # Whatever a handler raises, its client gets a response, and others are not affected.
            result = self._failure(endpoint, request, error)
        if meter is not None:
            meter.decided(endpoint, len(frame), self._now_ms() - began_at_ms)
        if quotas is not None:
            result = quotas.decided(context, since_s, result)
        if type(result) is endpoint.response_type and not self._unanswered:
            self._write(endpoint, context, correlation_id, result, self.active_at_ms, len(frame))
        elif isinstance(result, HeldResponse) and not result.is_parked:
            held, size_bytes = result, len(frame)
            self._memory.held_bytes += size_bytes
            held.listener = self.turn_soon
            self._unanswered.append(
                (held, endpoint, context, correlation_id, self.active_at_ms, size_bytes, size_bytes)
            )
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
            self._park((result, endpoint, context, correlation_id, started_at_ms, size_bytes, 0))
        elif result is None:
            self._write(endpoint, context, correlation_id, None, started_at_ms, size_bytes)
        elif type(result) is not endpoint.response_type and hasattr(result, "__await__"):
            handling = asyncio.ensure_future(result, loop=self._loop)
            awaited = AwaitedResponse(handling, partial(self._failure, endpoint, request))
            # An awaited Produce keeps its batches, and waits for nothing but a coordinator.
            held_bytes = size_bytes if endpoint.api_key is ApiKey.PRODUCE else 0
            self._memory.held_bytes += held_bytes
            self._park((awaited, endpoint, context, correlation_id, started_at_ms, size_bytes, held_bytes))
        elif self._unanswered:
            ready: HeldResponse[Any] = HeldResponse()
            ready.keep(result)
            self._unanswered.append((ready, endpoint, context, correlation_id, started_at_ms, size_bytes, 0))
        else:
            endpoint.response_type = type(result)
            self._write(endpoint, context, correlation_id, result, started_at_ms, size_bytes)

    def _park(self, answer: Answer) -> None:
        self._parked = answer[0]
        self._parked.listener = self.turn_soon
        self._unanswered.append(answer)
        if not self._state.sends:
            self._cancel_parked()

    def _cancel_parked(self) -> None:
        if self._parked is not None:
            self._parked.drop()
            self.turn_soon()

    def _failure(self, endpoint: Endpoint, request: Any, error: BaseException) -> Any:
        """What a handler that raised answers: its API's error shape, or nothing and a closed connection."""
        if not isinstance(error, CloseConnectionError):
            _log.error("%s from %s failed", endpoint, self.peer, exc_info=error)
            if endpoint.api_key is not ApiKey.PRODUCE or request.acks != 0:
                return endpoint.failed(request, ErrorCode.unknown_server_error)
        self._refuse(f"{endpoint}: {error}")
        return None

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
        is_usual = self._state is OPEN and not self._undecided
        if not is_usual:
            self._pump()
        if self._sender.unsent:
            self._sender.flush()
        # If it waits for room in memory, it is told when that is there, after those that wait longer.
        if not is_usual or (self._intake.is_paused and not self._intake.share.is_waiting):
            self.pause_or_resume_reading()
            self._close_if_finished()

    def _answer(self) -> None:
        """Write the responses that are complete, up to the first one that is not."""
        unanswered, services = self._unanswered, self._services
        is_plain = (
            not self._overrides_write
            and services.serve_window is None
            and services.meter is None
            and services.quotas is None
            and self._state.sends
        )
        released_bytes = 0
        while unanswered and unanswered[0][0].is_done:
            answer = unanswered.popleft()
            held, endpoint, context, correlation_id, started_at_ms, size_bytes, held_bytes = answer
            released_bytes += held_bytes
            response = held.response
            if is_plain and response is not None:
                self._put(endpoint, correlation_id, response)
            else:
                self._write(
                    endpoint, context, correlation_id, response, started_at_ms, size_bytes, has_waited=True
                )
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
        size_bytes: int,
        *,
        has_waited: bool = False,
    ) -> None:
        """The one place with the API, response and start time of every request; None: it has no response."""
        services, sends = self._services, self._state.sends
        window, api_key = services.serve_window, endpoint.api_key
        if window is not None and response is not None and sends and not window.may_send(api_key, response):
            unproven = UnprovenResponse(self, response, window)
            answer = unproven, endpoint, context, correlation_id, started_at_ms, size_bytes, 0
            self._unanswered.appendleft(answer)
            return
        meter = services.meter
        if meter is not None:
            meter.answered(endpoint, response, self._now_ms() - started_at_ms, has_waited=has_waited)
        if not sends:
            return
        quotas, since_s = services.quotas, 0.0
        if quotas is not None:
            response, mute_ms = quotas.settle(context, api_key, size_bytes, response)
            self.mute(mute_ms)
            since_s = quotas.now_s()
        if response is not None:
            self._put(endpoint, correlation_id, response)
            if quotas is not None:
                quotas.spent(context, since_s)

    def _put(self, endpoint: Endpoint, correlation_id: int, response: Any) -> None:
        try:
            if endpoint.streams:
                parts, size_bytes = endpoint.parts(correlation_id, response)
                self._sender.put_parts(parts, size_bytes)
            else:
                self._sender.put(endpoint.whole(correlation_id, response))
        except Exception:
            _log.exception("encoding the response to %s from %s failed", endpoint, self.peer)
            self.end()

    # Reading no more than needed

    def pause_or_resume_reading(self) -> None:
        if not self._state.has_ended:
            is_held_up = self._sender.is_blocked or self._state is MUTED
            self._intake.pause_or_resume(is_held_up=is_held_up)

    def mute(self, for_ms: int) -> None:
        """Neither read nor decide anything for so long. Responses to what is decided leave."""
        if for_ms <= 0 or self._state.has_ended:
            return
        if self._mute is None:
            self._mute = Mute(self._loop, self._services.clock, self._unmute)
        self._mute.extend(for_ms)
        if self._state is not MUTED:
            self._move(MUTED)
            self.pause_or_resume_reading()

    def _unmute(self) -> None:
        self._move(OPEN if self._broken is None else BROKEN)
        self.turn_soon()

    # Ending

    def _move(self, state: ServingState) -> None:
        assert state in NEXT[self._state], (self._state, state)
        if self._mute is not None and state.has_ended:
            self._mute.cancel()
        self._state = state

    def _refuse(self, reason: str, kind: str = "") -> None:
        """Send the responses of earlier requests, then close: the input is invalid."""
        self._refusals.report(self.peer, reason, kind)
        self.end()

    def end(self) -> None:
        """Send what is owed for the requests that are decided, then close."""
        if self._state.decides or self._state is MUTED:
            self._move(CLOSING if self._state.sends else OVER)
        self._intake.end(pauses=self._state.sends)
        self._loop.call_soon(self._close_if_finished)

    def _close_if_finished(self) -> None:
        if self._state is CLOSING and not self._unanswered and self._transport is not None:
            self._sender.flush()
            if not self._sender.has_backlog:
                self._transport.close()
            self._idle.linger()

    def stop(self) -> None:
        """The broker stops: drop what is parked or undecided, answer what only waits for the disk, close."""
        self.end()
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
        if not self._state.sends:
            return
        self._move(OVER if self._state is CLOSING else LOST)
        self._intake.share.close()
        self._sender.close()
        # A parked request is cancelled, which lets the next one be decided, and so on to the last.
        self._cancel_parked()
        self._pump()
