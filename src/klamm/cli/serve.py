"""Run one broker in this process."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import resource
import signal
import sys
import threading
import time
from random import SystemRandom
from typing import Final

from klamm.broker.broker import BrokerNode
from klamm.broker.config.broker_config import BrokerConfig
from klamm.broker.embedded import new_event_loop
from klamm.broker.net.server import StartError
from klamm.broker.storage import open_storage
from klamm.cli.logs import log_handler
from klamm.clock import SystemClock
from klamm.config import ConfigError
from klamm.version import __version__

_SWITCH_S: Final = 0.0005
_LOG_FORMAT: Final = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"
_STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
_KILLED: Final = 1


class _StoppedError(Exception):
    """The broker was told to stop before it had its storage."""


def serve(config: BrokerConfig, *, in_memory: bool) -> str | None:
    """Serve until SIGTERM or SIGINT; the error when the broker cannot start."""
    raise_file_limit()
    log_to_stderr()
    try:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(_serve(config, in_memory=in_memory))
    except (StartError, ConfigError) as error:
        return str(error)
    return None


def log_to_stderr() -> None:
    """The log of a process."""
    logging.basicConfig(level=logging.INFO, handlers=[log_handler(_LOG_FORMAT)])


def announce(addresses: str, rest: str) -> None:
    """One line on standard output: the broker serves. Programs read it."""
    sys.stdout.write(f"klamm {__version__} listening on {addresses}, {rest}\n")
    sys.stdout.flush()


def raise_file_limit() -> None:
    """Raise the limit of open files to the maximum: logs and connections need many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def keep_no_core_dumps() -> None:
    """Memory has passwords and keys: no file of it when the process crashes."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


def _spare_the_collector() -> None:
    """Exclude objects made at start-up from garbage collection, and collect rarely.

    Requests create no cycles, and group members live long.
    """
    gc.freeze()
    gc.enable()
    gc.set_threshold(50_000, 20, 50)


def _favour_requests() -> None:
    """Let the event loop have the interpreter's lock soon while a thread computes.

    By default it waits for 5 ms, each time that it comes back from the kernel: the first run of the cleaner,
    which imports its modules on a thread, delayed requests by 11 ms.
    """
    sys.setswitchinterval(_SWITCH_S)


async def _serve(config: BrokerConfig, *, in_memory: bool) -> None:
    is_told = threading.Event()
    stop = _told_to_stop(is_told)
    clock, random = SystemClock(), SystemRandom()

    def sleep(duration_s: float) -> None:
        if is_told.wait(duration_s):
            raise _StoppedError

    # On a thread: it may wait for an earlier process with this node id, and signals must be heard meanwhile.
    opening = asyncio.to_thread(
        open_storage, config, clock=clock, random=random, sleep=sleep, in_memory=in_memory
    )
    try:
        storage = await opening
    except _StoppedError:
        return
    broker = BrokerNode(config, clock=clock, random=random, storage=storage, sleep=time.sleep)
    try:
        await broker.start()
        if broker.services.listener_securities:
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, broker.reload_certificates)
            keep_no_core_dumps()
        _spare_the_collector()
        _favour_requests()
        addresses = ", ".join(bound.address for bound in broker.listeners)
        kept = "in memory" if in_memory else f"in {storage.place or config.log_dirs[0]}"
        announce(addresses, f"data {kept}")
        await stop.wait()
    finally:
        await broker.stop()


def _told_to_stop(is_told: threading.Event) -> asyncio.Event:
    """Set with the first signal, as is the event for other threads."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def on_signal(number: int) -> None:
        _on_signal(is_told, number)
        stop.set()

    for number in _STOP_SIGNALS:
        loop.add_signal_handler(number, on_signal, number)
    return stop


def stop_on_signals(stop: threading.Event) -> None:
    """As for a broker on the main thread, for one on another thread."""
    for each in _STOP_SIGNALS:
        signal.signal(each, lambda number, _frame: _on_signal(stop, number))


def _on_signal(stop: threading.Event, number: int) -> None:
    """The first one stops the broker; a second one ends the process without a clean shutdown."""
    log = logging.getLogger(__name__)
    name = signal.Signals(number).name
    if stop.is_set():
        log.warning("second %s: exiting without a clean shutdown", name)
        os._exit(_KILLED)
    log.info("received %s: shutting down", name)
    stop.set()
