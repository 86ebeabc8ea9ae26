"""`klamm txns`: list, describe, inspect, abort, hanging."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer

from klamm.cli.cluster import (
    DEFAULT_BOOTSTRAP,
    DEFAULT_TIMEOUT,
    AsJson,
    Bootstrap,
    Timeout,
    an_admin,
    finish,
    print_json,
    print_table,
)
from klamm.cli.failures import MISUSED, fail
from klamm.cli.inspect_transaction import inspect
from klamm.cli.list_transactions import list_transactions
from klamm.cli.open_transactions import COLUMNS, of_hanging, transaction_row
from klamm.cli.output import echo
from klamm.client.admin.admin import Admin
from klamm.client.admin.model import HangingTransaction, ProducerDescription, TransactionDescription
from klamm.client.diagnosis.transactions import open_transactions
from klamm.protocol.types import TopicPartition

HANGING_AFTER_MINUTES = 15  # the default of transaction.max.timeout.ms

app = typer.Typer(
    rich_markup_mode=None,
    no_args_is_help=True,
    help="""Transactions of klamm or of any Kafka cluster.

\b
  klamm txns list                      every transactional id and its state
  klamm txns list --state Ongoing      those that are open
  klamm txns describe orders-1         its producer, its partitions, how long it has been open
  klamm txns hanging --topic orders    open on a partition, and no coordinator will end them
  klamm txns abort orders-1            fence the producer of an id and abort its transaction
""",
)
Topic = Annotated[
    str | None, typer.Option("--topic", metavar="TOPIC", help="The topic to look at; default: every topic.")
]
Partition = Annotated[
    int | None,
    typer.Option("--partition", metavar="NUMBER", help="The partition to look at; default: every partition."),
]


app.command(name="list")(list_transactions)
app.command()(inspect)


@app.command()
def describe(
    transactional_ids: Annotated[
        list[str], typer.Argument(metavar="ID...", help="The transactional ids to describe.")
    ],
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Show a transaction: its state, its producer, its partitions and how long it has been open.

    Until it ends, readers with isolation.level=read_committed stop at its first record of each partition.

    \b
      klamm txns describe orders-1
      klamm txns describe orders-1 orders-2 --json
    """
    with an_admin(bootstrap, timeout) as admin:
        found = admin.describe_transactions(transactional_ids, raise_errors=False)
    now_ms = round(time.time() * 1000)
    described = list(found.successes.values())
    if as_json:
        print_json([_as_json(item, now_ms) for item in described])
    else:
        for number, item in enumerate(described):
            if number:
                echo()
            _print(item, now_ms)
    finish(found.errors)


def _open_ms(item: TransactionDescription, now_ms: int) -> int | None:
    """How long it has been open; None if it is not."""
    is_open = item.state not in ("Empty", "CompleteCommit", "CompleteAbort", "Dead")
    return now_ms - item.start_time_ms if is_open and item.start_time_ms is not None else None


def _as_json(item: TransactionDescription, now_ms: int) -> dict[str, Any]:
    return {
        "transactional_id": item.transactional_id,
        "state": item.state,
        "producer_id": item.producer_id,
        "producer_epoch": item.producer_epoch,
        "coordinator": item.coordinator_id,
        "timeout_ms": item.timeout_ms,
        "start_time_ms": item.start_time_ms,
        "open_ms": _open_ms(item, now_ms),
        "partitions": [{"topic": topic, "partition": number} for topic, number in item.partitions],
    }


def _print(item: TransactionDescription, now_ms: int) -> None:
    parts = [
        f"{item.transactional_id}: {item.state}",
        f"producer {item.producer_id} epoch {item.producer_epoch}",
        f"coordinator {item.coordinator_id}",
        f"time-out {item.timeout_ms / 1000:g} s",
    ]
    open_ms = _open_ms(item, now_ms)
    if open_ms is not None:
        parts.append(f"open for {open_ms / 1000:.1f} s")
    echo("  ".join(parts))
    print_table(("topic", "partition"), item.partitions)


@app.command()
def hanging(
    topic: Topic = None,
    partition: Partition = None,
    older_than: Annotated[
        float,
        typer.Option(
            "--older-than",
            metavar="MINUTES",
            help="List only transactions whose producer has written nothing for this many minutes.",
        ),
    ] = HANGING_AFTER_MINUTES,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Find transactions that are open on a partition, and that no coordinator will end.

    They block consumers with isolation.level=read_committed for ever. Without --topic all are searched.

    \b
      klamm txns hanging
      klamm txns hanging --topic orders --older-than 1

    End one with `klamm txns abort --topic orders --partition 0 --start-offset 1234`.
    """
    if partition is not None and topic is None:
        fail("--partition needs --topic", MISUSED)
    with an_admin(bootstrap, timeout) as admin:
        places = _partitions(admin, topic, partition)
        without_end = admin.find_hanging_transactions(places, older_than=0)
        opened = open_transactions(admin, places)
    now_ms = round(time.time() * 1000)
    found = [item for item in without_end if now_ms - item.last_timestamp_ms >= older_than * 60_000]
    if as_json:
        print_json([_hanging_json(item) for item in found])
        return
    if not found:
        echo(f"No hanging transactions on {len(places)} partition(s).")
    else:
        print_table(COLUMNS, [transaction_row(item, now_ms) for item in of_hanging(found)])
    hanging_at = {(item.partition, item.start_offset) for item in found}
    too_young = {(item.partition, item.start_offset) for item in without_end} - hanging_at
    others = [item for item in opened if (item.partition, item.start_offset) not in hanging_at]
    if others:
        readers = "readers with isolation.level=read_committed"
        echo()
        echo(f"{len(others)} other open transaction(s) hold back {readers}:")
        why_young = f"idle for less than {older_than:g} min: --older-than 0 includes it"
        why = [
            why_young if (item.partition, item.start_offset) in too_young else "its coordinator will end it"
            for item in others
        ]
        rows = [(*transaction_row(item, now_ms), reason) for item, reason in zip(others, why, strict=True)]
        print_table((*COLUMNS, "not hanging because"), rows)


def _hanging_json(item: HangingTransaction) -> dict[str, Any]:
    return {
        "topic": item.partition.topic,
        "partition": item.partition.partition,
        "start_offset": item.start_offset,
        "producer_id": item.producer_id,
        "producer_epoch": item.producer_epoch,
        "coordinator_epoch": item.coordinator_epoch,
        "last_timestamp_ms": item.last_timestamp_ms,
        "transactional_id": item.transactional_id,
    }


def _partitions(admin: Admin, topic: str | None, partition: int | None) -> list[TopicPartition]:
    topics = admin.describe_topics(None if topic is None else [topic]).unwrap()
    places = [
        TopicPartition(name, item.partition)
        for name, description in topics.items()
        for item in description.partitions
    ]
    if partition is None:
        return places
    chosen = [place for place in places if place.partition == partition]
    if not chosen:
        fail(f"{topic} has partitions 0 to {len(places) - 1}, no {partition}")
    return chosen


@app.command()
def abort(
    transactional_id: Annotated[
        str | None,
        typer.Argument(
            metavar="[ID]", help="The transactional id whose transaction is aborted; its producer is fenced."
        ),
    ] = None,
    topic: Annotated[
        str | None,
        typer.Option(
            "--topic", metavar="TOPIC", help="The topic of the hanging transaction; needed without ID."
        ),
    ] = None,
    partition: Annotated[
        int | None,
        typer.Option(
            "--partition",
            metavar="NUMBER",
            help="The partition that the transaction hangs on; needed without ID.",
        ),
    ] = None,
    start_offset: Annotated[
        int | None,
        typer.Option(
            "--start-offset",
            metavar="OFFSET",
            help="The offset at which the hanging transaction begins; needed without ID.",
        ),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Abort a transaction: of a transactional id, or one that hangs on a partition.

    \b
      klamm txns abort orders-1
          by its coordinator: the transaction of this id is aborted, and its producer is fenced
      klamm txns abort --topic orders --partition 0 --start-offset 1234
          writes an abort marker to one partition; for what `klamm txns hanging` lists, and nothing else
    """
    on_partition = (topic, partition, start_offset)
    if transactional_id is not None and on_partition == (None, None, None):
        with an_admin(bootstrap, timeout) as admin:
            identity = admin.fence_producers([transactional_id])[transactional_id]
        if as_json:
            print_json({"transactional_id": transactional_id, **identity._asdict()})
        else:
            echo(
                f"Aborted what {transactional_id} had open; its producer is fenced "
                f"(producer {identity.producer_id}, epoch {identity.producer_epoch})."
            )
        return
    if transactional_id is not None or topic is None or partition is None or start_offset is None:
        fail("expected ID, or --topic with --partition and --start-offset", MISUSED)
    place = TopicPartition(topic, partition)
    with an_admin(bootstrap, timeout) as admin:
        producer = _open_at(admin, place, start_offset)
        admin.abort_transaction(
            place, producer.producer_id, producer.producer_epoch, max(0, producer.coordinator_epoch)
        )
    if as_json:
        print_json({"topic": topic, "partition": partition, "producer_id": producer.producer_id})
    else:
        echo(f"Aborted the transaction of producer {producer.producer_id} on {place}.")


def _open_at(admin: Admin, place: TopicPartition, start_offset: int) -> ProducerDescription:
    producers = admin.describe_producers([place]).unwrap()[place]
    for producer in producers:
        if producer.current_txn_start_offset == start_offset:
            return producer
    starts = sorted(item.current_txn_start_offset for item in producers if item.current_txn_start_offset >= 0)
    listed = ", ".join(map(str, starts)) or "none"
    fail(f"{place} has no transaction open at offset {start_offset}; open transactions begin at: {listed}")
