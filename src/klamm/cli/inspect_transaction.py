"""`klamm txns inspect`: the coordinator's memory of a transactional id."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from klamm.cli.cluster import (
    DEFAULT_BOOTSTRAP,
    DEFAULT_TIMEOUT,
    AsJson,
    Bootstrap,
    Timeout,
    an_admin,
    print_json,
    print_table,
)
from klamm.cli.failures import fail
from klamm.cli.output import echo
from klamm.client.diagnosis.coordinators import partition_of
from klamm.errors import UnsupportedVersionError
from klamm.groups.diagnosis.words import duration

_TOPIC = "__transaction_state"


def inspect(
    transactional_id: Annotated[str, typer.Argument(metavar="ID", help="The transactional id.")],
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Show what the coordinator knows of a transactional id, as Kafka's TransactionMetadata has it.

    Its state and since when, producer id and epochs, the client that has the id, what is left until it is
    aborted, its partitions and which of them have no marker yet. It changes nothing. Only klamm's broker
    shows it.

    \b
      klamm txns inspect orders-1
      klamm txns inspect orders-1 --json
    """
    with an_admin(bootstrap, timeout) as admin:
        try:
            found = (
                admin._operations._inspect_transactions([transactional_id])
                .result()
                .unwrap()[transactional_id]
            )
        except UnsupportedVersionError:
            fail(
                f"{bootstrap} does not show the inside of transactions: only klamm's broker does; "
                f"`klamm txns describe {transactional_id}` works with any"
            )
        found["log"] = partition_of(admin, _TOPIC, transactional_id)
    if as_json:
        print_json(found)
    else:
        _print(found)


def _print(found: dict[str, Any]) -> None:
    echo(f"{found['transactional_id']}: {found['state']} for {duration(found['state_since_ms'])}")
    echo(f"  coordinator {found['coordinator']}, log {found['log'] or 'not known'}")
    last = "-" if found["last_epoch"] is None else found["last_epoch"]
    echo(f"  producer {found['producer_id']}, epoch {found['producer_epoch']}, epoch before {last}")
    client = "not known" if found["client_id"] is None else f"{found['client_id']} at {found['client_host']}"
    echo(f"  client {client}, transaction version {found['protocol_version']}")
    if found["open_ms"] is not None:
        left = "no time limit" if found["left_ms"] is None else f"aborted in {duration(found['left_ms'])}"
        echo(f"  open for {duration(found['open_ms'])}, {left} (time-out {duration(found['timeout_ms'])})")
    if found["end_waits"]:
        echo("  its client waits for the end: EndTxn is answered when every marker is written")
    if found["parked"]:
        echo(f"  {found['parked']} waits for a new producer id")
    if not found["is_durable"]:
        echo("  its last record is not on disk yet")
    if found["partitions"]:
        missing = set(found["awaiting_marker"])
        rows = [(each, "waits for its marker" if each in missing else "") for each in found["partitions"]]
        print_table(("partition", "marker"), rows)
