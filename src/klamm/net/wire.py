"""One connection's conversation: version negotiation, requests out, responses in, in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from klamm.errors import (
    IllegalRequestError,
    KlammError,
    ProtocolError,
    SaslAuthenticationError,
    SslAuthenticationError,
    UnsupportedVersionError,
    broker_error,
)
from klamm.protocol.api import ApiKey
from klamm.protocol.codec import request_encoder, response_decoder
from klamm.protocol.errors import DecodeError, ErrorCode, TlsAlertError
from klamm.protocol.framing import FrameReader
from klamm.protocol.headers import read_response_header, request_frame, response_has_tags
from klamm.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from klamm.protocol.schema import schema_versions
from klamm.protocol.types import Buffer
from klamm.records.core import new_buffer
from klamm.version import __version__

if TYPE_CHECKING:
    from klamm.net.security.login import Login, SaslQuestion
    from klamm.net.security.sasl import Mechanism

NEGOTIATION_VERSION: Final = 4
# Until the versions are known the peer may be anything; their response fits a kilobyte.
NEGOTIATION_BYTES: Final = 1024 * 1024
# Fetches of such a size are received where they stay. Memory is taken as announced, so there is a limit.
LARGE_BYTES: Final = range(512 * 1024, 64 * 1024 * 1024)

_LOGIN: Final = (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)

Done = Callable[[Any, KlammError | None], None]


class Call:
    """One request on its way: `on_done` gets the response or the error, exactly once."""

    __slots__ = (
        "api_key", "due_at_ms", "has_answer", "is_done", "max_version", "on_done", "request", "timeout_ms",
        "version",
    )  # fmt: skip

    def __init__(
        self,
        api_key: ApiKey,
        request: Any,  # a message, or a function of the negotiated version that makes it
        on_done: Done,
        timeout_ms: int,
        max_version: int = 32767,
        has_answer: bool = True,  # Produce with acks=0 has none
    ) -> None:
        self.api_key = api_key
        self.request = request
        self.on_done = on_done
        self.timeout_ms = timeout_ms
        self.max_version = max_version
        self.has_answer = has_answer
        self.version = -1
        self.due_at_ms = 0
        self.is_done = False

    def finish(self, response: Any, error: KlammError | None) -> None:
        """Complete the request, once."""
        if not self.is_done:
            self.is_done = True
            self.on_done(response, error)


class Wire:
    """Bytes of one connection. Sans-IO: `receive` takes bytes, everything else returns bytes to send."""

    def __init__(self, client_id: str, max_response_bytes: int) -> None:
        self._client_id = client_id
        self._max_response_bytes = max_response_bytes
        self._frames = FrameReader(min(NEGOTIATION_BYTES, max_response_bytes), smallest=4, are_requests=False)
        self._correlation_id = 0
        self._versions: dict[int, tuple[int, int]] = {}
        self.features: Mapping[str, int] = {}
        self.is_ready = False
        self._mechanism: Mechanism | None = None  # of the first login, when the versions are known
        self._asks_for_sasl = False
        self._login: Login | SaslQuestion | None = None  # in progress: no other requests are sent meanwhile
        self.has_answered = False  # a request of the client, beyond versions and login
        self.session_lifetime_ms = 0  # of the last login; 0: it does not end
        self.in_flight: deque[tuple[int, Call]] = deque()
        self._large: bytearray | None = None  # a large response, and how much of it came
        self._large_came = 0

    def open(
        self,
        timeout_ms: int,
        now_ms: int,
        mechanism: Mechanism | None = None,
        *,
        asks_for_sasl: bool = False,
    ) -> list[Buffer]:
        """ApiVersions, the first request of every connection; then a login, if there is a mechanism.

        Without one, the broker can be asked whether it requires it.
        """
        self._mechanism = mechanism
        self._asks_for_sasl = asks_for_sasl and mechanism is None
        return self._negotiate(NEGOTIATION_VERSION, timeout_ms, now_ms)

    @property
    def may_need_login(self) -> bool:
        """Whether the broker knows SASL, there was no login, and it has not answered anything else yet."""
        return not self.has_answered and self._mechanism is None and ApiKey.SASL_HANDSHAKE in self._versions

    @property
    def is_logging_in(self) -> bool:
        """Whether requests have to wait for a login."""
        return self._login is not None

    def log_in_again(self, mechanism: Mechanism, timeout_ms: int, now_ms: int) -> list[Buffer]:
        """Begin a new session before the present one ends (KIP-368)."""
        # The broker answers the requests before it first, and some of them wait for an event.
        busy_ms = max((call.due_at_ms - now_ms for _, call in self.in_flight), default=0)
        return self._begin_login(mechanism, timeout_ms + max(0, busy_ms), now_ms)

    def _begin_login(self, mechanism: Mechanism, timeout_ms: int, now_ms: int) -> list[Buffer]:
        # Imported here: few connections need it.
        from klamm.net.security.login import NO_SASL, Login  # noqa: PLC0415

        if ApiKey.SASL_HANDSHAKE not in self._versions:
            raise SaslAuthenticationError(NO_SASL)
        return self._shake_hands(Login(mechanism), timeout_ms, now_ms)

    def _shake_hands(self, login: Login | SaslQuestion, timeout_ms: int, now_ms: int) -> list[Buffer]:
        from klamm.net.security.login import HANDSHAKE_VERSION  # noqa: PLC0415

        self._login = login
        return self._ask_login(
            ApiKey.SASL_HANDSHAKE, login.begin(), timeout_ms, now_ms, max_version=HANDSHAKE_VERSION
        )

    def _ask_login(
        self, api_key: ApiKey, request: Any, timeout_ms: int, now_ms: int, max_version: int = 32767
    ) -> list[Buffer]:
        call = Call(api_key, request, lambda _response, _error: None, timeout_ms)
        return self._send(call, self.version_for(api_key, max_version), now_ms)

    def _logged_in(self, login: Login | SaslQuestion, call: Call, response: Any, now_ms: int) -> list[Buffer]:
        """The next step of a login."""
        is_handshake = call.api_key is ApiKey.SASL_HANDSHAKE
        request = login.handshaken(response) if is_handshake else login.answered(response)
        if request is None:
            self._login = None
            self.session_lifetime_ms = login.session_lifetime_ms
            self._opened()
            return []
        return self._ask_login(ApiKey.SASL_AUTHENTICATE, request, call.timeout_ms, now_ms)

    def version_for(self, api_key: ApiKey, max_version: int = 32767) -> int:
        """The highest version that both sides support; UnsupportedVersionError if there is none."""
        ours = schema_versions(api_key)
        theirs = self._versions.get(api_key)
        if theirs is None:
            raise UnsupportedVersionError(f"the broker does not offer {api_key.name}")
        version = min(ours[-1], theirs[1], max_version)
        if version < max(ours[0], theirs[0]):
            raise UnsupportedVersionError(
                f"{api_key.name}: the broker offers versions {theirs[0]}-{theirs[1]}, "
                f"this call needs {ours[0]}-{min(ours[-1], max_version)}"
            )
        return version

    def send(self, call: Call, now_ms: int) -> list[Buffer]:
        """The bytes of a request; its answer is expected from now on. Needs a ready connection."""
        version = self.version_for(call.api_key, call.max_version)
        return self._send(call, version, now_ms)

    def _send(self, call: Call, version: int, now_ms: int) -> list[Buffer]:
        call.version = version
        try:
            message = call.request(version) if callable(call.request) else call.request
            body = request_encoder(call.api_key, version)(message)
        except KlammError:
            raise
        except Exception as error:  # of one request: the others, and the thread, go on
            name = ApiKey(call.api_key).name
            raise IllegalRequestError(f"{name} cannot be encoded: {error}") from error
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        if call.has_answer:
            call.due_at_ms = now_ms + call.timeout_ms
            self.in_flight.append((self._correlation_id, call))
        return request_frame(call.api_key, version, self._correlation_id, self._client_id, body)

    def _negotiate(self, version: int, timeout_ms: int, now_ms: int) -> list[Buffer]:
        request = ApiVersionsRequest(client_software_name="klamm", client_software_version=__version__)
        call = Call(ApiKey.API_VERSIONS, request, lambda _response, _error: None, timeout_ms)
        return self._send(call, version, now_ms)

    def receive(self, data: bytes, now_ms: int) -> tuple[list[tuple[Call, Any]], list[Buffer]]:
        """Answered calls with their responses, and what must be sent in reaction.

        Raises ProtocolError when the other side breaks the protocol, or a broker error when it refuses to
        negotiate; the connection is of no use then.
        """
        return self._received(self._frames.feed(data), now_ms)

    def room(self) -> memoryview | None:
        """Where the rest of a large response goes, which spares a copy of it; None if there is none."""
        if self._large is None:
            size = self._frames.incomplete_bytes
            # Of all responses, that of Fetch alone is large because of data that is passed on as it is.
            if (
                size not in LARGE_BYTES
                or not self.in_flight
                or self.in_flight[0][1].api_key is not ApiKey.FETCH
            ):
                return None
            self._large, self._large_came = new_buffer(size), 0
            for part in self._frames.take_incomplete():
                end = self._large_came + len(part)
                self._large[self._large_came : end] = part
                self._large_came = end
        return memoryview(self._large)[self._large_came :]

    def filled(self, count: int, now_ms: int) -> tuple[list[tuple[Call, Any]], list[Buffer]]:
        """As `receive`, for bytes that were put where `room` said."""
        large = self._large
        assert large is not None
        self._large_came += count
        if self._large_came < len(large):
            return [], []
        self._large = None
        return self._received([large], now_ms)

    def _received(self, frames: Iterable[Buffer], now_ms: int) -> tuple[list[tuple[Call, Any]], list[Buffer]]:
        answered: list[tuple[Call, Any]] = []
        to_send: list[Buffer] = []
        try:
            for frame in frames:
                call, response = self._response(frame)
                if self._login is not None and call.api_key in _LOGIN:
                    to_send += self._logged_in(self._login, call, response, now_ms)
                elif self.is_ready:
                    self.has_answered = True
                    answered.append((call, response))
                else:
                    to_send += self._negotiated(call, response, now_ms)
        except TlsAlertError:
            raise SslAuthenticationError(
                "this is a TLS listener: set security.protocol to SSL, or SASL_SSL if it has SASL"
            ) from None
        except DecodeError as error:
            raise ProtocolError(f"malformed response: {error}") from error
        return answered, to_send

    def _response(self, frame: Buffer) -> tuple[Call, Any]:
        if not self.in_flight:
            raise ProtocolError("response without a request")
        # It leaves the queue only once it is decoded: a malformed response fails it with all others.
        expected, call = self.in_flight[0]
        version = call.version
        correlation_id, position = read_response_header(
            frame, has_tags=response_has_tags(call.api_key, version)
        )
        if correlation_id != expected:
            raise ProtocolError(f"response has correlation id {correlation_id}, expected {expected}")
        if call.api_key is ApiKey.API_VERSIONS and frame[position : position + 2] == b"\x00\x23":
            version = 0  # UNSUPPORTED_VERSION always has the oldest layout
        response = response_decoder(call.api_key, version)(frame, position)
        self.in_flight.popleft()
        return call, response

    def _negotiated(self, call: Call, response: ApiVersionsResponse, now_ms: int) -> list[Buffer]:
        if response.error_code == ErrorCode.unsupported_version and call.version > 0:
            offered = {entry.api_key: entry.max_version for entry in response.api_keys}
            lower = min(offered.get(ApiKey.API_VERSIONS, 0), call.version - 1)
            return self._negotiate(lower, call.timeout_ms, now_ms)
        if response.error_code != ErrorCode.none:
            raise broker_error(response.error_code, "ApiVersions")
        self._versions = {
            entry.api_key: (entry.min_version, entry.max_version) for entry in response.api_keys
        }
        if response.finalized_features_epoch >= 0:  # below: the broker does not report finalized features
            self.features = {item.name: item.max_version_level for item in response.finalized_features}
        if self._mechanism is not None:
            return self._begin_login(self._mechanism, call.timeout_ms, now_ms)
        if self._asks_for_sasl and ApiKey.SASL_HANDSHAKE in self._versions:
            from klamm.net.security.login import SaslQuestion  # noqa: PLC0415

            return self._shake_hands(SaslQuestion(), call.timeout_ms, now_ms)
        self._opened()
        return []

    def _opened(self) -> None:
        if not self.is_ready:
            self.is_ready = True
            self._frames.allow(self._max_response_bytes)
