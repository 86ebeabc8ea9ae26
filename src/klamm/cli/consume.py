"""`klamm consume`: print records."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping
from time import monotonic
from typing import Annotated, Any

import typer

from klamm.cli.cluster import DEFAULT_BOOTSTRAP, DEFAULT_TIMEOUT, Bootstrap, an_admin, clear_errors, pairs
from klamm.cli.completion import complete_topics
from klamm.cli.failures import FAILED, MISUSED, fail
from klamm.cli.profiles import profile_settings
from klamm.cli.record_format import FORMAT_HELP, KAFKA, Render, columns, formatted, json_line, unescaped
from klamm.cli.start_points import StartPoint, parse_start, seek_all
from klamm.client.consumer.consumer import Consumer, MarkerReader
from klamm.clock import SystemClock
from klamm.errors import RecordDeserializationError
from klamm.printable import printable_lines
from klamm.protocol.types import TopicPartition

app = typer.Typer(rich_markup_mode=None)
DELIMITER = "\\n"


@app.command()
def consume(
    topics: Annotated[
        list[str],
        typer.Argument(
            metavar="TOPIC...",
            help="Topics, or ^PATTERN for all whose name matches.",
            autocompletion=complete_topics,
        ),
    ],
    from_beginning: Annotated[
        bool, typer.Option("--from-beginning", help="Start at the first record where no offset is committed.")
    ] = False,
    offset: Annotated[
        str | None,
        typer.Option(
            "--offset",
            "-o",
            help="Where to start: beginning, end, an offset, -5 (the fifth before the end), or @TIME; "
            "default: end.",
        ),
    ] = None,
    partition: Annotated[
        list[int] | None, typer.Option("--partition", "-p", min=0, help="Only this partition; repeatable.")
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(
            "--group",
            "-g",
            help="Join this consumer group and commit offsets; default: read without a group.",
        ),
    ] = None,
    exit_at_end: Annotated[
        bool,
        typer.Option(
            "--exit", "-e", help="Stop at the ends that the partitions had when the command started."
        ),
    ] = False,
    max_messages: Annotated[
        int | None,
        typer.Option(
            "--max-messages",
            "-n",
            "-c",
            min=1,
            help="Stop after this many records; default: go on until Ctrl-C.",
        ),
    ] = None,
    timeout: Annotated[
        float | None,
        typer.Option(
            "--timeout",
            metavar="SECONDS",
            help="Stop after this many seconds without a record; default: never.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", "-J", help="Print a line of JSON per record.")] = False,
    decode: Annotated[
        bool,
        typer.Option(
            "--decode",
            help="Print records of __consumer_offsets and __transaction_state decoded, and their markers.",
        ),
    ] = False,
    text_format: Annotated[
        str | None,
        typer.Option(
            "--format",
            "-f",
            metavar="FORMAT",
            help=f"{FORMAT_HELP}; \\n, \\t, \\xHH; or kafka: as Kafka's formatters of internal topics; "
            "default: the value.",
        ),
    ] = None,
    keys: Annotated[bool, typer.Option("--keys", help="Print the key and a tab before the value.")] = False,
    headers: Annotated[
        bool, typer.Option("--headers", help="Print the headers and a tab before key and value.")
    ] = False,
    timestamps: Annotated[
        bool,
        typer.Option("--timestamps", help="Print the timestamp in milliseconds and a tab at the beginning."),
    ] = False,
    delimiter: Annotated[
        str, typer.Option("--delimiter", "-D", metavar="TEXT", help="What is printed after each record.")
    ] = DELIMITER,
    null: Annotated[
        str,
        typer.Option(
            "--null",
            metavar="TEXT",
            help="The text that is printed for a key or value of null; default: nothing.",
        ),
    ] = "",
    committed: Annotated[
        bool, typer.Option("--committed", help="Skip records of open and aborted transactions.")
    ] = False,
    schema_registry: Annotated[
        str | None,
        typer.Option(
            "--schema-registry",
            metavar="URL",
            envvar="KLAMM_SCHEMA_REGISTRY",
            help="Print values of Avro, JSON Schema and Protobuf as JSON, with the schemas of the registry "
            "at this URL; default: byte for byte.",
        ),
    ] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", "-X", metavar="NAME=VALUE", help="A setting of the consumer; repeatable."),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Print records as they arrive, until Ctrl-C. Values are printed byte for byte.

    \b
      klamm consume orders --from-beginning --exit
      klamm consume orders --partition 0 --offset -10 --max-messages 10 --json
      klamm consume orders --offset @PT1H --format '%T %k %s\\n'
      klamm consume '^orders\\..*' --group audit
      klamm consume __consumer_offsets --decode
      klamm consume __transaction_state --from-beginning --exit --format kafka
    """
    if group is not None and (partition or offset is not None):
        fail("--group cannot be combined with --partition or --offset: remove them", MISUSED)
    if from_beginning and offset is not None:
        fail("--from-beginning cannot be combined with --offset: remove one of them", MISUSED)
    columns_only = {
        "--keys": keys,
        "--headers": headers,
        "--timestamps": timestamps,
        "--delimiter": delimiter != DELIMITER,
    }
    _refuse_without_effect(as_json, decode, text_format, columns_only, has_null=bool(null))
    try:
        start = None if offset is None else parse_start(offset, SystemClock())
        render: Render = json_line
        reader = MarkerReader if decode else Consumer
        if decode or text_format == KAFKA:
            render = _of_internal_topics(topics, as_kafka=text_format == KAFKA)
        elif text_format is not None and not as_json:
            render = formatted(text_format, null.encode())
        elif not as_json:
            render = columns(
                timestamps=timestamps,
                headers=headers,
                keys=keys,
                null=null.encode(),
                delimiter=unescaped(delimiter),
            )
    except ValueError as error:
        fail(error, MISUSED)
    settings: dict[str, Any] = {
        **profile_settings(),
        "bootstrap.servers": bootstrap,
        "auto.offset.reset": "earliest" if from_beginning else "latest",
        "isolation.level": "read_committed" if committed else "read_uncommitted",
        "allow.auto.create.topics": False,
        **pairs(setting or [], "--set"),
    }
    if group is not None:
        settings["group.id"] = group
    if schema_registry is not None:
        settings["value.deserializer"] = _json_of(schema_registry)
    try:
        with clear_errors(but=RecordDeserializationError), reader(settings) as consumer:
            names = _existing(bootstrap, topics, DEFAULT_TIMEOUT if timeout is None else timeout)
            if group is not None:
                _subscribe(consumer, topics, names)
            else:
                _assign(consumer, names, partition, start)
            reading = _Reading(consumer, render, is_in_group=group is not None, exit_at_end=exit_at_end)
            reading.run(max_messages, timeout)
    except RecordDeserializationError as error:
        fail(f"record {error.offset} of {error.partition} cannot be read with its schema: {error.__cause__}")
    except KeyboardInterrupt:
        raise typer.Exit(0) from None
    except BrokenPipeError:
        # The reader closed the pipe. Python would report it once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _refuse_without_effect(
    as_json: bool, decode: bool, text_format: str | None, columns_only: Mapping[str, bool], *, has_null: bool
) -> None:
    """End the command if an option would change nothing of what is printed."""
    chosen = (
        "--format" if text_format is not None else "--decode" if decode else "--json" if as_json else None
    )
    if chosen is None:
        return
    others = [name for name, is_given in columns_only.items() if is_given]
    if text_format is not None:
        others += [name for name, is_given in (("--json", as_json), ("--decode", decode)) if is_given]
    if has_null and text_format in (None, KAFKA):
        others.append("--null")
    if others:
        fail(f"{chosen} cannot be combined with {', '.join(others)}: remove one or the other", MISUSED)


def _of_internal_topics(topics: list[str], *, as_kafka: bool) -> Render:
    from klamm.cli import decoded_records  # noqa: PLC0415 - few read these topics

    others = [topic for topic in topics if topic not in decoded_records.INTERNAL]
    if others:
        internal = " and ".join(decoded_records.INTERNAL)
        fail(f"{others[0]} cannot be decoded: --decode and --format kafka are for {internal}", MISUSED)
    return decoded_records.as_kafka if as_kafka else decoded_records.decoded


def _json_of(url: str) -> Callable[[bytes | None], bytes | None]:
    from klamm.schemas.printing import JsonOfSchema  # noqa: PLC0415 - few topics have schemas
    from klamm.schemas.registry_client import SchemaRegistry  # noqa: PLC0415 - as above

    try:
        return JsonOfSchema(SchemaRegistry(url))
    except ValueError as error:
        fail(error, MISUSED)


def _existing(bootstrap: str, topics: list[str], timeout: float) -> list[str]:
    """The topics that are named or match, so that a typo or an unreachable broker is an error at once."""
    plain = [name for name in topics if not name.startswith("^")]
    patterns = [re.compile(name) for name in topics if name.startswith("^")]
    with an_admin(bootstrap, timeout) as admin:
        there = admin.describe_topics(None if patterns else plain, raise_errors=False)
    missing = [name for name in plain if name not in there or name in there.errors]
    if missing:
        fail(f"unknown topic {missing[0]}: see `klamm topics list`", FAILED)
    matched = [
        name for name in there if name not in plain and any(pattern.search(name) for pattern in patterns)
    ]
    if patterns and not matched and not plain:
        fail(f"no topic matches {topics[0]}: see `klamm topics list`", FAILED)
    return [*plain, *sorted(matched)]


def _subscribe(consumer: Consumer, topics: list[str], names: list[str]) -> None:
    if any(name.startswith("^") for name in topics):
        alternatives = "|".join(re.escape(name) if not name.startswith("^") else name for name in topics)
        consumer.subscribe(pattern=f"(?:{alternatives})")
    else:
        consumer.subscribe(names)


def _assign(
    consumer: Consumer, topics: list[str], numbers: list[int] | None, start: StartPoint | None
) -> None:
    found: list[TopicPartition] = []
    for topic in topics:
        there = consumer.partitions_for(topic, timeout=DEFAULT_TIMEOUT)
        missing = sorted(set(numbers or ()) - {item.partition for item in there})
        if missing:
            fail(f"{topic} has partitions 0 to {len(there) - 1}, no {missing[0]}", FAILED)
        found += [item for item in there if not numbers or item.partition in numbers]
    consumer.assign(found)
    if start is not None:
        seek_all(consumer, found, start)


def _on_terminal(render: Render) -> Render:
    return lambda record: printable_lines(render(record).decode(errors="backslashreplace")).encode()


class _Reading:
    """Reads and prints until a limit is reached."""

    def __init__(self, consumer: Consumer, render: Render, *, is_in_group: bool, exit_at_end: bool) -> None:
        self._consumer = consumer
        # What a record has must not control the terminal; programs get it byte for byte.
        self._render = _on_terminal(render) if sys.stdout.isatty() else render
        self._is_in_group = is_in_group
        self._exit_at_end = exit_at_end
        self._ends: dict[TopicPartition, int] = {}  # where each partition ended when it was assigned
        self._out: Any = sys.stdout.buffer

    def run(self, max_messages: int | None, timeout: float | None) -> None:
        left = max_messages
        quiet_since = monotonic()
        while left is None or left > 0:
            has_joined = self._has_joined()
            if not has_joined:
                quiet_since = monotonic()  # time spent in a rebalance does not count
            elif self._exit_at_end and self._is_at_end():
                return
            patience = 1.0 if timeout is None else min(1.0, max(0.0, quiet_since + timeout - monotonic()))
            records = self._consumer.poll(patience, max_records=left)
            for record in records:
                self._out.write(self._render(record))
            self._out.flush()
            if records:
                quiet_since = monotonic()
                left = None if left is None else left - len(records)
            elif timeout is not None and has_joined and monotonic() - quiet_since >= timeout:
                problem = self._consumer.health().last_error
                if problem is not None:
                    fail(f"no record for {timeout:g} s: {problem}")
                return

    def _has_joined(self) -> bool:
        if not self._is_in_group:
            return True
        health = self._consumer.health()
        return health.member_state == "stable" and not health.without_position

    def _is_at_end(self) -> bool:
        assigned = self._consumer.assignment()
        new = [partition for partition in assigned if partition not in self._ends]
        if new:
            self._ends |= self._consumer.end_offsets(new)
        return all(self._consumer.position(partition) >= self._ends[partition] for partition in assigned)
