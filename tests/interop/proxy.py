"""A bad network: a TCP proxy that cuts, freezes and refuses connections."""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import suppress
from random import Random
from types import TracebackType
from typing import Final, Self

CHUNK_BYTES: Final = 64 * 1024


class Proxy:
    """Forwards to one port. `cut_chance` is how likely a chunk ends its connection instead of passing."""

    def __init__(self, target_port: int, *, port: int = 0, seed: int = 0) -> None:
        self.target_port = target_port
        self.cut_chance = 0.0
        self.cuts = 0
        self._random = Random(seed)
        self._lock = threading.Lock()
        self._pairs: set[tuple[socket.socket, socket.socket]] = set()
        self._frozen: set[socket.socket] = set()
        self._is_closed = False
        self._listener = socket.create_server(("127.0.0.1", port), backlog=100)
        self.port: int = self._listener.getsockname()[1]
        self.bootstrap = f"127.0.0.1:{self.port}"
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def cut_all(self) -> None:
        """End every connection there is."""
        with self._lock:
            pairs = list(self._pairs)
        for pair in pairs:
            self._cut(pair)

    def freeze_all(self) -> None:
        """Let every connection there is fall silent: open, and nothing passes any more."""
        with self._lock:
            self._frozen |= {end for pair in self._pairs for end in pair}

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                broker = socket.create_connection(("127.0.0.1", self.target_port), timeout=5)
                broker.settimeout(None)
            except OSError:
                client.close()
                continue
            pair = (client, broker)
            with self._lock:
                self._pairs.add(pair)
            for source, sink in (pair, pair[::-1]):
                thread = threading.Thread(target=self._pump, args=(pair, source, sink), daemon=True)
                self._threads.append(thread)
                thread.start()

    def _pump(
        self, pair: tuple[socket.socket, socket.socket], source: socket.socket, sink: socket.socket
    ) -> None:
        with suppress(OSError):  # the other direction was cut
            while data := source.recv(CHUNK_BYTES):
                if source in self._frozen:
                    continue
                if self._wants_cut():
                    # Half of it gets through: the worst place to stop.
                    sink.sendall(data[: len(data) // 2])
                    break
                sink.sendall(data)
        self._cut(pair)

    def _wants_cut(self) -> bool:
        with self._lock:
            return self._random.random() < self.cut_chance

    def _cut(self, pair: tuple[socket.socket, socket.socket]) -> None:
        with self._lock:
            if pair not in self._pairs:
                return
            self._pairs.discard(pair)
            self._frozen.difference_update(pair)
            self.cuts += 1
        for end in pair:
            with suppress(OSError):  # whoever was cut off first is gone already
                # A reset, not a farewell.
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError):  # wakes the thread that accepts
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut_all()
        for thread in self._threads:
            thread.join(10)
