"""The listening sockets and the connections behind them."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, cast

from klamm.access.acls import ANONYMOUS
from klamm.broker.net.connection import Connection
from klamm.broker.net.connection_limits import ConnectionLimits
from klamm.broker.net.context import ClientSoftware, RequestContext
from klamm.broker.net.dispatch import Dispatcher, RefusalLog
from klamm.broker.net.listeners import Listener
from klamm.broker.net.memory import RequestMemory
from klamm.broker.net.newcomers import Newcomers
from klamm.broker.net.outbox import Outbox
from klamm.broker.security.audit import logged_in

if TYPE_CHECKING:
    from klamm.broker.net.login_gate import LoginGate
    from klamm.broker.net.tls_stream import Above
    from klamm.broker.quotas.connection_rates import ConnectionRates
    from klamm.broker.security.listener_security import ListenerSecurity
    from klamm.broker.security.session import SaslListener
    from klamm.broker.services import Services
    from klamm.net.security.tls_bytes import Subject

_BACKLOG: Final = 1024
_STOP_WITHIN_S: Final = 10.0
_TURNS_TO_ACCEPT: Final = 3  # of the loop, until a connection that was accepted just now is made
_TRIES_FOR_A_FREE_PORT: Final = 20

MakeConnection = Callable[..., Connection]  # with the arguments of Connection

_log = logging.getLogger(__name__)


class StartError(Exception):
    """The broker cannot start; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class BoundListener:
    """A listener with its sockets; the port is the real one."""

    listener: Listener
    sockets: tuple[socket.socket, ...]

    @property
    def name(self) -> str:
        return self.listener.name

    @property
    def port(self) -> int:
        port: int = self.sockets[0].getsockname()[1]
        return port

    @property
    def address(self) -> str:
        """The address as host:port."""
        host = self.listener.host or "0.0.0.0"
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"

    def close(self) -> None:
        for each in self.sockets:
            each.close()


def bind(listener: Listener) -> BoundListener:
    """Bind a listener's address; a name with several addresses gets the same port on each."""
    # As bytes: for a text Python imports the codec of international names, which takes 5 ms of each start.
    host = listener.host.encode() if listener.host.isascii() else listener.host
    try:
        found = socket.getaddrinfo(
            host or None, listener.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except OSError as error:
        raise StartError(
            f"cannot resolve {listener}: {error.strerror}; set another host in listeners"
        ) from error
    addresses = list(dict.fromkeys((family, address) for family, _, _, _, address in found))
    tries = _TRIES_FOR_A_FREE_PORT if listener.port == 0 else 1
    while True:
        tries -= 1
        try:
            return BoundListener(listener, _bind_all(addresses))
        except OSError as error:
            if error.errno == errno.EADDRINUSE and tries > 0:
                continue
            raise StartError(_cannot_listen(listener, error)) from error


def _bind_all(
    addresses: Sequence[tuple[socket.AddressFamily, tuple[object, ...]]],
) -> tuple[socket.socket, ...]:
    sockets: list[socket.socket] = []
    port = 0
    try:
        for family, address in addresses:
            try:
                each = socket.socket(family, socket.SOCK_STREAM)
            except OSError:
                continue  # the machine has the address but not the protocol, as containers without IPv6
            sockets.append(each)
            each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                each.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            try:
                each.bind((address[0], port or address[1], *address[2:]))
            except OSError as error:
                if error.errno == errno.EADDRNOTAVAIL and len(addresses) > 1:
                    sockets.pop().close()
                    continue
                raise
            each.listen(_BACKLOG)
            each.setblocking(False)
            port = each.getsockname()[1]
        if not sockets:
            raise OSError(errno.EADDRNOTAVAIL, "none of its addresses is available on this machine")
    except OSError:
        for each in sockets:
            each.close()
        raise
    return tuple(sockets)


def _cannot_listen(listener: Listener, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return (
            f"port {listener.port} is in use: "
            "stop the other process, or choose another port (0 for any free port)"
        )
    if error.errno in (errno.EACCES, errno.EPERM):
        return f"port {listener.port} requires privileges: choose one above 1023"
    return f"cannot listen on {listener}: {error.strerror}"


class Server:
    """Accepts connections, bounds their number, and ends them all when the broker stops."""

    def __init__(
        self,
        services: Services,
        make_connection: MakeConnection = Connection,
        rates: ConnectionRates | None = None,
    ) -> None:
        self._services = services
        self._rates = rates
        self._make_connection = make_connection
        self._dispatcher = Dispatcher(services.routes)
        self._refusals = RefusalLog(services.clock)
        self._outbox = Outbox(services.loop)
        services.flusher.send = self._outbox.take_turns
        limit_bytes = services.config.queued_max_request_bytes
        self._memory = RequestMemory(services.loop, services.clock, limit_bytes)
        self._limits = ConnectionLimits(services)
        self._newcomers = Newcomers(services, self._limits, self._refusals.report)
        self._listening: list[asyncio.Server] = []
        self._connections: set[Connection] = set()
        self._all_gone: asyncio.Future[None] | None = None

    @property
    def connection_count(self) -> int:
        return len(self._connections)

    @property
    def newcomer_count(self) -> int:
        """How many connections have not completed their TLS handshake or login."""
        return len(self._newcomers)

    @property
    def blocked_count(self) -> int:
        """How many clients do not read what is sent to them."""
        return self._outbox.blocked

    @property
    def request_memory(self) -> RequestMemory:
        return self._memory

    @property
    def connections(self) -> Iterable[Connection]:
        return tuple(self._connections)

    @property
    def decode_failures(self) -> Mapping[str, int]:
        """How many connections were closed because of invalid input, by its kind."""
        return self._refusals.decode_failures

    async def listen_for_metrics(self, bound: BoundListener, page: Callable[[], Iterator[str]]) -> None:
        """Serve the metrics page over HTTP, or HTTPS."""
        # Imported here: not needed by a broker without metrics.
        from klamm.broker.metrics.http import pages_over  # noqa: PLC0415

        loop = self._services.loop
        make = cast(
            "Callable[[], asyncio.Protocol]",
            pages_over(self._services, bound.listener, page, self._refusals.report),
        )
        for each in bound.sockets:
            self._listening.append(await loop.create_server(make, sock=each))

    async def listen(self, bound: BoundListener) -> None:
        for each in bound.sockets:
            factory = cast("Callable[[], asyncio.Protocol]", partial(self.accept, bound.name))
            server = await self._services.loop.create_server(factory, sock=each, backlog=_BACKLOG)
            self._listening.append(server)

    def accept(self, listener: str) -> Above:
        """What takes the bytes of one more client of a listener."""
        above, rates = self._above(listener), self._rates
        if rates is None or not rates.are_limited(listener):
            return above
        from klamm.broker.net.delayed_accept import DelayedAccept  # noqa: PLC0415 - where it is used

        return DelayedAccept(
            above, self._newcomers, listener, opened=rates.opened, refuse=self._refusals.report
        )

    def _above(self, listener: str) -> Above:
        """TLS, a login, or the connection itself."""
        security = self._services.listener_securities.get(listener)
        if security is None:
            return self.plain_connection(listener)
        context = RequestContext("", "", listener, ClientSoftware())
        if security.tls is None:
            return self._login(security.sasl, context)
        from klamm.broker.net.tls_stream import TlsStream  # noqa: PLC0415 - slow to import

        return TlsStream(
            security.tls.context,
            self._newcomers,
            listener,
            accept=partial(self._after_tls, security, context),
            refuse=self._refusals.report,
        )

    def _after_tls(
        self, security: ListenerSecurity, context: RequestContext, peer: str, subject: Subject | None
    ) -> Above | None:
        """What comes next for a client that showed a certificate with this subject, or none."""
        if security.sasl is not None:
            return self._login(security.sasl, context)
        assert security.tls is not None
        principal = security.tls.principal_of(subject)
        if principal is None:
            self._refusals.report(peer, "no rule of ssl.principal.mapping.rules matches its certificate")
            return None
        if principal is not ANONYMOUS:
            logged_in(principal, "TLS", peer, context.listener)
        return self.connection(context.logged_in(principal, None))

    def _login(self, sasl: SaslListener | None, context: RequestContext) -> LoginGate:
        assert sasl is not None, context.listener
        from klamm.broker.net.login_gate import LoginGate  # noqa: PLC0415 - where it is used
        from klamm.broker.security.session import LoginSession  # noqa: PLC0415 - where it is used

        return LoginGate(
            self._services,
            self._dispatcher,
            self._newcomers,
            LoginSession(sasl, self._services.clock),
            context,
            open_connection=self.connection,
            refuse=self._refusals.report,
        )

    def plain_connection(self, listener: str) -> Connection:
        """A connection of a listener that asks for neither TLS nor a login."""
        return self.connection(RequestContext("", "", listener, ClientSoftware()))

    def connection(self, context: RequestContext) -> Connection:
        """A connection for a client that needs no login, or has logged in."""
        return self._make_connection(
            self._services,
            self._dispatcher,
            self._refusals,
            context,
            self._outbox,
            self._memory,
            on_made=self._made,
            on_lost=self._lost,
        )

    async def stop(self) -> None:
        """Accept no connections, drop parked requests, complete those that wait for the disk, and close."""
        await self._finish_accepting()
        for server in self._listening:
            server.close()
        self._newcomers.abort_all()
        for connection in list(self._connections):
            connection.stop()
        if self._connections:
            self._all_gone = self._services.loop.create_future()
            late = self._services.loop.call_later(_STOP_WITHIN_S, self._abort_all)
            await self._all_gone
            late.cancel()

    async def _finish_accepting(self) -> None:
        """Let connections be made that are accepted already: asyncio's servers leak them when closed."""
        loop = self._services.loop
        if self._listening and isinstance(loop, asyncio.SelectorEventLoop):
            for server in self._listening:
                for each in server.sockets:
                    loop.remove_reader(each.fileno())
            for _ in range(_TURNS_TO_ACCEPT):
                await asyncio.sleep(0)

    def abort(self) -> None:
        """Accept no connections, and reset all, as the system does for a process that died."""
        for server in self._listening:
            server.close()
        self._abort_all()

    def _abort_all(self) -> None:
        self._newcomers.abort_all()
        for connection in list(self._connections):
            connection.abort()

    def _made(self, connection: Connection) -> bool:
        """Whether the limits allow another connection."""
        limit = self._limits.exceeded(connection.listener, connection.client_ip)
        if limit is not None:
            self._refusals.report(connection.peer, f"{limit} is reached")
            return False
        self._connections.add(connection)
        self._limits.opened(connection.listener, connection.client_ip)
        return True

    def _lost(self, connection: Connection) -> None:
        if connection not in self._connections:
            return
        self._connections.remove(connection)
        self._limits.closed(connection.listener, connection.client_ip)
        if not self._connections and self._all_gone is not None and not self._all_gone.done():
            self._all_gone.set_result(None)
