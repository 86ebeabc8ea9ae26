"""`klamm groups explain`: why did my group rebalance?"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable
from typing import Annotated, Any, Final

import typer

from klamm.cli.cluster import (
    DEFAULT_BOOTSTRAP,
    DEFAULT_TIMEOUT,
    AsJson,
    Bootstrap,
    Timeout,
    an_admin,
    clear_errors,
    print_json,
)
from klamm.cli.completion import complete_groups
from klamm.cli.failures import fail
from klamm.cli.story import chapters, clock_time, summary, told_once
from klamm.client.admin.offsets import EARLIEST, LATEST
from klamm.client.consumer.consumer import Consumer
from klamm.protocol.types import TopicPartition

EVENTS_TOPIC: Final = "__klamm_events"
WIDTH: Final = 110


def explain(
    group: Annotated[
        str,
        typer.Argument(
            metavar="GROUP",
            help="Id of the group.",
            autocompletion=complete_groups,
        ),
    ],
    last: Annotated[int, typer.Option("--last", help="Print only this many events; 0 for all.")] = 50,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Explain why a group rebalanced: which member caused it, how long it took, which partitions moved.

    Reads the topic __klamm_events, which only klamm's broker writes.

    \b
      klamm groups explain billing
      klamm groups explain billing --last 10 --json
    """
    events = [event for event in read_events(bootstrap, timeout) if event.get("group_id") == group]
    story = chapters(events) if as_json else told_once(chapters(events))
    shown = story[-last:] if last > 0 else story
    if as_json:
        print_json([dict(chapter.event) for chapter in shown])
        return
    if not story:
        typer.echo(f"No events recorded for group {group}.")
        return
    typer.echo(f"{group}: {summary(events)}\n")
    if len(shown) < len(story):
        typer.echo(f"The last {len(shown)} of {len(story)} events; --last 0 shows all.\n")
    for chapter in shown:
        when = clock_time(chapter.timestamp_ms)
        lines = textwrap.fill(
            f"{when}  {chapter.text}",
            WIDTH,
            subsequent_indent=" " * (len(when) + 2),
            break_on_hyphens=False,  # member ids contain hyphens, and are copied from here
            break_long_words=False,
        )
        typer.echo(lines)


def read_events(bootstrap: str, timeout: float) -> list[dict[str, Any]]:
    """All recorded events."""
    with an_admin(bootstrap, timeout) as admin:
        topic = admin.describe_topics([EVENTS_TOPIC], raise_errors=False).successes.get(EVENTS_TOPIC)
        if topic is None:
            fail(f"{bootstrap} has recorded no events (no topic {EVENTS_TOPIC})")
        partitions = [TopicPartition(EVENTS_TOPIC, item.partition) for item in topic.partitions]
        starts = admin.list_offsets(dict.fromkeys(partitions, EARLIEST)).unwrap()
        ends = admin.list_offsets(dict.fromkeys(partitions, LATEST)).unwrap()
    left = {key: ends[key].offset for key in partitions if ends[key].offset > starts[key].offset}
    events: list[dict[str, Any]] = []
    if not left:
        return events
    with (
        clear_errors(),
        Consumer({"bootstrap.servers": bootstrap, "auto.offset.reset": "earliest"}) as consumer,
    ):
        consumer.assign(list(left))
        while any((at := _positions(consumer, left))[key] < end for key, end in left.items()):
            records = consumer.poll(timeout)
            if not records and _positions(consumer, left) == at:
                fail(f"{bootstrap} gave no events for {timeout:g} s; --timeout SECONDS waits longer")
            events += [json.loads(record.value) for record in records if record.value is not None]
    return events


def _positions(consumer: Consumer, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    return {partition: consumer.position(partition) for partition in partitions}
