"""`klamm certs`: a CA and certificates for development."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from klamm.cli.failures import MISUSED, fail
from klamm.cli.output import echo
from klamm.extras import install_command

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def certs(
    folder: Annotated[
        str, typer.Argument(metavar="DIR", help="The folder of the files; made if it does not exist.")
    ] = "klamm-certs",
    host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A name or an address that clients connect to; repeatable.  [default: localhost, 127.0.0.1]",
        ),
    ] = None,
    client: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Make a certificate for a client of this name; repeatable."),
    ] = None,
    days: Annotated[
        int, typer.Option(metavar="N", min=1, help="How long the certificates are valid, in days.")
    ] = 365,
) -> None:
    """Make a CA, and certificates of it for brokers and clients, for development.

    A CA that is in the folder stays; certificates are made anew. Its key, ca.key, can make certificates that
    every client of the CA trusts: for production, use the CA of your organisation.

    \b
      klamm certs
      klamm certs /etc/klamm --host kafka.example.com --client alice
    """
    try:
        from klamm.net.security.authority import CertificateAuthority  # noqa: PLC0415 - needs an extra
    except ImportError:
        fail(f"making certificates needs the package cryptography: {install_command('tls')}")
    for name in client or ():
        if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.@-]{0,63}", name) or name in ("ca", "broker"):
            fail(f"--client {name!r}: expected letters, digits and . _ @ -, and not ca or broker", MISUSED)
    try:
        authority = CertificateAuthority(Path(folder))
        broker = authority.issue("broker", host or ["localhost", "127.0.0.1"], days=days)
        clients = {name: authority.issue(name, days=days) for name in client or ()}
    except (OSError, ValueError) as error:
        fail(f"cannot make certificates in {folder}: {error}")
    echo(f"CA {'made' if authority.is_new else 'kept'}: {authority.certificate}")
    echo(f"broker: ssl.keystore.location={broker}")
    if clients:
        echo(f"        ssl.truststore.location={authority.certificate}, ssl.client.auth=required")
    for name, path in clients.items():
        echo(f"client {name}: ssl.keystore.location={path}, ssl.truststore.location={authority.certificate}")
    if not clients:
        echo(f"clients: ssl.truststore.location={authority.certificate}")
