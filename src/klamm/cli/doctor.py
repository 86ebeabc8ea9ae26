"""`klamm doctor`: why does a connection fail?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated

import typer

from klamm.cli.cluster import (
    DEFAULT_BOOTSTRAP,
    AsJson,
    Bootstrap,
    an_admin,
    clear_errors,
    print_json,
)
from klamm.cli.failures import fail
from klamm.cli.output import echo
from klamm.cli.profiles import profile_settings
from klamm.client.config import ADMIN, ClientConfig
from klamm.client.diagnosis.checks import Probe, cluster_checks, connection_checks
from klamm.client.diagnosis.security_checks import certificate_checks, mechanism_check, rights_checks
from klamm.net.network import Address
from klamm.net.security.settings import SASL, TLS

app = typer.Typer(rich_markup_mode=None)


@app.command()
def doctor(
    topic: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Tell what this user may do with the topic; repeatable."),
    ] = None,
    group: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Tell what this user may do with the group; repeatable."),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Annotated[
        float, typer.Option("--timeout", metavar="SECONDS", help="Seconds that each check may take.")
    ] = 5.0,
    as_json: AsJson = False,
) -> None:
    """Find out why a connection fails: name, port, protocol, certificates, login, addresses, rights.

    The settings of the profile apply (--profile), security.protocol and passwords among them. Exit code 0
    if everything works, 1 if not.

    \b
      klamm doctor -b kafka-1:9093
      klamm --profile prod doctor --topic orders --group billing
    """
    checks: list[Probe] = []
    with clear_errors():
        settings = {**profile_settings(), "bootstrap.servers": bootstrap}
        config = ClientConfig.parse(ADMIN, settings, {})
        protocol = config.values.text("security.protocol").upper()
        for address in config.bootstrap():
            seen = _told(connection_checks(address, protocol, timeout), as_json)
            checks += seen
            if seen[-1].is_ok:
                checks += _told(_secured(config, address, protocol, timeout), as_json)
    # One of several addresses is enough for a client.
    with an_admin(bootstrap, timeout) as admin:
        seen = _told(cluster_checks(admin, protocol, timeout), as_json)
        checks += seen
        if seen[0].is_ok:
            user = config.values.optional_text("sasl.username") or "this user"
            checks += _told(rights_checks(admin, user, topic or [], group or []), as_json)
    if as_json:
        print_json([check.as_json() for check in checks])
    failed = sum(not check.is_ok for check in checks)
    if failed:
        fail(f"{failed} of {len(checks)} checks of {bootstrap} failed")


def _secured(config: ClientConfig, address: Address, protocol: str, timeout: float) -> Iterator[Probe]:
    """Certificates and login, as far as there are any."""
    context = config.network("klamm-doctor").security.context
    is_accepted = True
    if protocol in TLS and context is not None:
        for check in certificate_checks(address, context, timeout):
            is_accepted = check.is_ok
            yield check
    if protocol in SASL and is_accepted:
        yield mechanism_check(address, context, config.values.optional_text("sasl.mechanism") or "", timeout)


def _told(checks: Iterable[Probe], as_json: bool) -> list[Probe]:
    """All of them, each printed when it is there."""
    done = []
    for check in checks:
        done.append(check)
        if not as_json:
            print_check(check)
    return done


def print_check(check: Probe) -> None:
    """One line, and what to do where it is wrong."""
    echo(f"{'ok    ' if check.is_ok else 'FAILED'}  {check.found}")
    if check.next_step:
        echo(f"        do next: {check.next_step}")
