"""`klamm txns list`: every transactional id, how long its transaction is open, and whom it holds back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

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
from klamm.cli.failures import MISUSED, fail
from klamm.cli.output import echo
from klamm.client.admin.model import ListedTransaction, TransactionDescription
from klamm.client.diagnosis.transactions import held_back
from klamm.clock import SystemClock
from klamm.groups.diagnosis.words import duration
from klamm.protocol.types import TopicPartition

ENDED: Final = ("Empty", "CompleteCommit", "CompleteAbort", "Dead")
_COLUMNS: Final = (
    "transactional id",
    "state",
    "producer id",
    "coordinator",
    "open for",
    "partitions",
    "holds back",
)


def list_transactions(
    state: Annotated[
        list[str] | None,
        typer.Option(
            "--state", help="List only ids in this state, as in Ongoing or CompleteCommit; repeatable."
        ),
    ] = None,
    producer_id: Annotated[
        list[int] | None,
        typer.Option("--producer-id", metavar="ID", help="List only ids with this producer id; repeatable."),
    ] = None,
    longer_than: Annotated[
        float | None,
        typer.Option(
            "--longer-than",
            metavar="SECONDS",
            help="List only transactions that have been open for longer than this many seconds.",
        ),
    ] = None,
    pattern: Annotated[
        str | None,
        typer.Option(
            "--pattern", metavar="REGEX", help="List only ids that match this regular expression as a whole."
        ),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """List the transactional ids of the whole cluster, and of open transactions which groups they hold back.

    A group is held back if its committed offset is where an open transaction begins.

    \b
      klamm txns list --state Ongoing --longer-than 60
      klamm txns list --pattern 'orders-.*' --json
    """
    with an_admin(bootstrap, timeout) as admin:
        try:
            found = admin.list_transactions(
                states=state or (),
                producer_ids=producer_id or (),
                longer_than=longer_than,
                id_pattern=pattern,
            )
        except ValueError as error:
            fail(error, MISUSED)
        open_ids = [item.transactional_id for item in found if item.state not in ENDED]
        opened = admin.describe_transactions(open_ids, raise_errors=False).successes if open_ids else {}
        held = held_back(admin, {key for item in opened.values() for key in item.partitions})
    now_ms = SystemClock().timestamp_ms()
    rows = [_Row(item, opened.get(item.transactional_id), held, now_ms) for item in found]
    if as_json:
        print_json([each.as_json() for each in rows])
    elif not found:
        is_filtered = state or producer_id or longer_than is not None or pattern
        echo("No transactional ids that this user may see" + (" and that match." if is_filtered else "."))
    else:
        print_table(_COLUMNS, [each.cells() for each in rows])


@dataclass(frozen=True, slots=True)
class _Row:
    """One transactional id."""

    listed: ListedTransaction
    opened: TransactionDescription | None  # None: it has no transaction open
    held: Mapping[TopicPartition, Sequence[str]]  # groups that wait, by partition
    now_ms: int

    @property
    def open_ms(self) -> int | None:
        if self.opened is None or self.opened.start_time_ms is None:
            return None
        return max(0, self.now_ms - self.opened.start_time_ms)

    @property
    def waiting(self) -> list[str]:
        """The groups that it holds back."""
        if self.opened is None:
            return []
        return sorted({name for key in self.opened.partitions for name in self.held.get(key, ())})

    def cells(self) -> tuple[object, ...]:
        item, open_ms = self.listed, self.open_ms
        return (
            item.transactional_id,
            item.state,
            item.producer_id,
            item.coordinator_id,
            "-" if open_ms is None else duration(open_ms),
            "-" if self.opened is None else len(self.opened.partitions),
            ", ".join(self.waiting) or "-",
        )

    def as_json(self) -> dict[str, Any]:
        item, opened = self.listed, self.opened
        return {
            "transactional_id": item.transactional_id,
            "state": item.state,
            "producer_id": item.producer_id,
            "coordinator": item.coordinator_id,
            "open_ms": self.open_ms,
            "partitions": None if opened is None else [str(key) for key in opened.partitions],
            "holds_back": None if opened is None else self.waiting,
        }
