"""A proxy for one server, which can end all its connections as a crash does."""

from __future__ import annotations

import selectors
import socket
import struct
import threading
from types import TracebackType

_POLL_S = 0.02


class TcpProxy:
    """Passes bytes on between 127.0.0.1:`port` and a server, on a thread."""

    def __init__(self, server_port: int) -> None:
        self._server = ("127.0.0.1", server_port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._pairs: dict[socket.socket, socket.socket] = {}  # client to server and back
        self._clients: list[socket.socket] = []
        self._last_words: bytes | None = None
        self._crashed = threading.Event()
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def crash(self, last_words: bytes) -> None:
        """Send something to every client and reset its connection."""
        self._crashed.clear()
        self._last_words = last_words
        assert self._crashed.wait(30)

    def _run(self) -> None:
        while not self._is_closed:
            if self._last_words is not None:
                self._end_all(self._last_words)
                self._last_words = None
                self._crashed.set()
            for key, _ in self._selector.select(_POLL_S):
                if key.fileobj is self._listener:
                    self._accept()
                elif isinstance(key.fileobj, socket.socket):
                    self._pass_on(key.fileobj)
        self._end_all(b"")

    def _accept(self) -> None:
        client, _ = self._listener.accept()
        server = socket.create_connection(self._server)
        self._clients.append(client)
        for one, other in ((client, server), (server, client)):
            self._pairs[one] = other
            self._selector.register(one, selectors.EVENT_READ)

    def _pass_on(self, source: socket.socket) -> None:
        target = self._pairs.get(source)
        if target is None:
            return  # closed in this turn
        try:
            data = source.recv(1 << 16)
            target.sendall(data)
        except OSError:
            data = b""
        if not data:
            self._close(source)
            self._close(target)

    def _end_all(self, last_words: bytes) -> None:
        for client in [client for client in self._clients if client in self._pairs]:
            server = self._pairs[client]
            client.sendall(last_words)
            # Closing sends a reset, not an orderly end.
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self._close(client)
            self._close(server)

    def _close(self, end: socket.socket) -> None:
        if self._pairs.pop(end, None) is not None:
            self._selector.unregister(end)
            end.close()

    def __enter__(self) -> TcpProxy:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_closed = True
        self._thread.join()
        self._selector.close()
        self._listener.close()
