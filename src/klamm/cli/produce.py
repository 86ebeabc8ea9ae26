"""`klamm produce`: records from standard input, a line each."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Annotated

import typer

from klamm.cli.cluster import DEFAULT_BOOTSTRAP, DEFAULT_TIMEOUT, Bootstrap, Timeout, clear_errors, pairs
from klamm.cli.failures import FAILED, MISUSED, fail
from klamm.cli.record_json import Header, NewRecord, from_line
from klamm.client.producer.delivery import Delivery
from klamm.client.producer.producer import Producer

app = typer.Typer(rich_markup_mode=None)


@app.command()
def produce(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Where to.")],
    key_separator: Annotated[
        str | None,
        typer.Option("--key-separator", "-k", metavar="TEXT", help="What stands before it is the key."),
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option("--header", "-H", metavar="NAME=VALUE", help="A header of each record."),
    ] = None,
    partition: Annotated[
        int | None, typer.Option("--partition", "-p", min=0, help="Instead of choosing one by key.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Each line is a record in JSON, as `klamm consume --json` prints.")
    ] = False,
    acks: Annotated[str, typer.Option("--acks", help="all, 1 or 0.")] = "all",
    compression: Annotated[
        str, typer.Option("--compression", "-z", help="none, gzip, snappy, lz4 or zstd.")
    ] = "none",
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Any other setting of the producer."),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Send lines of standard input to a topic.

    \b
      echo hello | klamm produce greetings
      printf 'anna:1\\nbert:2\\n' | klamm produce scores --key-separator :
      klamm consume orders --json --from-beginning --timeout 2 | klamm produce copies --json
    """
    headers = tuple((name, value.encode()) for name, value in pairs(header or [], "--header").items())
    settings = {
        "bootstrap.servers": bootstrap,
        "max.block.ms": round(timeout * 1000),
        "acks": acks,
        "compression.type": compression,
        "linger.ms": 5,
        **pairs(setting or [], "--set"),
    }
    lines = (line.rstrip(b"\n") for line in sys.stdin.buffer)
    records = _json_records(lines, headers) if as_json else _records(lines, key_separator, headers)
    failures: list[Exception] = []

    def delivered(delivery: Delivery) -> None:
        error = delivery.exception()
        if error is not None:
            failures.append(error)

    sent = 0
    with clear_errors(), Producer(settings) as producer:
        for record in records:
            producer.send(
                topic,
                record.value,
                record.key,
                record.headers,
                record.partition if partition is None else partition,
                record.timestamp_ms,
                delivered,
            )
            sent += 1
        producer.flush()
    if failures:
        fail(f"{len(failures)} of {sent} records were not delivered; the first: {failures[0]}", FAILED)


def _records(
    lines: Iterable[bytes], separator: str | None, headers: tuple[Header, ...]
) -> Iterator[NewRecord]:
    for number, line in enumerate(lines, start=1):
        key: bytes | None = None
        value = line
        if separator:
            key, found, value = line.partition(separator.encode())
            if not found:
                fail(f"line {number} has no {separator!r} between key and value: {line[:60]!r}", MISUSED)
        yield NewRecord(value, key, headers)


def _json_records(lines: Iterable[bytes], headers: tuple[Header, ...]) -> Iterator[NewRecord]:
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            record = from_line(line)
        except ValueError as error:
            fail(f"line {number}: {error}", MISUSED)
        yield NewRecord(
            record.value, record.key, (*record.headers, *headers), record.partition, record.timestamp_ms
        )
