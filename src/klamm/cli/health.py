"""`klamm health`: a probe for containers."""

from __future__ import annotations

import typer

from klamm.cli.cluster import DEFAULT_BOOTSTRAP, Bootstrap, Timeout, an_admin
from klamm.cli.failures import fail

app = typer.Typer(rich_markup_mode=None)


@app.command()
def health(bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, timeout: Timeout = 5.0) -> None:
    """Exit with 0 if the cluster responds and has a controller, else with 1.

    \b
      HEALTHCHECK CMD klamm health
    """
    with an_admin(bootstrap, timeout) as admin:
        found = admin.describe_cluster()
    if found.controller_id < 0:
        fail(f"{bootstrap} responds, but its cluster has no controller")
    typer.echo(f"{bootstrap} is up: cluster {found.cluster_id}, {len(found.brokers)} broker(s)")
