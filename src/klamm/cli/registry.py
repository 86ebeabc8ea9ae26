"""`klamm registry`: a schema registry on a cluster."""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import Annotated

import typer

from klamm.broker.net.listeners import is_loopback
from klamm.cli.cluster import DEFAULT_BOOTSTRAP, Bootstrap, clear_errors
from klamm.cli.failures import FAILED, MISUSED, fail
from klamm.cli.output import echo
from klamm.cli.profiles import profile_settings
from klamm.cli.registry_process import host_and_port, what_is_missing
from klamm.config import Password

app = typer.Typer(rich_markup_mode=None, add_completion=False)
DEFAULT_LISTEN = "127.0.0.1:8081"


@app.command()
def registry(
    listen: Annotated[
        str,
        typer.Option(metavar="HOST:PORT", help="The address to serve HTTP on; port 0 chooses a free port."),
    ] = DEFAULT_LISTEN,
    token_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="A file with a token, without which no request is served: clients send it as bearer token, "
            "or as the password of any user.",
        ),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Serve schemas of Avro, JSON Schema and Protobuf over Confluent's REST API, until a signal.

    Serializers of confluent-kafka, Java and Spark use it as they use Confluent's. Schemas are in the topic
    _schemas of the cluster, klamm or Apache Kafka, in Confluent's format; several registries may share it.
    Whoever reaches the port may register and delete schemas, unless a token is needed.

    \b
      klamm registry -b 127.0.0.1:9092
      klamm registry --listen 0.0.0.0:8081 --token-file registry.token
      curl http://127.0.0.1:8081/subjects
    """
    address = host_and_port(listen)
    if address is None:
        fail(f"invalid value {listen} for --listen: expected HOST:PORT", MISUSED)
    host, port = address
    token = None if token_file is None else _token(token_file)
    if token is None and not is_loopback(host):
        echo(
            f"klamm: whoever reaches {listen} may register and delete schemas: --token-file FILE asks for "
            "a token",
            err=True,
        )
    missing = what_is_missing()
    if missing is not None:
        fail(missing)
    from klamm.cli.serve import log_to_stderr, stop_on_signals  # noqa: PLC0415 - only this command serves
    from klamm.registry.model import RegistryError  # noqa: PLC0415 - as above
    from klamm.registry.server import RegistryServer  # noqa: PLC0415 - an extra

    log_to_stderr()
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    settings = {**profile_settings(), "bootstrap.servers": bootstrap}
    stop = threading.Event()
    try:
        with clear_errors(), RegistryServer(settings, host=host, port=port, token=token) as server:
            # Until here a signal ends the process at once: there is nothing to close.
            stop_on_signals(stop)
            echo(f"klamm registry listening on {server.url}, schemas in topic _schemas of {bootstrap}")
            stop.wait()
    except RegistryError as error:
        fail(error, FAILED)
    except OSError as error:
        fail(f"cannot listen on {listen}: {error.strerror or error}", FAILED)


def _token(file: Path) -> Password:
    try:
        token = file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        fail(f"cannot read --token-file {file}: {getattr(error, 'strerror', None) or error}", MISUSED)
    if not token:
        fail(f"--token-file {file} is empty", MISUSED)
    return Password(token)
