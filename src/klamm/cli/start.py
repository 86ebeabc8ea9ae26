"""From the options of `klamm up` to a broker that serves, and to the process's exit code."""

from __future__ import annotations

import gc
import os
import socket
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from klamm.broker.config.broker_config import BrokerConfig
from klamm.broker.config.settings import BROKER_SETTINGS
from klamm.cli.exit_codes import FAILED, MISUSED
from klamm.cli.quick import UpOptions
from klamm.cli.serve import serve
from klamm.config import ConfigError, from_environment, from_flags, load_file, merge

if TYPE_CHECKING:
    from pathlib import Path

DEFAULT_LISTEN: Final = "127.0.0.1:9092"
DEFAULT_DATA: Final = "./klamm-data"
# Without a configuration file. Kafka's own file for a first start says the same: who tries a broker out has
# one consumer, and waits for no others to join.
WITHOUT_FILE: Final[Mapping[str, str]] = {"group.initial.rebalance.delay.ms": "0"}


def start(options: UpOptions) -> int:
    """Serve until a signal; the exit code. An error is printed in one line on standard error."""
    try:
        settings = broker_settings(options, os.environ)
        folder = None
        if options.secure:
            settings, folder = _secured(options, settings)
        if options.brokers != 1 or options.registry is not None:
            return _start_processes(options, settings, folder)
        config = BrokerConfig.from_settings(settings, hostname=socket.gethostname())
    except ConfigError as error:
        return complain(error, MISUSED)
    if config.klamm_control_listener is None:
        problem = serve(config, in_memory=options.memory)
    else:
        gc.enable()
        # Imported here: a broker without a control port starts without klamm.testing.
        from klamm.cli.serve_controlled import serve_controlled  # noqa: PLC0415

        problem = serve_controlled(config, in_memory=options.memory)
    return 0 if problem is None else complain(problem, FAILED)


def _secured(options: UpOptions, settings: Mapping[str, str]) -> tuple[dict[str, str], Path]:
    """With TLS, one user and ACLs, whose files are in the folder. Raises ConfigError."""
    # Imported here: a broker without starts without it.
    from pathlib import Path  # noqa: PLC0415

    from klamm.cli.secure import FOLDER, secure_settings, tell  # noqa: PLC0415

    gc.enable()
    is_in_folder = not options.memory and "klamm.store" not in settings
    places = settings.get("log.dirs", settings.get("log.dir", DEFAULT_DATA)).split(",")
    folder = Path(places[0]) / FOLDER if is_in_folder else Path(f"klamm-{FOLDER}")
    secured = secure_settings(settings, folder)
    # A token that was given is not told again.
    tell(folder, has_control_token=secured.keys() - settings.keys() >= {"klamm.control.token"})
    return secured, folder


def _start_processes(options: UpOptions, settings: Mapping[str, str], secured: Path | None) -> int:
    """Several brokers, or a registry beside one. Raises ConfigError."""
    # Imported here: one broker starts without it.
    from klamm.cli.registry_process import registry_beside  # noqa: PLC0415
    from klamm.cli.supervise import settings_of, supervise  # noqa: PLC0415

    gc.enable()
    is_one = options.brokers == 1
    if options.memory and not is_one:
        raise ConfigError("log.dirs", "--memory and --brokers cannot be combined: processes share a folder")
    if "klamm.control.listener" in settings and not is_one:
        raise ConfigError("klamm.control.listener", "--control is for one broker: remove --brokers")
    config = BrokerConfig.from_settings(settings, hostname=socket.gethostname())
    registry = None if options.registry is None else registry_beside(options.registry, config, secured)
    first_id = config.node_id
    for own in settings_of(settings, first_id, options.brokers):
        BrokerConfig.from_settings(own, hostname=socket.gethostname())  # errors are reported once, and here
    return supervise(settings, first_id, options.brokers, in_memory=options.memory, registry=registry)


def complain(message: object, exit_code: int) -> int:
    """Print an error in one line on standard error; the exit code."""
    sys.stderr.write(f"klamm: {' '.join(str(message).split())}\n")
    return exit_code


def broker_settings(options: UpOptions, environ: Mapping[str, str]) -> dict[str, str]:
    """The broker's settings from file, environment and flags. Raises ConfigError."""
    given = merge(
        load_file(options.config) if options.config is not None else WITHOUT_FILE,
        from_environment(environ, BROKER_SETTINGS),
        from_flags(options.settings),
    )
    if options.memory and options.data is not None:
        raise ConfigError("log.dirs", "--memory and --data cannot be combined: remove one of them")
    if options.store is not None:
        given["klamm.store"] = options.store
    if "klamm.store" in given:
        for flag, is_given in (("--data", options.data is not None), ("--memory", options.memory)):
            if is_given:
                raise ConfigError("klamm.store", f"{flag} and a store cannot be combined: remove one of them")
    if options.listen is not None:
        present = given.get("listeners", "")
        plain = {"PLAINTEXT", *given.get("controller.listener.names", "").split(",")}
        if any(each.partition("://")[0].strip() not in plain for each in present.split(",") if each):
            raise ConfigError(
                "listeners",
                f"--listen would replace listeners={present} by one without TLS or logins: remove one",
            )
        given["listeners"] = _listener(options.listen)
    elif "listeners" not in given:
        given["listeners"] = _listener(DEFAULT_LISTEN)
    if options.control is not None:
        given["klamm.control.listener"] = options.control
    if options.clock is not None:
        given["klamm.clock"] = options.clock
    _check_control(given)
    if options.node_id is not None:
        given["node.id"] = str(options.node_id)
        given.pop("broker.id", None)
    if options.data is not None:
        given["log.dirs"] = options.data
    elif "log.dirs" not in given and "log.dir" not in given:
        given["log.dirs"] = DEFAULT_DATA
    return given


def _check_control(given: Mapping[str, str]) -> None:
    if "klamm.control.listener" not in given:
        if given.get("klamm.clock") == "virtual":
            raise ConfigError(
                "klamm.clock", "virtual time is moved by the control port: add --control 127.0.0.1:0"
            )
    elif "klamm.store" in given:
        raise ConfigError(
            "klamm.control.listener", "a control port and a store cannot be combined: use --memory or --data"
        )


def _listener(address: str) -> str:
    host, colon, port = address.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit():
        raise ConfigError(
            "listeners", f"--listen {address} is not an address: expected HOST:PORT, as in {DEFAULT_LISTEN}"
        )
    return f"PLAINTEXT://{host}:{port}"
