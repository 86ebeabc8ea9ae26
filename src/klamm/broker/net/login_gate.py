"""A connection of a SASL listener before its login. Afterwards its transport has a Connection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from klamm.broker.net.dispatch import API_VERSIONS_KEY, Dispatcher, Endpoint
from klamm.broker.security.audit import logged_in, login_refused
from klamm.broker.security.sasl import Challenge, LoginRefusedError, LoginResult
from klamm.broker.security.sasl_login import LoginStep
from klamm.protocol.api import ApiKey
from klamm.protocol.errors import DecodeError, ErrorCode
from klamm.protocol.headers import RequestHeaders
from klamm.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from klamm.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

if TYPE_CHECKING:
    from klamm.broker.net.connection import Connection
    from klamm.broker.net.context import RequestContext
    from klamm.broker.net.newcomers import Newcomers
    from klamm.broker.security.session import LoginSession
    from klamm.broker.services import Services

_SMALLEST_REQUEST: Final = 8
_HANDSHAKE_KEY: Final = int(ApiKey.SASL_HANDSHAKE).to_bytes(2, "big")
_AUTHENTICATE_KEY: Final = int(ApiKey.SASL_AUTHENTICATE).to_bytes(2, "big")
_DONE: Final = bytes(4)  # a frame of no bytes: the answer to the last raw token


class LoginGate:
    """Takes one request at a time, and only those of a login. Everything else ends the connection."""

    def __init__(
        self,
        services: Services,
        dispatcher: Dispatcher,
        newcomers: Newcomers,
        session: LoginSession,
        context: RequestContext,
        *,
        open_connection: Callable[[RequestContext], Connection],
        refuse: Callable[[str, str], None],
    ) -> None:
        self._services = services
        self._dispatcher = dispatcher
        self._newcomers = newcomers
        self._session = session
        self._context = context
        self._open_connection = open_connection
        self._refuse = refuse
        self._headers = RequestHeaders()
        self._transport: asyncio.Transport | None = None  # None again when this is over
        self._buffer = bytearray()  # what was received and not taken
        self._waits = False  # for work on a thread, or until a refusal may be sent
        self._address = self._peer = "?"

    # What the transport calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        opened = cast(asyncio.Transport, transport)  # uvloop's does not say so
        peer = opened.get_extra_info("peername")
        if peer:
            self._address, self._peer = str(peer[0]), f"{peer[0]}:{peer[1]}"
        self._context = self._context.at_host(f"/{self._address}")
        if not self._newcomers.admit(self, opened, self._context.listener):
            return
        self._transport = opened
        if self._newcomers.guesses(self._address):
            self._pause()
            self._later(1000, self._resume)

    def data_received(self, data: bytes) -> None:
        if self._transport is None:
            return
        self._buffer += data
        if not self._newcomers.may_buffer(len(data)):
            self._close("requests of connections that are not authenticated take too much memory")
            return
        self._take_frames()

    def eof_received(self) -> None:
        """The transport closes itself."""

    def connection_lost(self, exc: Exception | None) -> None:
        self._over()

    def pause_writing(self) -> None:
        """Responses are small, and the next request is not taken before the client has read them."""

    def resume_writing(self) -> None:
        """As above."""

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _over(self) -> None:
        self._transport = None
        self._newcomers.may_buffer(-len(self._buffer))
        self._buffer = bytearray()
        self._newcomers.leave(self)

    # Requests

    def _take_frames(self) -> None:
        """Take the requests that are complete, each in the state that the one before it has led to."""
        while self._transport is not None and not self._waits:
            if len(self._buffer) < 4:
                return
            size = int.from_bytes(self._buffer[:4], "big", signed=True)
            if not 0 <= size <= self._session.listener.max_receive_bytes:
                self._fail(None, f"a request of {size} bytes before the login")
                return
            if len(self._buffer) < 4 + size:
                return
            frame = bytes(self._buffer[4 : 4 + size])
            del self._buffer[: 4 + size]
            self._newcomers.may_buffer(-4 - size)
            self._take(frame)

    def _take(self, frame: bytes) -> None:
        step, key = self._session.progress.step, frame[:2]
        if step is LoginStep.RAW_TOKENS:
            self._evaluate(frame, None, 0)
            return
        if len(frame) < _SMALLEST_REQUEST:
            self._close("a request without a header before the login")
            return
        try:
            endpoint = self._dispatcher.endpoint(frame[:4])
        except DecodeError as error:
            if key == API_VERSIONS_KEY and step is LoginStep.START:
                self._answer_unsupported(frame)
            else:
                self._close(f"before the login: {error}")
            return
        try:
            correlation_id, client_id, position = self._headers.read(frame, endpoint.header_has_tags)
            request = endpoint.decode(frame, position)
        except DecodeError as error:
            self._close(f"{endpoint}: {error}")
            return
        self._context = self._context.of_client(client_id)
        if step is LoginStep.TOKENS:
            if key == _AUTHENTICATE_KEY:
                self._evaluate(cast(SaslAuthenticateRequest, request).auth_bytes, endpoint, correlation_id)
            else:
                answer = endpoint.whole(
                    correlation_id, endpoint.failed(request, ErrorCode.illegal_sasl_state)
                )
                self._fail(answer, f"{endpoint} in place of SaslAuthenticate")
        elif key == _HANDSHAKE_KEY:
            self._shake_hands(endpoint, correlation_id, request)
        elif key == API_VERSIONS_KEY and step is LoginStep.START:
            response = cast(Any, endpoint.handle(self._services, self._context, request))
            if response.error_code == ErrorCode.none:
                self._session.progress.versions_told()
            self._send(endpoint.whole(correlation_id, response))
        else:
            self._close(f"{endpoint} before the login")

    def _answer_unsupported(self, frame: bytes) -> None:
        oldest, response = self._dispatcher.unsupported_api_versions(self._services)
        self._send(oldest.whole(int.from_bytes(frame[4:8], "big", signed=True), response))

    def _shake_hands(self, endpoint: Endpoint, correlation_id: int, request: SaslHandshakeRequest) -> None:
        progress = self._session.progress
        response = SaslHandshakeResponse(mechanisms=progress.offered)
        if progress.choose(request.mechanism, is_raw=endpoint.version == 0):
            self._send(endpoint.whole(correlation_id, response))
            return
        response.error_code = int(ErrorCode.unsupported_sasl_mechanism)
        offered = ", ".join(progress.offered)
        self._fail(
            endpoint.whole(correlation_id, response),
            f"mechanism {request.mechanism} is not offered, but {offered}",
        )

    # Tokens

    def _evaluate(self, token: bytes, endpoint: Endpoint | None, correlation_id: int) -> None:
        """Without an endpoint it is a raw token."""
        try:
            result = self._session.progress.evaluate(token)
        except LoginRefusedError as error:
            self._refused(error, endpoint, correlation_id)
            return
        if not callable(result):
            self._evaluated(result, endpoint, correlation_id)
            return
        self._pause()
        computing = asyncio.ensure_future(self._services.run_blocking(result), loop=self._services.loop)
        computing.add_done_callback(partial(self._computed, endpoint, correlation_id))

    def _computed(
        self, endpoint: Endpoint | None, correlation_id: int, computing: asyncio.Future[LoginResult]
    ) -> None:
        if self._transport is None or computing.cancelled():
            return
        error = computing.exception()
        if error is None:
            self._evaluated(computing.result(), endpoint, correlation_id)
            self._resume()
        elif isinstance(error, LoginRefusedError):
            self._refused(error, endpoint, correlation_id)
        else:
            self._close(f"the login failed: {error!r}")

    def _evaluated(self, result: LoginResult, endpoint: Endpoint | None, correlation_id: int) -> None:
        if isinstance(result, Challenge):
            self._send_token(result.token, endpoint, correlation_id)
            return
        session = self._session
        try:
            session.succeed(result)
        except LoginRefusedError as error:
            self._refused(error, endpoint, correlation_id)
            return
        assert session.principal is not None
        logged_in(session.principal, session.mechanism, self._peer, self._context.listener)
        self._send_token(result.token, endpoint, correlation_id)
        self._hand_over()

    def _send_token(self, token: bytes, endpoint: Endpoint | None, correlation_id: int) -> None:
        if endpoint is None:
            self._send(len(token).to_bytes(4, "big") + token if token else _DONE)
            return
        is_open = self._session.progress.step is LoginStep.OPEN
        lifetime_ms = self._session.lifetime_ms if is_open else 0
        response = SaslAuthenticateResponse(
            error_message="", auth_bytes=token, session_lifetime_ms=lifetime_ms
        )
        self._send(endpoint.whole(correlation_id, response))

    def _refused(self, error: LoginRefusedError, endpoint: Endpoint | None, correlation_id: int) -> None:
        self._newcomers.failed(self._address)
        mechanism = self._session.progress.mechanism
        login_refused(error.user, mechanism, self._peer, self._context.listener, error.cause)
        answer = None
        if endpoint is not None:
            response = SaslAuthenticateResponse(
                error_code=int(ErrorCode.sasl_authentication_failed), error_message=str(error)
            )
            answer = endpoint.whole(correlation_id, response)
        self._fail(answer)  # the audit log has it

    def _hand_over(self) -> None:
        """The transport belongs to a connection from now on."""
        transport, rest = self._transport, bytes(self._buffer)
        assert transport is not None
        self._over()
        session = self._session
        assert session.principal is not None
        connection = self._open_connection(self._context.logged_in(session.principal, session))
        transport.set_protocol(cast(asyncio.BaseProtocol, connection))
        connection.connection_made(transport)
        if self._waits:
            transport.resume_reading()
        if rest:
            connection.data_received(rest)

    # Ending

    def _send(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    def _pause(self) -> None:
        if not self._waits and self._transport is not None:
            self._waits = True
            self._transport.pause_reading()

    def _resume(self) -> None:
        if self._waits and self._transport is not None:
            self._waits = False
            self._transport.resume_reading()
            self._take_frames()

    def _later(self, in_ms: int, work: Callable[[], None]) -> None:
        self._services.loop.call_later(in_ms / 1000, work)

    def _close(self, reason: str) -> None:
        """Close at once and without an answer."""
        transport = self._transport
        if transport is not None:
            self._refuse(self._peer, reason)
            self._over()
            transport.close()

    def _fail(self, answer: bytes | None, reason: str = "") -> None:
        """Close after a delay, which makes guessing slow, with an answer if there is one."""
        if reason:
            self._refuse(self._peer, reason)
        self._session.progress.fail()
        self._pause()
        self._newcomers.may_buffer(-len(self._buffer))
        self._buffer = bytearray()
        self._later(self._session.listener.failure_delay_ms, partial(self._end, answer))

    def _end(self, answer: bytes | None) -> None:
        transport = self._transport
        if transport is not None:
            if answer is not None:
                transport.write(answer)
            self._over()
            transport.close()
