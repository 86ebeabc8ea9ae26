"""`klamm up`: start a broker and serve until a signal."""

from __future__ import annotations

from typing import Annotated

import typer

from klamm.cli.quick import UpOptions
from klamm.cli.start import DEFAULT_DATA, DEFAULT_LISTEN, start

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command(
    epilog="Settings have Kafka's names. The later takes precedence: --config FILE, then the environment "
    "(KLAMM_SET_LOG_RETENTION_MS=60000 sets log.retention.ms), then --set."
)
def up(
    listen: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="The address to listen on, without TLS and logins unless --secure; port 0 chooses a free "
            f"port.  [default: {DEFAULT_LISTEN}]",
        ),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(metavar="DIR", help=f"The folder for all data.  [default: {DEFAULT_DATA}]"),
    ] = None,
    store: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Keep all data in PostgreSQL: postgresql://user:password@host/database; default: in "
            "files. Brokers "
            "with one URL and different node.id are one cluster.",
        ),
    ] = None,
    memory: Annotated[
        bool, typer.Option("--memory", help="Keep all data in memory; it is lost when the process ends.")
    ] = False,
    config: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            envvar="KLAMM_CONFIG",
            help="A file of settings: TOML if its name ends in .toml, else Java properties; default: none.",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="NAME=VALUE", help="A setting of the broker by Kafka's name; repeatable."
        ),
    ] = None,
    node_id: Annotated[
        int | None,
        typer.Option(
            "--node-id",
            metavar="N",
            min=0,
            help="The setting node.id: brokers on one folder need different ones. [default: 1]",
        ),
    ] = None,
    brokers: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=1,
            help="Start so many broker processes on the folder. Their ports follow that of the first one.",
        ),
    ] = 1,
    control: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="For tests: a control port for `klamm ctl` and for tests in any language, with faults and a "
            "look at topics and groups; port 0 chooses a free port; default: none. On an address that other "
            "machines can reach it needs TLS and the setting klamm.control.token.",
        ),
    ] = None,
    clock: Annotated[
        str | None,
        typer.Option(
            metavar="virtual|system",
            help="For tests: with `virtual`, the control port moves the time.  [default: system]",
        ),
    ] = None,
    secure: Annotated[
        bool,
        typer.Option(
            "--secure",
            help="TLS with a certificate of its own CA, a user admin with SCRAM-SHA-512, and ACLs. Keys and "
            "password are made once, in the folder `secure` of the data folder; with --memory, in "
            "./klamm-secure.",
        ),
    ] = False,
    registry: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="A schema registry on this cluster, too, as `klamm registry` serves one, in a process of "
            "its own; when either ends, so does the other; port 0 chooses a free port; default: none.",
        ),
    ] = None,
) -> None:
    """Start a broker, or several, and serve until Ctrl-C or SIGTERM.

    When a broker is ready, one line on standard output says where it listens, and where its control port is;
    a second one says where the registry listens. Logs go to standard error.

    \b
      klamm up --listen 0.0.0.0:9092 --set advertised.listeners=PLAINTEXT://myhost:9092
      klamm up --memory --listen 127.0.0.1:0
      klamm up --brokers 4
      klamm up --secure
      klamm up --registry 127.0.0.1:8081
      klamm up --data /srv/klamm --set num.partitions=4 --set log.retention.hours=24
      klamm up --store postgresql://klamm@db/klamm --node-id 2
      klamm up --memory --listen 127.0.0.1:0 --control 127.0.0.1:0 --clock virtual
    """
    options = UpOptions(
        listen,
        data,
        store,
        memory,
        config,
        settings or [],
        node_id,
        brokers,
        control,
        clock,
        secure,
        registry,
    )
    raise typer.Exit(start(options))
