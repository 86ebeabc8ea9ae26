"""The listening sockets and the connections behind them."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from klamm.broker.net.connection import Connection
from klamm.broker.net.dispatch import Dispatcher, RefusalLog
from klamm.broker.net.listeners import Listener
from klamm.broker.net.memory import RequestMemory
from klamm.broker.net.outbox import Outbox
from klamm.protocol.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from klamm.broker.services import Services

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

    def __init__(self, services: Services, make_connection: MakeConnection = Connection) -> None:
        self._services = services
        self._make_connection = make_connection
        self._dispatcher = Dispatcher(services.routes)
        self._refusals = RefusalLog(services.clock)
        self._outbox = Outbox(services.loop)
        services.flusher.send = self._outbox.take_turns
        limit_bytes = services.config.queued_max_request_bytes
        self._memory = RequestMemory(services.loop, services.clock, limit_bytes)
        self._listening: list[asyncio.Server] = []
        self._connections: set[Connection] = set()
        self._by_ip: Counter[str] = Counter()
        self._all_gone: asyncio.Future[None] | None = None

    @property
    def connection_count(self) -> int:
        return len(self._connections)

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
        """Serve the metrics page over HTTP."""
        # Imported here: not needed by a broker without metrics.
        from klamm.broker.metrics.http import MetricsPage  # noqa: PLC0415

        loop = self._services.loop
        for each in bound.sockets:
            self._listening.append(await loop.create_server(lambda: MetricsPage(loop, page), sock=each))

    async def listen(self, bound: BoundListener) -> None:
        for each in bound.sockets:
            factory = partial(self.connection, bound.name)
            server = await self._services.loop.create_server(factory, sock=each, backlog=_BACKLOG)
            self._listening.append(server)

    def connection(self, listener: str) -> Connection:
        """A protocol for one more client of a listener."""
        return self._make_connection(
            self._services,
            self._dispatcher,
            self._refusals,
            listener,
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
        for connection in list(self._connections):
            connection.abort()

    def _made(self, connection: Connection) -> bool:
        """Whether the limits allow another connection."""
        config = self._services.config
        ip = connection.client_ip
        is_full = len(self._connections) >= config.max_connections
        if is_full or self._by_ip[ip] >= config.max_connections_per_ip:
            limit = "max.connections" if is_full else "max.connections.per.ip"
            self._refusals.report(connection.peer, f"{limit} is reached")
            return False
        self._connections.add(connection)
        self._by_ip[ip] += 1
        return True

    def _lost(self, connection: Connection) -> None:
        if connection not in self._connections:
            return
        self._connections.remove(connection)
        self._by_ip[connection.client_ip] -= 1
        if not self._by_ip[connection.client_ip]:
            del self._by_ip[connection.client_ip]
        if not self._connections and self._all_gone is not None and not self._all_gone.done():
            self._all_gone.set_result(None)
