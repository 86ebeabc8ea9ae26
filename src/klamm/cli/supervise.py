"""`klamm up` with several processes: brokers on one data folder, which are restarted, and a registry."""

from __future__ import annotations

import ctypes
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from queue import Empty, SimpleQueue
from threading import Thread
from typing import IO, Final, NamedTuple

from klamm.broker.config.racks import own_rack
from klamm.broker.config.security_settings import listener_setting
from klamm.broker.config.settings import BROKER_SETTINGS
from klamm.cli.exit_codes import FAILED
from klamm.cli.registry_process import RegistryProcess
from klamm.config import ENVIRONMENT_PREFIX, ConfigError

MAX_BROKERS: Final = 64
FIRST_DELAY_S: Final = 0.5
MAX_DELAY_S: Final = 30.0
STEADY_S: Final = 60.0  # a broker that ran for so long is restarted after the first delay again
_ADDRESSES: Final = ("listeners", "advertised.listeners", "klamm.metrics.listener")
_PORT: Final = re.compile(r":(\d+)(?=\s*(?:,|$))")
_LAST_PORT: Final = 65535
_PR_SET_PDEATHSIG: Final = 1


class _Event(NamedTuple):
    """A process wrote a line, or ended (`line` is None); or a signal arrived (`child` is None)."""

    child: _Child | None
    line: str | None = None


def settings_of(settings: Mapping[str, str], first_id: int, count: int) -> list[dict[str, str]]:
    """The settings of each broker: its own node.id, and the ports above those of the first one.

    Raises ConfigError.
    """
    if not 1 <= count <= MAX_BROKERS:
        raise ConfigError("node.id", f"invalid value {count} for --brokers: expected 1 to {MAX_BROKERS}")
    each_ones = []
    for name in settings:
        if listener_setting(name) is not None and _is_secret(name):
            raise ConfigError(
                name,
                f"{name} cannot be passed to several brokers: set it for all listeners, without the prefix",
            )
    for number in range(count):
        own = {**settings, **own_rack(settings, number), "node.id": str(first_id + number)}
        own.pop("broker.id", None)
        own |= {name: _shifted(name, settings[name], number) for name in _ADDRESSES if name in settings}
        each_ones.append(own)
    return each_ones


def _shifted(name: str, addresses: str, by: int) -> str:
    """Addresses with ports that are higher by a number; port 0 stays: any free port."""

    def shift(match: re.Match[str]) -> str:
        port = int(match[1])
        if port + by > _LAST_PORT:
            raise ConfigError(
                name, f"{name}={addresses}: port {port + by} does not exist; choose a lower one"
            )
        return f":{port + by if port else 0}"

    return _PORT.sub(shift, addresses)


class Backoff:
    """How long to wait before a broker that died is started again."""

    def __init__(self) -> None:
        self._delay_s = FIRST_DELAY_S

    def next_s(self, ran_for_s: float) -> float:
        if ran_for_s >= STEADY_S:
            self._delay_s = FIRST_DELAY_S
        delay_s = self._delay_s
        self._delay_s = min(2 * delay_s, MAX_DELAY_S)
        return delay_s


class _Child:
    """One process, now or soon: a broker by its id, or the registry."""

    def __init__(self, name: str, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self.name = name
        self.command = command
        self.environment = environment
        self.process: subprocess.Popen[str] | None = None
        self.started_at_s = 0.0
        self.restart_at_s: float | None = None
        self.line: str | None = None  # that it serves
        self.backoff = Backoff()


def supervise(
    settings: Mapping[str, str],
    first_id: int,
    count: int,
    *,
    in_memory: bool = False,
    registry: RegistryProcess | None = None,
) -> int:
    """Run brokers, and a registry, until a signal; the exit code. Raises ConfigError."""
    events: SimpleQueue[_Event] = SimpleQueue()
    memory = ["--memory"] if in_memory else []
    brokers = [
        _Child(own["node.id"], command_of(own) + memory, environment_of(own, os.environ))
        for own in settings_of(settings, first_id, count)
    ]
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: events.put(_Event(None)))
    for child in brokers:
        _start(child, events)
    return _Supervision(brokers, registry, events).run()


def command_of(settings: Mapping[str, str]) -> list[str]:
    """The command of a broker, without secrets: every user can list the arguments of processes."""
    command = [sys.executable, "-m", "klamm.cli", "up"]
    for name, value in settings.items():
        if not _is_secret(name):
            command += ["--set", f"{name}={value}"]
    return command


def environment_of(settings: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of a broker: secrets, and no settings that its command has already."""
    others = {
        name: value
        for name, value in environ.items()
        if name != "KLAMM_CONFIG" and not name.startswith(ENVIRONMENT_PREFIX)
    }
    secrets = {
        ENVIRONMENT_PREFIX + name.upper().replace(".", "_"): value
        for name, value in settings.items()
        if _is_secret(name)
    }
    return others | secrets


def _is_secret(name: str) -> bool:
    setting = listener_setting(name) or BROKER_SETTINGS.settings.get(name)
    return setting is not None and setting.is_sensitive


def _start(child: _Child, events: SimpleQueue[_Event]) -> None:
    child.restart_at_s = None
    child.started_at_s = time.monotonic()
    # In a process group of its own: Ctrl-C is for this process, which stops the others in order.
    child.process = subprocess.Popen(
        child.command,
        env=child.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        process_group=0,
        preexec_fn=_die_with_parent if sys.platform == "linux" else None,  # noqa: PLW1509 - no threads hold locks
    )
    Thread(target=_watch, args=(child, child.process, events), daemon=True).start()


_LIBC: Final = ctypes.CDLL(None) if sys.platform == "linux" else None


def _die_with_parent() -> None:
    """Stop as with SIGTERM when the supervisor is killed."""
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _watch(child: _Child, process: subprocess.Popen[str], events: SimpleQueue[_Event]) -> None:
    def copy_log(log: IO[str]) -> None:
        for line in log:
            sys.stderr.write(f"[{child.name}] {line}")

    assert process.stdout is not None
    assert process.stderr is not None
    copying = Thread(target=copy_log, args=(process.stderr,), daemon=True)
    copying.start()
    for line in process.stdout:
        events.put(_Event(child, line.rstrip("\n")))
    copying.join()
    process.wait()
    events.put(_Event(child))


class _Supervision:
    """Reacts to lines, deaths and signals."""

    def __init__(
        self, brokers: Sequence[_Child], registry: RegistryProcess | None, events: SimpleQueue[_Event]
    ) -> None:
        self._brokers = brokers
        self._wanted_registry = registry  # until it is started, when all brokers serve
        self._registry: _Child | None = None
        self._events = events
        self._is_stopping = False
        self._exit_code = 0

    @property
    def _children(self) -> list[_Child]:
        return [*self._brokers] if self._registry is None else [*self._brokers, self._registry]

    def run(self) -> int:
        while any(child.process is not None or child.restart_at_s is not None for child in self._children):
            try:
                event = self._events.get(timeout=self._wait_s())
            except Empty:
                self._restart_due()
                continue
            if event.child is None:
                self._stop()
            elif event.line is not None:
                self._serves(event.child, event.line)
            else:
                self._ended(event.child)
        return self._exit_code

    def _serves(self, child: _Child, line: str) -> None:
        child.line = line
        is_one_of_several = len(self._brokers) > 1 and child is not self._registry
        sys.stdout.write(f"broker {child.name}: {line}\n" if is_one_of_several else f"{line}\n")
        sys.stdout.flush()
        lines = [each.line for each in self._brokers if each.line is not None]
        wanted = self._wanted_registry
        if wanted is not None and len(lines) == len(self._brokers) and not self._is_stopping:
            self._wanted_registry = None
            self._registry = _Child("registry", wanted.command(lines), wanted.environment(os.environ))
            _start(self._registry, self._events)

    def _wait_s(self) -> float | None:
        due = [child.restart_at_s for child in self._children if child.restart_at_s is not None]
        return max(0.0, min(due) - time.monotonic()) if due else None

    def _restart_due(self) -> None:
        for child in self._children:
            if child.restart_at_s is not None and child.restart_at_s <= time.monotonic():
                _start(child, self._events)

    def _stop(self) -> None:
        """The registry ends first: it says farewell to the brokers. A second signal ends all at once."""
        is_first = not self._is_stopping
        self._is_stopping = True
        for child in self._brokers:
            child.restart_at_s = None
        if self._registry is not None and self._registry.process is not None:
            _tell([self._registry])
            if is_first:
                return
        _tell(self._brokers)

    def _ended(self, child: _Child) -> None:
        assert child.process is not None
        code = child.process.returncode
        child.process = None
        if self._is_stopping:
            # Killed by the signal: it had not begun, and has nothing to close.
            self._exit_code = self._exit_code or (0 if code in (0, -signal.SIGTERM) else FAILED)
            if child is self._registry:
                _tell(self._brokers)
        elif child.line is None and code > 0:
            # It cannot start, and has said why: neither could it the next time.
            self._exit_code = code
            self._stop()
        elif child is self._registry or len(self._brokers) == 1:
            # Nobody would notice that one of two has begun anew, a broker in memory without its records.
            who = "the registry" if child is self._registry else f"broker {child.name}"
            sys.stderr.write(f"klamm: {who} {_how(code)}: stopping\n")
            self._exit_code = FAILED
            self._stop()
        else:
            delay_s = child.backoff.next_s(time.monotonic() - child.started_at_s)
            child.restart_at_s = time.monotonic() + delay_s
            sys.stderr.write(f"klamm: broker {child.name} {_how(code)}; starting it again in {delay_s:g} s\n")


def _tell(children: Iterable[_Child]) -> None:
    """To end: brokers hand their partitions over, the last one closes them."""
    for child in children:
        if child.process is not None and child.process.poll() is None:
            child.process.send_signal(signal.SIGTERM)


def _how(code: int) -> str:
    if code >= 0:
        return f"exited with code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"
