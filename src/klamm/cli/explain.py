"""`klamm groups explain`: why did my group rebalance?"""

from __future__ import annotations

import textwrap
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
    require_group,
)
from klamm.cli.completion import complete_groups
from klamm.cli.diagnose import print_finding
from klamm.cli.failures import fail
from klamm.cli.output import echo, echo_lines
from klamm.cli.reading import a_reader
from klamm.cli.reconciling import under_way
from klamm.cli.survey import survey
from klamm.client.admin.offsets import EARLIEST
from klamm.client.diagnosis.reading import EVENTS_TOPIC, events_since
from klamm.clock import SystemClock
from klamm.groups.diagnosis.finding import Finding, GroupVerdict
from klamm.groups.diagnosis.storm import root_cause
from klamm.groups.story import clock_time, story_entries, summary, without_repeats

WIDTH: Final = 110


def explain(
    group: Annotated[
        str,
        typer.Argument(
            metavar="GROUP",
            help="The id of the group.",
            autocompletion=complete_groups,
        ),
    ],
    last: Annotated[int, typer.Option("--last", help="Print only this many events; 0 for all.")] = 50,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Explain why a group rebalanced: which member caused it, how long it took, which partitions moved.

    Of a consumer group: each epoch with its cause, changes of its protocol, who holds it up now and since
    when, and which partitions wait for whom.

    Reads the topic __klamm_events, which only klamm's broker writes.

    \b
      klamm groups explain billing
      klamm groups explain billing --last 10 --json
    """
    events = [event for event in read_events(bootstrap, timeout) if event.get("group_id") == group]
    story = story_entries(events) if as_json else without_repeats(story_entries(events))
    shown = story[-last:] if last > 0 else story
    if not story:
        with an_admin(bootstrap, timeout) as admin:
            require_group(admin, group)
    if as_json:
        print_json([dict(entry.event) for entry in shown])
        return
    if not story:
        echo(f"No events recorded for group {group}.")
        return
    echo(f"{group}: {summary(events)}")
    now = _now(bootstrap, timeout, group)
    root = root_cause(sorted(events, key=lambda event: int(event["timestamp_ms"])))
    if now:
        for finding in now:
            echo()
            print_finding(finding)
    elif root is not None:
        _print_paragraph(f"Root cause: {root.text} ({root.who}). {root.cure}".rstrip())
    _print_reconciling(bootstrap, timeout, group, events)
    echo()
    if len(shown) < len(story):
        echo(f"The last {len(shown)} of {len(story)} events; --last 0 shows all.")
        echo()
    for entry in shown:
        when = clock_time(entry.timestamp_ms)
        _print_paragraph(f"{when}  {entry.text}", " " * (len(when) + 2))


def _print_paragraph(text: str, indent: str = "") -> None:
    lines = textwrap.fill(
        text,
        WIDTH,
        subsequent_indent=indent,
        break_on_hyphens=False,  # member ids contain hyphens, and are copied from here
        break_long_words=False,
    )
    echo_lines(lines)


# What explains the last rebalances better than the event that began most of them.
_DEEPER: Final = frozenset({GroupVerdict.REBALANCING, GroupVerdict.REDELIVERED})


def _now(bootstrap: str, timeout: float, group: str) -> list[Finding]:
    """The rebalance that is not over, and the record that ends its readers, if there are such."""
    found = [diagnosis for _, diagnosis in survey(bootstrap, timeout, [group]).groups]
    findings = [each for diagnosis in found for each in diagnosis.findings]
    return [each for each in findings if each.verdict in _DEEPER]


def _print_reconciling(bootstrap: str, timeout: float, group: str, events: list[dict[str, Any]]) -> None:
    """Who holds up a consumer group, and who waits for what, if anybody does."""
    with an_admin(bootstrap, timeout) as admin:
        found = admin.describe_groups([group], raise_errors=False).successes.get(group)
    lines = [] if found is None else under_way(found, events, SystemClock().timestamp_ms())
    if lines:
        echo()
        echo("Under way:")
        for line in lines:
            echo(f"  {line}")


def read_events(bootstrap: str, timeout: float) -> list[dict[str, Any]]:
    """All recorded events; the command ends where there are none."""
    with an_admin(bootstrap, timeout) as admin, a_reader(bootstrap) as reader:
        events = events_since(admin, reader, EARLIEST, timeout)
    if events is None:
        fail(f"{bootstrap} shows no events: it has no topic {EVENTS_TOPIC}, or this user may not read it")
    return events
