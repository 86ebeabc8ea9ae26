"""`klamm txns inspect`: the coordinator's memory of a transactional id."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from klamm.cli import inside
from klamm.cli.cluster import (
    DEFAULT_BOOTSTRAP,
    DEFAULT_TIMEOUT,
    AsJson,
    Bootstrap,
    Timeout,
    print_table,
)
from klamm.cli.output import echo
from klamm.groups.diagnosis.words import duration


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
    inside.inspect(_TRANSACTIONS, transactional_id, bootstrap, timeout, as_json=as_json)


def _print(found: dict[str, Any]) -> None:
    echo(f"{found['transactional_id']}: {found['state']} for {duration(found['state_since_ms'])}")
    inside.echo_coordinator(found)
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


_TRANSACTIONS = inside.InsideOf(
    "transactions",
    "__transaction_state",
    lambda admin, key: admin._operations._inspect_transactions([key]).result(),
    "klamm txns describe",
    _print,
)
