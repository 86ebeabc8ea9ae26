"""A PostgreSQL server for tests: its own data folder, port and process, removed at the end."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from tempfile import mkdtemp
from types import TracebackType
from typing import Any

import psycopg

from interop.kafka_tools import free_port

_USER = "postgres"  # PostgreSQL refuses to run as root; Debian's package creates this user
_START_TIMEOUT_S = 60


class PostgresServer:
    """A server on 127.0.0.1. `fsync` is off unless a test is about losing power."""

    def __init__(self, settings: Sequence[str] = ("fsync=off", "full_page_writes=off")) -> None:
        self._settings = settings
        self._folder = mkdtemp(prefix="klamm-pg-", dir="/tmp")
        is_root = os.geteuid() == 0
        self._as_user: dict[str, Any] = {"user": _USER, "group": _USER, "extra_groups": []} if is_root else {}
        self._process: subprocess.Popen[bytes] | None = None
        self._schemas = count(1)
        self.log = Path(self._folder, "log")
        if self._as_user:
            shutil.chown(self._folder, _USER, _USER)
        self._run(
            "initdb", "--no-sync", "-D", self.data, "-U", _USER, "-A", "trust", "-E", "UTF8", "--no-locale"
        )
        self.port = free_port()
        self.start()

    @property
    def data(self) -> str:
        return f"{self._folder}/data"

    @property
    def url(self) -> str:
        return self.url_of("postgres")

    def url_of(self, database: str, *, user: str = _USER) -> str:
        return f"postgresql://{user}@127.0.0.1:{self.port}/{database}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def pids(self) -> Sequence[int]:
        """Of all its processes."""
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text(encoding="ascii").split()
        return (self.pid, *map(int, children))

    def sessions(self, application_name: str) -> list[int]:
        """The process ids of the server for connections of this name."""
        rows = self.execute(
            f"SELECT pid FROM pg_stat_activity WHERE application_name = '{application_name}' ORDER BY pid"
        )
        return [int(str(pid)) for (pid,) in rows]

    def stall(self, number: signal.Signals) -> None:
        """SIGSTOP all its processes, or SIGCONT them."""
        for pid in self.pids():
            with suppress(ProcessLookupError):  # a session that has just ended
                os.kill(pid, number)

    def start(self) -> None:
        """Start the server and wait until it accepts connections."""
        arguments = ["-D", self.data, "-p", str(self.port), "-k", "", "-c", "listen_addresses=127.0.0.1"]
        for setting in (*self._settings, "max_connections=200"):
            arguments += ["-c", setting]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [_program("postgres"), *arguments], stdout=log, stderr=log, cwd="/", **self._as_user
            )
        deadline = time.monotonic() + _START_TIMEOUT_S
        while True:
            try:
                psycopg.connect(self.url, connect_timeout=5).close()
                return
            except psycopg.OperationalError:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise AssertionError(f"PostgreSQL did not start: {self.log.read_text()}") from None
                time.sleep(0.02)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """SIGINT: a fast shutdown. SIGQUIT: at once, as a crash."""
        assert self._process is not None
        self._process.send_signal(how)
        self._process.wait(60)

    def new_schema(self) -> str:
        """The URL of an empty schema: cheaper than a database."""
        name = f"klamm_{os.getpid()}_{next(self._schemas)}"
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA {name}")
        return f"{self.url}?options=-c%20search_path%3D{name}"

    def execute(self, statement: str) -> list[tuple[object, ...]]:
        """Run a statement as superuser; its rows."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            result = connection.execute(statement)
            return result.fetchall() if result.description is not None else []

    def close(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self.stop(signal.SIGQUIT)
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> PostgresServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [_program(program), *arguments], check=True, capture_output=True, cwd="/", **self._as_user
        )


def _program(name: str) -> str:
    """Debian keeps the server's programs out of the path."""
    found = shutil.which(name) or max(
        (str(path) for path in Path("/usr/lib/postgresql").glob(f"*/bin/{name}")), default=None
    )
    assert found is not None, f"PostgreSQL's {name} is missing: run tools/bring.sh"
    return found
