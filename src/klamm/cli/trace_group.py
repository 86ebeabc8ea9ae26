"""`klamm groups trace`: the requests of a group as they come in."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from enum import StrEnum
from time import monotonic, sleep
from typing import Annotated, Any

import typer

from klamm.cli.cluster import DEFAULT_BOOTSTRAP, DEFAULT_TIMEOUT, Bootstrap, Timeout, an_admin
from klamm.cli.completion import complete_groups
from klamm.cli.failures import MISUSED, fail
from klamm.cli.output import echo, echo_lines
from klamm.client.admin.admin import Admin
from klamm.errors import UnsupportedVersionError
from klamm.groups.sequence import Actors, Diagram, Entry, mermaid, text_lines
from klamm.groups.story import clock_time
from klamm.printable import printable_json

_INTERVAL_S = 0.3
_HEARTBEATS = ("Heartbeat", "ConsumerGroupHeartbeat")


class Shape(StrEnum):
    """How a trace is printed."""

    DIAGRAM = "diagram"
    TEXT = "text"
    JSON = "json"
    MERMAID = "mermaid"


def trace(
    group: Annotated[
        str, typer.Argument(metavar="GROUP", help="The id of the group.", autocompletion=complete_groups)
    ],
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Print what comes, until Ctrl-C, not after --for SECONDS.")
    ] = False,
    seconds: Annotated[
        float,
        typer.Option("--for", metavar="SECONDS", help="Watch for so many seconds, then print what was seen."),
    ] = 10.0,
    shape: Annotated[
        Shape,
        typer.Option(
            "--as",
            help="How it is printed: diagram, text (a line per entry), json (an object per line) or mermaid.",
        ),
    ] = Shape.DIAGRAM,
    quiet: Annotated[
        bool, typer.Option("--no-heartbeats", help="Leave out heartbeats that are answered without an error.")
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Show the requests of a group and their answers, in order, as a sequence diagram.

    FindCoordinator, JoinGroup with its refusal MEMBER_ID_REQUIRED, SyncGroup, Heartbeat, LeaveGroup,
    ConsumerGroupHeartbeat and commits: each with its answer, its time, and how it changed the group's state.
    The coordinator notes them for this group only, and from when this command begins. FindCoordinator is seen
    where the coordinator's own broker is asked. Only klamm's broker does it.

    \b
      klamm groups trace billing --follow
      klamm groups trace billing --follow --as text --no-heartbeats
      klamm groups trace billing --for 30 --as mermaid > billing.mmd
    """
    if seconds <= 0:
        fail("--for must be above 0", MISUSED)
    if follow and shape is Shape.MERMAID:
        fail("a Mermaid diagram is printed as a whole: use --for SECONDS in place of --follow", MISUSED)
    actors = Actors()
    with an_admin(bootstrap, timeout) as admin:
        batches = _batches(admin, bootstrap, group, timeout, None if follow else monotonic() + seconds)
        if not follow:
            batches = iter([[entry for batch in batches for entry in batch]])
        diagram = Diagram(actors, _short)
        for batch in batches:
            actors.learn(batch)
            _print(_wanted(batch, quiet=quiet), shape, actors, diagram)


def _batches(
    admin: Admin, bootstrap: str, group: str, timeout: float, until_s: float | None
) -> Iterator[list[Entry]]:
    """What was seen, as it comes; the first call switches the trace on."""
    after = -1
    while True:
        admin._operations.end_after(timeout)  # each look has this time, not all together
        try:
            found: dict[str, Any] = admin._operations._trace_groups([group], after=after).result()[group]
        except UnsupportedVersionError:
            fail(f"{bootstrap} does not trace groups: only klamm's broker does")
        if after < 0:
            echo(f"tracing {group} ({found['state']}) at broker {found['coordinator']}", err=True)
        elif found["lost"]:
            echo(f"{found['lost']} entries are lost: there were too many at once", err=True)
        after = found["after"]
        yield found["entries"]
        if until_s is not None and monotonic() >= until_s:
            return
        sleep(_INTERVAL_S if until_s is None else max(0.0, min(_INTERVAL_S, until_s - monotonic())))


def _wanted(entries: Sequence[Entry], *, quiet: bool) -> list[Entry]:
    """Without heartbeats, but for those that are answered with an error, if nobody wants to see them."""
    if not quiet:
        return list(entries)
    failed = {entry["exchange"] for entry in entries if entry.get("error", "NONE") != "NONE"}
    return [
        entry
        for entry in entries
        if entry["kind"] == "event" or entry["api"] not in _HEARTBEATS or entry["exchange"] in failed
    ]


def _print(entries: list[Entry], shape: Shape, actors: Actors, diagram: Diagram) -> None:
    match shape:
        case Shape.JSON:
            for entry in entries:
                echo_lines(printable_json(json.dumps(entry, ensure_ascii=False)))
        case Shape.MERMAID:
            echo_lines(mermaid(entries, actors).rstrip("\n"))
        case Shape.TEXT:
            for line in text_lines(entries, actors, _short):
                echo(line)
        case Shape.DIAGRAM:
            for line in diagram.lines(entries):
                echo(line)


def _short(timestamp_ms: int) -> str:
    """The time of day, in UTC."""
    return clock_time(timestamp_ms).partition(" ")[2]
