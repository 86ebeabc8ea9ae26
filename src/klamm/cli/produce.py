"""`klamm produce`: records from standard input or from files."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Final

import typer

from klamm.cli.cluster import (
    DEFAULT_BOOTSTRAP,
    DEFAULT_TIMEOUT,
    Bootstrap,
    clear_errors,
    pairs,
)
from klamm.cli.completion import complete_topics
from klamm.cli.failures import FAILED, MISUSED, fail
from klamm.cli.profiles import profile_settings
from klamm.cli.record_format import unescaped
from klamm.cli.record_json import Header, NewRecord, from_line
from klamm.client.admin.admin import Admin
from klamm.client.admin.existence import require_topic
from klamm.client.config import ADMIN
from klamm.client.producer.delivery import Delivery
from klamm.client.producer.producer import Producer

READ_BYTES: Final = 64 * 1024

LINGER_MS = 5
_ADVICE: Final = "add --create-topic, or --partitions N for so many partitions"

app = typer.Typer(rich_markup_mode=None)
DELIMITER = "\\n"


@app.command()
def produce(
    topic: Annotated[
        str,
        typer.Argument(
            metavar="TOPIC",
            help="The topic to send to.",
            autocompletion=complete_topics,
        ),
    ],
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[FILE]...", help="Send the lines of these files instead of standard input."),
    ] = None,
    whole_files: Annotated[
        bool, typer.Option("--whole", help="Send each file as the value of one record, byte for byte.")
    ] = False,
    delimiter: Annotated[
        str, typer.Option("--delimiter", "-D", metavar="TEXT", help="What ends each record in the input.")
    ] = DELIMITER,
    key: Annotated[
        str | None, typer.Option("--key", metavar="TEXT", help="The key of each record; default: none.")
    ] = None,
    key_separator: Annotated[
        str | None,
        typer.Option(
            "--key-separator",
            "-k",
            "-K",
            metavar="TEXT",
            help="What separates key and value in a line; default: a line is a value.",
        ),
    ] = None,
    null: Annotated[
        str | None,
        typer.Option(
            "--null",
            metavar="TEXT",
            help="Send a key or value that equals this text as null; default: nothing is null.",
        ),
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option("--header", "-H", metavar="NAME=VALUE", help="A header for each record; repeatable."),
    ] = None,
    partition: Annotated[
        int | None,
        typer.Option("--partition", "-p", min=0, help="The partition to write to; default: chosen by key."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Each line is a record in JSON, as `klamm consume --json` prints.")
    ] = False,
    acks: Annotated[
        str,
        typer.Option(
            "--acks", help="Whose acknowledgement a record waits for: all, 1 (the leader) or 0 (nobody)."
        ),
    ] = "all",
    compression: Annotated[
        str,
        typer.Option(
            "--compression", "-z", help="How batches are compressed: none, gzip, snappy, lz4 or zstd."
        ),
    ] = "none",
    create: Annotated[
        bool, typer.Option("--create-topic", help="Create the topic if it does not exist.")
    ] = False,
    partitions: Annotated[
        int | None,
        typer.Option(
            "--partitions",
            min=1,
            help="The partitions of a topic that is created; implies --create-topic; default: the broker's.",
        ),
    ] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", "-X", metavar="NAME=VALUE", help="A setting of the producer; repeatable."),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Annotated[
        float,
        typer.Option("--timeout", metavar="SECONDS", help="Seconds that each record may take."),
    ] = DEFAULT_TIMEOUT,
) -> None:
    """Send lines of standard input, or of files, to a topic.

    \b
      echo hello | klamm produce greetings --create-topic
      printf 'anna:1\\nbert:2\\n' | klamm produce scores --key-separator :
      echo 'anna:NULL' | klamm produce scores --key-separator : --null NULL     # a tombstone
      klamm produce pictures --whole --key logo logo.png
      klamm consume orders --json --from-beginning --exit | klamm produce copies --json
    """
    headers = tuple((name, value.encode()) for name, value in pairs(header or [], "--header").items())
    settings: dict[str, Any] = {
        **profile_settings(),
        "bootstrap.servers": bootstrap,
        "max.block.ms": round(timeout * 1000),
        "request.timeout.ms": min(30_000, round(timeout * 1000)),
        "delivery.timeout.ms": round(timeout * 1000) + LINGER_MS,  # for each record
        "acks": acks,
        "compression.type": compression,
        "linger.ms": LINGER_MS,
        **pairs(setting or [], "--set"),
    }
    if whole_files and (as_json or key_separator or not files):
        fail("--whole cannot be combined with --json or --key-separator: remove them", MISUSED)
    if whole_files and delimiter != DELIMITER:
        fail("--whole cannot be combined with --delimiter: a file is one record", MISUSED)
    if key is not None and (as_json or key_separator):
        fail("--key cannot be combined with --json or --key-separator: remove them", MISUSED)
    try:
        ending = unescaped(delimiter)
    except ValueError as error:
        fail(error, MISUSED)
    if not ending:
        fail("--delimiter is empty: expected the text that ends a record", MISUSED)
    shape = _Shape(
        key=None if key is None else key.encode(),
        separator=None if key_separator is None else key_separator.encode(),
        null=None if null is None else null.encode(),
        headers=headers,
    )
    records: Iterator[NewRecord]
    if whole_files:
        records = (shape.record(_content(path)) for path in files or ())
    else:
        lines = _lines(files or (), ending)
        records = _json_records(lines, headers) if as_json else shape.records(lines)
    failures: list[Exception] = []

    def delivered(delivery: Delivery) -> None:
        error = delivery.exception()
        if error is not None:
            failures.append(error)

    sent = 0
    with clear_errors(), Producer(settings) as producer:
        wanted = {name: value for name, value in settings.items() if name in ADMIN}
        with Admin({**wanted, "default.api.timeout.ms": settings["max.block.ms"]}) as admin:
            require_topic(admin, topic, partitions=partitions or (-1 if create else None), advice=_ADVICE)
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


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        fail(f"cannot read {path}: {error.strerror}")


def _lines(files: Iterable[Path], ending: bytes) -> Iterator[bytes]:
    paths = list(files)
    if not paths:
        yield from _split(sys.stdin.buffer, ending)
    for path in paths:
        try:
            with path.open("rb") as stream:
                yield from _split(stream, ending)
        except OSError as error:
            fail(f"cannot read {path}: {error.strerror}")


def _split(stream: BinaryIO, ending: bytes) -> Iterator[bytes]:
    """The parts between delimiters; the part after the last one is dropped when empty."""
    if ending == b"\n":
        yield from (line.removesuffix(b"\n") for line in stream)
        return
    rest = b""
    while chunk := stream.read1(READ_BYTES) if hasattr(stream, "read1") else stream.read(READ_BYTES):
        *whole, rest = (rest + chunk).split(ending)
        yield from whole
    if rest:
        yield rest


@dataclass(frozen=True, slots=True)
class _Shape:
    """Turns a part of the input into a record."""

    key: bytes | None
    separator: bytes | None
    null: bytes | None
    headers: tuple[Header, ...]

    def records(self, lines: Iterable[bytes]) -> Iterator[NewRecord]:
        for number, line in enumerate(lines, start=1):
            if not self.separator:
                yield self.record(line)
                continue
            key, found, value = line.partition(self.separator)
            if not found:
                text = self.separator.decode()
                fail(f"line {number} has no {text!r} between key and value: {line[:60]!r}", MISUSED)
            yield NewRecord(self._or_null(value), self._or_null(key), self.headers)

    def record(self, value: bytes) -> NewRecord:
        return NewRecord(self._or_null(value), self.key, self.headers)

    def _or_null(self, content: bytes) -> bytes | None:
        return None if content == self.null else content


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
