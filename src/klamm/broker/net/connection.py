"""One client connection: frames in, decisions in order, answers out in the same order.

A request is *undecided* until its handler ran, *parked* while its handler waits for something to happen,
*held* while only its answer waits for the disk. Behind a parked request nothing is decided; behind a held
one everything is, but for the few APIs that have to wait their turn.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, cast

from klamm.broker.net.answer import Answer
from klamm.broker.net.backlog import READ_AT_ONCE_BYTES, Backlog, Part, has_slice
from klamm.broker.net.context import (
    ClientSoftware,
    CloseConnectionError,
    HeldResponse,
    ParkedResponse,
    RequestContext,
)
from klamm.broker.net.dispatch import API_VERSIONS_KEY, Dispatcher, Endpoint, RefusalLog
from klamm.broker.net.idle import IdleTimer
from klamm.broker.net.memory import RequestMemory, Share
from klamm.broker.net.throttling import throttled
from klamm.protocol.api import ApiKey
from klamm.protocol.errors import DecodeError, ErrorCode
from klamm.protocol.framing import FrameReader
from klamm.protocol.headers import RequestHeaders

if TYPE_CHECKING:
    from collections.abc import Callable

    from klamm.broker.net.outbox import Outbox
    from klamm.broker.services import Services
    from klamm.protocol.types import Buffer

MAX_UNDECIDED: Final = 64
MAX_UNDECIDED_BYTES: Final = 1024 * 1024
MAX_UNANSWERED: Final = 1024
_JOINED_BYTES: Final = 16 * 1024  # parts below this size cost more as parts than as a copy

_log = logging.getLogger(__name__)


class Connection(asyncio.Protocol):
    """The asyncio side of one client. It knows frames and order, and of the requests nothing."""

    __slots__ = (
        "_backlog", "_broken", "_context", "_dispatcher", "_find_endpoint", "_flush_is_due", "_has_slices",
        "_headers", "_idle", "_is_lost", "_is_pumping", "_loop", "_memory", "_now_ms", "_on_lost",
        "_on_made", "_out", "_out_bytes", "_outbox", "_overlapping", "_parked", "_pump_is_due", "_reader",
        "_reading_is_paused", "_refusals", "_services", "_share", "_takes_no_more", "_transport",
        "_unanswered", "_undecided", "_undecided_bytes", "_writing_is_paused", "active_at_ms", "client_ip",
        "peer",
    )  # fmt: skip

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
        self._undecided_bytes = 0
        self._unanswered: deque[Answer] = deque()
        self._parked: Answer | None = None
        self._out: list[Part] = []
        self._out_bytes = 0
        self._has_slices = False  # in `_out`
        self._backlog = Backlog()  # what is left of large responses
        self._outbox = outbox
        self._memory = memory
        self._share = Share(memory, self)
        self._flush_is_due = False
        self._is_pumping = False
        self._pump_is_due = False
        self._reading_is_paused = False
        self._writing_is_paused = False
        self._broken: str | None = None  # why nothing after the last whole frame can be read
        self._takes_no_more = False  # answers what was decided, then closes
        self._is_lost = False
        self._idle = IdleTimer(self, services)
        self.active_at_ms = self._now_ms()  # when anything last came or was answered
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
        return bool(self._unanswered or (self._undecided and not self._backlog) or self._share.is_waiting)

    @property
    def waits_for_client(self) -> bool:
        """Whether nothing but the client, which sends or reads no further, keeps its requests in memory."""
        return self._writing_is_paused or bool(self._backlog) or not self._unanswered

    # What asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport = cast(asyncio.Transport, transport)  # uvloop's does not say so
        peer = transport.get_extra_info("peername")
        self.client_ip = str(peer[0]) if peer else "?"
        self._context = replace(self._context, client_host=f"/{self.client_ip}")
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
        if not self._undecided and self._may_decide():
            frame = self._reader.only(data)
        if frame is not None and not self._must_wait(frame):
            self._decide(frame)
        else:
            self._take_in(data)
        if self._out:
            self._flush_out()
        memory = self._memory
        if (
            frame is None
            or self._undecided
            or self._reading_is_paused
            or memory.held_bytes >= memory.limit_bytes
        ):
            self.mind_reading()

    def _take_in(self, data: bytes) -> None:
        undecided = self._undecided
        count = len(undecided)
        try:
            for frame in self._reader.feed(data):
                undecided.append(frame)
                self._undecided_bytes += len(frame)
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
        self._writing_is_paused = True
        self._outbox.blocked += 1
        self.mind_reading()

    def resume_writing(self) -> None:
        self._unblock()
        if self._backlog:
            self._outbox.stream(self)
        else:
            self._pump_and_flush()

    def _unblock(self) -> None:
        if self._writing_is_paused:
            self._writing_is_paused = False
            self._outbox.blocked -= 1

    # Deciding

    def _pump(self) -> None:
        """Decide what may be decided now."""
        if self._is_pumping:
            return
        self._is_pumping = True
        undecided = self._undecided
        try:
            while undecided and self._may_decide() and not self._must_wait(undecided[0]):
                frame = undecided.popleft()
                self._undecided_bytes -= len(frame)
                self._decide(frame)
        finally:
            self._is_pumping = False
        if self._broken is not None and not undecided and not self._takes_no_more:
            self._refuse(self._broken, "frame")

    def _may_decide(self) -> bool:
        return (
            self._parked is None
            and not self._takes_no_more
            and not self._writing_is_paused
            and not self._backlog
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
            correlation_id, client_id, position = self._headers.read(frame, has_tags=endpoint.header_has_tags)
            request = endpoint.decode(frame, position)
        except DecodeError as error:
            self._refuse(f"{endpoint}: {error}", "request")
            return
        context = self._context
        if client_id != context.client_id:
            context = self._context = replace(context, client_id=client_id)
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
        started_at_ms = self.active_at_ms
        if isinstance(result, HeldResponse):
            is_parked = isinstance(result, ParkedResponse)
            # What is parked is not counted: it may wait for another client's request, which must be read.
            held_bytes = 0 if is_parked else size_bytes
            answer = Answer(
                self, endpoint, context, correlation_id, request, result, started_at_ms, held_bytes
            )
            if is_parked:
                self._park(answer)
            else:
                self._memory.held_bytes += held_bytes
                self._unanswered.append(answer)
        elif result is None:
            self._observe(endpoint, None, started_at_ms)
        elif type(result) is not endpoint.response_type and hasattr(result, "__await__"):
            future = asyncio.ensure_future(result, loop=self._loop)
            # An awaited Produce keeps its batches, and waits for nothing but a coordinator.
            held_bytes = size_bytes if endpoint.api_key is ApiKey.PRODUCE else 0
            self._memory.held_bytes += held_bytes
            self._park(
                Answer(self, endpoint, context, correlation_id, request, future, started_at_ms, held_bytes)
            )
        elif self._unanswered:
            ready: HeldResponse[Any] = HeldResponse()
            ready.keep(result)
            answer = Answer(self, endpoint, context, correlation_id, request, ready, started_at_ms)
            self._unanswered.append(answer)
        else:
            endpoint.response_type = type(result)
            self._write(endpoint, context, correlation_id, result, started_at_ms)

    def _park(self, answer: Answer) -> None:
        self._parked = answer
        self._unanswered.append(answer)
        if self._is_lost:
            answer.cancel()

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

    def answer_is_ready(self, answer: Answer) -> None:
        """An answer came: send it and all ready ones behind it, and go on deciding."""
        self.active_at_ms = self._now_ms()
        if answer is self._parked:
            self._parked = None
        unanswered = self._unanswered
        while unanswered and unanswered[0].response.done():
            self._finish(unanswered.popleft())
        if (self._undecided or self._broken is not None) and self._parked is None:
            self._pump_soon()
        if self._out and not self._flush_is_due:
            self._flush_is_due = True
            self._outbox.add(self)
        if self._takes_no_more:
            self._close_if_finished()

    def _pump_soon(self) -> None:
        """Go on deciding; not at once, because this may be in the middle of a decision."""
        if not self._pump_is_due:
            self._pump_is_due = True
            self._loop.call_soon(self._pump_and_flush)

    def answer_is_ready_soon(self, answer: Answer) -> None:
        self._loop.call_soon(self.answer_is_ready, answer)

    def _finish(self, answer: Answer) -> None:
        memory = self._memory
        memory.held_bytes -= answer.held_bytes
        if memory.waiting:
            memory.released()
        try:
            response = answer.outcome()
        except Exception as error:
            response = self._failure(answer.endpoint, answer.request, error)
        if response is None:
            self._observe(answer.endpoint, None, answer.started_at_ms, has_waited=True)
        else:
            self._write(
                answer.endpoint,
                answer.context,
                answer.correlation_id,
                response,
                answer.started_at_ms,
                has_waited=True,
            )

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
        if services.meter is not None:
            self._observe(endpoint, response, started_at_ms, has_waited=has_waited)
        if self._is_lost:
            return
        if services.quotas is not None:
            throttle_ms = services.quotas.throttle_ms(context, endpoint.api_key, response)
            response = throttled(response, throttle_ms)
        try:
            parts = endpoint.encode(response)
        except Exception:
            _log.exception("encoding the response to %s from %s failed", endpoint, self.peer)
            self._take_no_more()
            return
        head_bytes = endpoint.head_bytes
        if endpoint.streams:
            size_bytes = head_bytes + sum(map(len, parts))
            self._out.append(endpoint.pack_head(size_bytes - 4, correlation_id))
            self._out += parts
            if size_bytes > READ_AT_ONCE_BYTES and has_slice(parts):
                self._has_slices = True
                self._flush_out()  # which ends deciding until all of it is sent
                return
        else:
            body = parts[0] if len(parts) == 1 else b"".join(parts)
            size_bytes = head_bytes + len(body)
            self._out.append(endpoint.pack_head(size_bytes - 4, correlation_id) + body)
        self._out_bytes += size_bytes
        if self._out_bytes >= MAX_UNDECIDED_BYTES:
            # A burst of large answers must feel the send buffer's limit while it is being decided.
            self._flush_out()

    def _observe(
        self, endpoint: Endpoint, response: Any, started_at_ms: int, *, has_waited: bool = False
    ) -> None:
        """The one place that knows of every request its API, its answer and when it began."""
        meter = self._services.meter
        if meter is not None:
            total_ms = self._services.clock.now_ms() - started_at_ms
            meter.answered(endpoint, response, total_ms, has_waited=has_waited)

    def flush(self) -> None:
        """Send what was put down in this turn of the loop."""
        self._flush_is_due = False
        self._flush_out()

    def _flush_out(self) -> None:
        out, size_bytes = self._out, self._out_bytes
        self._out, self._out_bytes = [], 0
        if self._transport is None or self._is_lost or not out:
            return
        if self._has_slices or self._backlog:
            self._has_slices = False
            is_streaming = bool(self._backlog)
            self._backlog.add(out)
            if not is_streaming and not self._writing_is_paused:
                self._outbox.stream(self)
            return
        whole = cast("list[Buffer]", out)
        if len(whole) == 1:
            self._transport.write(whole[0])
        elif size_bytes <= _JOINED_BYTES:
            self._transport.write(b"".join(whole))
        else:
            self._transport.writelines(whole)

    def send_part(self, limit_bytes: int) -> int:
        """Send about so many bytes of the backlog, if the socket accepts any; how many. Raises LogError."""
        if self._transport is None or self._is_lost or self._writing_is_paused:
            return 0
        parts = self._backlog.take(limit_bytes)
        self._transport.writelines(parts)
        self.active_at_ms = self._now_ms()
        if not self._backlog:
            self._pump_soon()
        elif self._takes_no_more:
            self._idle.linger()  # the client still reads
        return sum(map(len, parts))

    @property
    def can_send_more(self) -> bool:
        return bool(self._backlog) and not self._writing_is_paused and not self._is_lost

    def _pump_and_flush(self) -> None:
        self._pump_is_due = False
        self._pump()
        if self._out:
            self._flush_out()
        self.mind_reading()
        self._close_if_finished()

    # Reading no more than needed

    def mind_reading(self) -> None:
        """Read ahead a little, not more: what waits undecided is bounded."""
        if self._transport is None or self._is_lost or self._takes_no_more:
            return
        must_wait = self._share.must_wait(self._undecided_bytes, self._reader)
        is_enough = (
            must_wait
            or self._writing_is_paused
            or bool(self._backlog)
            or len(self._undecided) >= MAX_UNDECIDED
            or self._undecided_bytes >= MAX_UNDECIDED_BYTES
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
        self._undecided_bytes = 0
        self._share.close()
        if self._transport is not None and not self._is_lost and not self._reading_is_paused:
            self._reading_is_paused = True
            self._transport.pause_reading()
        self._loop.call_soon(self._close_if_finished)

    def _close_if_finished(self) -> None:
        if self._takes_no_more and not self._unanswered and self._transport is not None:
            self._flush_out()
            if not self._backlog:
                self._transport.close()
            self._idle.linger()

    def stop(self) -> None:
        """The broker stops: drop what is parked or undecided, answer what only waits for the disk, close."""
        self._take_no_more()
        if self._parked is not None:
            self._parked.cancel()

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
        self._unblock()
        self._out.clear()
        self._backlog.clear()
        # A parked request is cancelled, which lets the next one be decided, and so on to the last.
        if self._parked is not None:
            self._parked.cancel()
        self._pump()
