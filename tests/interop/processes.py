"""Child processes that talk in lines: started, read against a deadline, and always ended."""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

ROOT = Path(__file__).resolve().parents[2]


def inherited_environment() -> dict[str, str]:
    """This process's environment without what a broker would take for one of its settings.

    Only its reserve is smaller: pytest keeps the folders of three runs.
    """
    others = {
        name: value
        for name, value in os.environ.items()
        if name == "KLAMM_PURE" or not name.startswith("KLAMM_")
    }
    return {"KLAMM_SET_KLAMM_DISK_RESERVE_BYTES": "1048576", **others}


class ProcessEndedError(Exception):
    """The process ended while somebody waited for a line; the message carries its standard error."""


class LineProcess:
    """A child process whose standard output is read line by line."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        stderr_path: Path,
        environment: Mapping[str, str] | None = None,
        folder: Path | None = None,
    ) -> None:
        self.stderr_path = stderr_path
        self._lines: queue.Queue[str | None] = queue.Queue()
        with stderr_path.open("wb") as stderr:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
                encoding="utf-8",
                env={**inherited_environment(), **(environment or {})},
                cwd=folder,
            )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put(None)

    @property
    def pid(self) -> int:
        return self.process.pid

    def write_line(self, line: str) -> None:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise ProcessEndedError(f"exit code {self.process.wait(10)}; {self.what_it_said()}") from None

    def read_line(self, timeout_s: float) -> str:
        """The next line of output; ProcessEndedError at its end, TimeoutError when none comes in time."""
        try:
            line = self._lines.get(timeout=timeout_s)
        except queue.Empty:
            raise TimeoutError(f"no line within {timeout_s} s; {self.what_it_said()}") from None
        if line is None:
            self._lines.put(None)  # for the next one who asks
            raise ProcessEndedError(f"exit code {self.process.wait(10)}; {self.what_it_said()}")
        return line.rstrip("\n")

    def what_it_said(self) -> str:
        tail = self.stderr_path.read_text(errors="replace")[-4000:]
        return f"standard error of {self.process.args!r}:\n{tail}"

    def kill(self) -> None:
        """SIGKILL: no chance to say goodbye to anybody."""
        self.process.kill()
        self._finish()

    def terminate(self, timeout_s: float = 15) -> int:
        """SIGTERM, and the exit code; SIGKILL and an error if it does not go."""
        self.process.terminate()
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"still there {timeout_s} s after SIGTERM; {self.what_it_said()}") from None
        finally:
            self.kill()

    def close(self) -> None:
        """Close its input, which ends a well-behaved client, and make sure that it is gone."""
        if self.process.stdin is not None and not self.process.stdin.closed:
            with suppress(BrokenPipeError):  # it was gone before us, which is all we want
                self.process.stdin.close()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self._finish()

    def _finish(self) -> None:
        self.process.wait()
        self._reader.join()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None and not pipe.closed:
                with suppress(BrokenPipeError):  # unwritten commands to a dead process
                    pipe.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class KlammProcess(LineProcess):
    """A real `klamm up` on a free port, ready when this returns."""

    def __init__(
        self,
        data_dir: Path | None,
        *,
        stderr_path: Path,
        port: int = 0,
        listen: str | None = "127.0.0.1",
        store: str | None = None,
        settings: Mapping[str, str] | None = None,
        environment: Mapping[str, str] | None = None,
        module: str = "klamm.cli",
    ) -> None:
        """`listen` is None where the settings have the listeners."""
        self.data_dir = data_dir or Path()
        command = [
            sys.executable,
            "-m",
            module,
            "up",
            *(() if listen is None else ("--listen", f"{listen}:{port}")),
            *(("--data", str(data_dir)) if store is None else ("--store", store)),
        ]
        for name, value in (settings or {}).items():
            command += ["--set", f"{name}={value}"]
        sources = os.pathsep.join((str(ROOT / "src"), str(ROOT / "tests")))
        super().__init__(
            command, stderr_path=stderr_path, environment={"PYTHONPATH": sources, **(environment or {})}
        )
        try:
            self.banner = self.read_line(60)
        except (ProcessEndedError, TimeoutError):
            self.kill()
            raise
        self.bootstrap = self.banner.split("listening on ", 1)[1].split(",", 1)[0]

    def stop(self) -> int:
        """Stop it cleanly and give its exit code."""
        return self.terminate()

    def close(self) -> None:
        if self.process.poll() is None:
            self.terminate()
        else:
            self._finish()
