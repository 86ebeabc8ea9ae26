"""`klamm up`: start a broker and serve until told to stop."""

from __future__ import annotations

from typing import Annotated

import typer

from klamm.cli.quick import UpOptions
from klamm.cli.start import DEFAULT_DATA, DEFAULT_LISTEN, start

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command(
    epilog="Settings have Kafka's own names. The later wins: --config FILE, then the environment "
    "(KLAMM_SET_LOG_RETENTION_MS=60000 sets log.retention.ms), then --set."
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
    raise typer.Exit(start(UpOptions(listen, data, memory, config, settings or [])))
