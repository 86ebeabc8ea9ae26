"""`klamm ctl wait`: return when a group, a topic, the story or a fault of a broker is as a test wants it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from klamm.cli.cluster import AsJson, print_json
from klamm.cli.control_port import Control, Timeout, ask, path_of
from klamm.cli.failures import MISUSED, fail
from klamm.cli.output import echo_lines

app = typer.Typer(
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Wait until a group, a topic, the story or a fault is as wanted; exit code 1 if it is not in time.",
)
_TIMEOUT = 30.0
_GRACE_S = 5.0  # for the response itself


def lag_in_words(group: Mapping[str, Any]) -> str:
    """The lag of a group as the control port tells it."""
    return "lag not known" if group["total_lag"] is None else f"lag {group['total_lag']}"


@app.command()
def group(
    group_id: Annotated[str, typer.Argument(metavar="GROUP", help="The id of the group.")],
    state: Annotated[
        str | None,
        typer.Option(
            help="Wait for this state: Stable, Empty, PreparingRebalance, CompletingRebalance or Dead; "
            "default: any."
        ),
    ] = None,
    members: Annotated[
        int | None, typer.Option(min=0, help="Wait for this number of members; default: any.")
    ] = None,
    member: Annotated[
        list[str] | None,
        typer.Option(
            help="Wait for a member with this client.id, and no others than those named; repeatable."
        ),
    ] = None,
    lag: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Wait until the lag of all partitions together is at most this many records; default: any.",
        ),
    ] = None,
    control: Control = "",
    timeout: Timeout = _TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Wait for a group: its state, its members, its lag.

    \b
      klamm ctl wait group billing --state Stable --members 2
      klamm ctl wait group billing --member anna --member bert
      klamm ctl wait group billing --lag 0
    """
    if members is not None and member:
        fail("expected --members or --member", MISUSED)
    body = {"state": state, "members": member or members, "lag": lag}
    answer = _wait(control, timeout, path_of("groups", group_id), body)
    names = ", ".join(each["name"] for each in answer["members"]) or "none"
    text = f"group {group_id}: {answer['state']}, members: {names}, {lag_in_words(answer)}"
    _print(answer, text, as_json)


@app.command()
def topic(
    name: Annotated[str, typer.Argument(metavar="TOPIC", help="The name of the topic.")],
    records: Annotated[int, typer.Option(min=0, help="Wait for at least this many records.")] = 1,
    uncommitted: Annotated[
        bool, typer.Option("--uncommitted", help="Count records of open and aborted transactions, too.")
    ] = False,
    control: Control = "",
    timeout: Timeout = _TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Wait for records in a topic.

    \b
      klamm ctl wait topic orders --records 10
    """
    body = {"records": records, "committed": not uncommitted}
    answer = _wait(control, timeout, path_of("topics", name), body)
    _print(answer, f"topic {name}: {len(answer['records'])} records", as_json)


@app.command()
def event(
    text: Annotated[
        str, typer.Argument(metavar="TEXT", help="A part of the line that the event has in the story.")
    ],
    group_id: Annotated[
        str | None, typer.Option("--group", help="Look only at the story of this group.")
    ] = None,
    transactional_id: Annotated[
        str | None, typer.Option(help="Look only at the story of this transactional id.")
    ] = None,
    control: Control = "",
    timeout: Timeout = _TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Wait for an event of the story; prints the lines that have the text.

    \b
      klamm ctl wait event "session timeout" --group billing
      klamm ctl wait event "injected fault"
    """
    path = "/story"
    if group_id is not None:
        path = path_of("groups", group_id, "story")
    elif transactional_id is not None:
        path = path_of("transactions", transactional_id, "story")
    answer = _wait(control, timeout, path, {"event": text})
    _print(answer, "\n".join(line for line in answer["story"].splitlines() if text in line), as_json)


@app.command()
def fault(
    number: Annotated[int, typer.Argument(metavar="ID", min=1, help="The id of the fault.")],
    count: Annotated[
        int, typer.Option(min=0, help="Wait until it has happened at least this many times.")
    ] = 1,
    control: Control = "",
    timeout: Timeout = _TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Wait until a fault has happened.

    \b
      klamm ctl wait fault 1 --count 2
    """
    answer = _wait(control, timeout, f"/faults/{number}", {"count": count})
    _print(answer, f"fault {number}: happened {answer['count']} times", as_json)


def _wait(control: str, timeout: float, path: str, body: dict[str, Any]) -> Any:
    wanted = {name: value for name, value in body.items() if value is not None}
    wanted["timeout"] = f"{timeout:g}s" if timeout.is_integer() else f"{round(timeout * 1000)}ms"
    return ask(control, timeout + _GRACE_S, "POST", f"{path}/wait-until", wanted)


def _print(answer: Any, text: str, as_json: bool) -> None:
    if as_json:
        print_json(answer)
    else:
        echo_lines(text)
