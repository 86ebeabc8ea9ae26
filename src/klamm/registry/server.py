"""Serve a registry over HTTP, in this thread or beside a program."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

import uvicorn

from klamm.broker.net.http_access import HttpAccess
from klamm.broker.net.listeners import is_loopback
from klamm.config import Password
from klamm.registry.app import application
from klamm.registry.guard import Guard
from klamm.registry.service import RegistryService

_STOP_S = 5


class RegistryServer:
    """A registry with a port, from `with` to its end. `url` is where clients find it."""

    def __init__(
        self,
        settings: Mapping[str, Any],
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        token: Password | None = None,
    ) -> None:
        """With a token clients need it; without one those on a loopback address must ask for that by name."""
        access = HttpAccess(token, only_local_names=is_loopback(host))
        self._service = RegistryService(settings)
        self._socket = socket.create_server((host, port))
        bound_host, bound_port = self._socket.getsockname()[:2]
        self.url = f"http://{bound_host}:{bound_port}"
        self._server = uvicorn.Server(
            uvicorn.Config(
                Guard(application(self._service), access),
                log_config=None,
                access_log=False,
                lifespan="off",
                timeout_graceful_shutdown=_STOP_S,
            )
        )
        self._thread = threading.Thread(target=self._run, name="klamm registry HTTP", daemon=True)

    def _run(self) -> None:
        with asyncio.Runner() as runner:
            runner.run(self._server.serve(sockets=[self._socket]))

    def __enter__(self) -> Self:
        try:
            self._service.__enter__()
        except BaseException:
            self._socket.close()
            raise
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.should_exit = True
        self._thread.join()
        self._service.__exit__(kind, error, trace)
        self._socket.close()
