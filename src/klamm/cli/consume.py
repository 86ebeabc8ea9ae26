"""`klamm consume`: records as they come, a line each."""

from __future__ import annotations

import os
import sys
from time import monotonic
from typing import Annotated

import typer

from klamm.cli.cluster import DEFAULT_BOOTSTRAP, DEFAULT_TIMEOUT, Bootstrap, clear_errors, pairs
from klamm.cli.failures import FAILED, MISUSED, fail
from klamm.cli.record_json import to_line
from klamm.client.consumer.consumer import Consumer
from klamm.client.consumer.records import ConsumerRecord
from klamm.protocol.types import TopicPartition

app = typer.Typer(rich_markup_mode=None)


@app.command()
def consume(
    topics: Annotated[list[str], typer.Argument(metavar="TOPIC...", help="What to read.")],
    from_beginning: Annotated[
        bool, typer.Option("--from-beginning", help="Where nothing is committed: from the first record on.")
    ] = False,
    offset: Annotated[
        int | None,
        typer.Option("--offset", "-o", help="From this offset on; -5: from the fifth before the end."),
    ] = None,
    partition: Annotated[
        list[int] | None, typer.Option("--partition", "-p", min=0, help="Only this partition; repeatable.")
    ] = None,
    group: Annotated[
        str | None, typer.Option("--group", "-g", help="Share the partitions with a group, and commit.")
    ] = None,
    max_messages: Annotated[
        int | None, typer.Option("--max-messages", "-n", min=1, help="Stop after so many.")
    ] = None,
    timeout: Annotated[
        float | None,
        typer.Option("--timeout", metavar="SECONDS", help="Stop when nothing has come for so long."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="A line of JSON per record.")] = False,
    keys: Annotated[bool, typer.Option("--keys", help="Key, a tab, value.")] = False,
    committed: Annotated[
        bool, typer.Option("--committed", help="Nothing of open or aborted transactions.")
    ] = False,
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Any other setting of the consumer."),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Print records as they come, until Ctrl-C.

    \b
      klamm consume orders --from-beginning
      klamm consume orders --partition 0 --offset -10 --max-messages 10 --json
      klamm consume orders payments --group audit
    """
    if group is not None and (partition or offset is not None):
        fail("--group gives out partitions and offsets itself: leave out --partition and --offset", MISUSED)
    settings = {
        "bootstrap.servers": bootstrap,
        "auto.offset.reset": "earliest" if from_beginning else "latest",
        "isolation.level": "read_committed" if committed else "read_uncommitted",
        "allow.auto.create.topics": False,
        **pairs(setting or [], "--set"),
    }
    if group is not None:
        settings["group.id"] = group
    try:
        with clear_errors(), Consumer(config=settings) as consumer:
            if group is not None:
                consumer.subscribe(topics)
            else:
                _assign(consumer, topics, partition, offset)
            _print_all(consumer, max_messages, timeout, as_json=as_json, keys=keys)
    except KeyboardInterrupt:
        raise typer.Exit(0) from None
    except BrokenPipeError:
        # The reader has had enough. Python would complain about standard output once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _assign(consumer: Consumer, topics: list[str], numbers: list[int] | None, offset: int | None) -> None:
    found: list[TopicPartition] = []
    for topic in topics:
        there = consumer.partitions_for(topic, timeout=DEFAULT_TIMEOUT)
        if not there:
            fail(f"there is no topic {topic}", FAILED)
        missing = sorted(set(numbers or ()) - {item.partition for item in there})
        if missing:
            fail(f"{topic} has partitions 0 to {len(there) - 1}, no {missing[0]}", FAILED)
        found += [item for item in there if not numbers or item.partition in numbers]
    consumer.assign(found)
    if offset is None:
        return
    if offset >= 0:
        for item in found:
            consumer.seek(item, offset)
        return
    ends, begins = consumer.end_offsets(found), consumer.beginning_offsets(found)
    for item in found:
        consumer.seek(item, max(begins[item], ends[item] + offset))


def _print_all(
    consumer: Consumer, max_messages: int | None, timeout: float | None, *, as_json: bool, keys: bool
) -> None:
    left = max_messages
    heard_at = monotonic()
    out = sys.stdout
    while left is None or left > 0:
        patience = None if timeout is None else max(0.0, heard_at + timeout - monotonic())
        records = consumer.poll(patience, max_records=left)
        for record in records:
            out.write((to_line(record) if as_json else _text(record, keys)) + "\n")
        out.flush()
        if records:
            heard_at = monotonic()
        elif patience == 0:
            return
        if left is not None:
            left -= len(records)


def _text(record: ConsumerRecord, has_key: bool) -> str:
    value = _readable(record.value)
    return f"{_readable(record.key)}\t{value}" if has_key else value


def _readable(content: bytes | None) -> str:
    return "" if content is None else content.decode(errors="backslashreplace")
