"""`klamm health`: a probe for containers."""

from __future__ import annotations

import typer

from klamm.cli.cluster import DEFAULT_BOOTSTRAP, Bootstrap, Timeout, an_admin
from klamm.cli.failures import fail
from klamm.cli.output import echo
from klamm.client.diagnosis.checks import failing_disks
from klamm.errors import KlammError

app = typer.Typer(rich_markup_mode=None)


@app.command()
def health(bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, timeout: Timeout = 5.0) -> None:
    """Exit with 0 if the cluster responds, has a controller, and no disk is full or offline, else with 1.

    \b
      HEALTHCHECK CMD klamm health
    """
    with an_admin(bootstrap, timeout) as admin:
        found = admin.describe_cluster()
        try:
            failing, unknown = failing_disks(admin), ""
        except KlammError as error:  # not allowed to ask, or a broker has just died: nothing is known
            failing, unknown = [], f"; how full its disks are is not known: {error}"
    if found.controller_id < 0:
        fail(f"{bootstrap} responds, but its cluster has no controller")
    if failing:
        fail("; ".join(f"{each.found}. To do: {each.next_step}" for each in failing))
    echo(f"{bootstrap} is up: cluster {found.cluster_id}, {len(found.brokers)} broker(s){unknown}")
