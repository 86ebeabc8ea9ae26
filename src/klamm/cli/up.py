"""`klamm up`: start a broker and serve until told to stop."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

from klamm.broker.config import BrokerConfig
from klamm.broker.settings import BROKER_SETTINGS
from klamm.cli.failures import FAILED, MISUSED, fail
from klamm.cli.serve import serve
from klamm.config import ConfigError, from_environment, from_flags, load_file, merge

DEFAULT_LISTEN: Final = "127.0.0.1:9092"
DEFAULT_DATA: Final = "./klamm-data"

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command(
    epilog="Settings have Kafka's own names. The later wins: --config FILE, then the environment "
    "(KLAMM_LOG_RETENTION_MS=60000 sets log.retention.ms), then --set."
)
def up(
    listen: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help=f"Where to listen; port 0 takes a free one.  [default: {DEFAULT_LISTEN}]",
        ),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(metavar="DIR", help=f"The folder that keeps everything.  [default: {DEFAULT_DATA}]"),
    ] = None,
    memory: Annotated[
        bool, typer.Option("--memory", help="Keep everything in memory; it ends with the process.")
    ] = False,
    config: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", envvar="KLAMM_CONFIG", help="Settings in Java properties, or TOML if it ends so."
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="One setting; may be given again and again."),
    ] = None,
) -> None:
    """Start a broker and serve until Ctrl-C or SIGTERM.

    As soon as it serves, one line on standard output says where; everything else goes to standard error.

    \b
      klamm up --listen 0.0.0.0:9092 --set advertised.listeners=PLAINTEXT://myhost:9092
      klamm up --memory --listen 127.0.0.1:0
      klamm up --data /srv/klamm --set num.partitions=4 --set log.retention.hours=24
    """
    try:
        wanted = broker_settings(
            listen=listen, data=data, memory=memory, file=config, environ=os.environ, flags=settings or []
        )
        broker_config = BrokerConfig.from_settings(wanted, hostname=os.uname().nodename)
    except ConfigError as error:
        fail(error, MISUSED)
    problem = serve(broker_config, in_memory=memory)
    if problem is not None:
        fail(problem, FAILED)


def broker_settings(
    *,
    listen: str | None,
    data: str | None,
    memory: bool,
    file: str | Path | None,
    environ: Mapping[str, str],
    flags: Sequence[str],
) -> dict[str, str]:
    """The broker's settings from all the places that may name them; raises ConfigError."""
    given = merge(
        load_file(file) if file is not None else {},
        from_environment(environ, BROKER_SETTINGS),
        from_flags(flags),
    )
    if memory and data is not None:
        raise ConfigError("log.dirs", "--memory keeps nothing, --data says where: give one of them")
    if listen is not None:
        given["listeners"] = _listener(listen)
    elif "listeners" not in given:
        given["listeners"] = _listener(DEFAULT_LISTEN)
    if data is not None:
        given["log.dirs"] = data
        given.pop("log.dir", None)
    elif "log.dirs" not in given and "log.dir" not in given:
        given["log.dirs"] = DEFAULT_DATA
    return given


def _listener(address: str) -> str:
    host, colon, port = address.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit():
        raise ConfigError(
            "listeners", f"--listen {address} is no address: write HOST:PORT, as {DEFAULT_LISTEN}"
        )
    return f"PLAINTEXT://{host}:{port}"
