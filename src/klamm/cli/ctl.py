"""`klamm ctl`: move the time of a broker for tests, order faults, and look at what happened."""

from __future__ import annotations

import os
from typing import Annotated, Any

import typer

from klamm.cli import ctl_faults, ctl_wait
from klamm.cli.cluster import AsJson, print_json, print_table
from klamm.cli.control_port import DEFAULT_TIMEOUT, Control, Timeout, ask, path_of
from klamm.cli.failures import MISUSED, fail
from klamm.cli.output import echo, echo_lines
from klamm.durations import nanoseconds
from klamm.groups.story import clock_time

app = typer.Typer(
    rich_markup_mode=None,
    no_args_is_help=True,
    help="""Control a broker that was started with `klamm up --control`, for tests.

\b
  klamm up --memory --listen 127.0.0.1:9092 --control 127.0.0.1:9093 --clock virtual
  export KLAMM_CONTROL=127.0.0.1:9093
  klamm ctl clock advance 2h
  klamm ctl faults add fail OffsetCommit --group billing --error NOT_COORDINATOR --times 2
  klamm ctl wait group billing --lag 0
  klamm ctl story billing

A port with a token needs it in KLAMM_CONTROL_TOKEN. One with TLS, --control https://HOST:PORT, needs the
file of its CA in KLAMM_CONTROL_CA, unless the system trusts it.

Programs use the same port over HTTP, with JSON: docs/testing-other-languages.md.
""",
)
clock_app = typer.Typer(
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Show the broker's time, move it, stop it, or change its rate. Needs `klamm up --clock virtual`.",
)
app.add_typer(clock_app, name="clock")
app.add_typer(ctl_faults.app, name="faults")
app.add_typer(ctl_wait.app, name="wait")


@app.callback()
def ctl(control: Control = "") -> None:
    # Subcommands take their default from this variable; their own --control takes precedence.
    if control:
        os.environ["KLAMM_CONTROL"] = control


def _print_clock(answer: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(answer)
        return
    rate = "stopped" if answer["rate"] == 0 else f"rate {answer['rate']:g}"
    echo(f"{clock_time(answer['timestamp_ms'])} UTC  {answer['clock']}  {rate}")


@clock_app.command()
def show(control: Control = "", timeout: Timeout = DEFAULT_TIMEOUT, as_json: AsJson = False) -> None:
    """Show the time of the broker, and how fast it runs."""
    _print_clock(ask(control, timeout, "GET", "/clock"), as_json)


@clock_app.command()
def advance(
    duration: Annotated[
        str,
        typer.Argument(metavar="DURATION", help="How far to move the time, as in 2h, 1h30m, 250ms or 7d."),
    ],
    control: Control = "",
    timeout: Timeout = 600.0,
    as_json: AsJson = False,
) -> None:
    """Move the time forward. Sessions, retention, transactions and so on end on the way, in order.

    Returns when the broker has nothing left to do. What is due on the way takes real time.

    \b
      klamm ctl clock advance 45s      a member without heartbeats is removed from its group
      klamm ctl clock advance 7d       what retention.ms=604800000 covers is deleted
    """
    try:
        nanoseconds(duration)
    except ValueError as error:
        fail(error, MISUSED)
    _print_clock(ask(control, timeout, "POST", "/clock/advance", {"by": duration}), as_json)


@clock_app.command()
def freeze(control: Control = "", timeout: Timeout = DEFAULT_TIMEOUT, as_json: AsJson = False) -> None:
    """Stop the time. It then moves only by `klamm ctl clock advance`.

    A client that waits for records is not answered before there are some, or the clock moves.
    """
    _print_clock(ask(control, timeout, "POST", "/clock/freeze"), as_json)


@clock_app.command()
def run(control: Control = "", timeout: Timeout = DEFAULT_TIMEOUT, as_json: AsJson = False) -> None:
    """Let the time run as usual again, from where it is."""
    _print_clock(ask(control, timeout, "POST", "/clock/run"), as_json)


@clock_app.command()
def rate(
    factor: Annotated[
        float,
        typer.Argument(
            metavar="RATE",
            min=0,
            max=1_000_000,
            help="How many times faster than real time it runs: with 60, a minute passes each second.",
        ),
    ],
    control: Control = "",
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Let the time run faster or slower than real time."""
    _print_clock(ask(control, timeout, "POST", "/clock/run", {"rate": factor}), as_json)


@app.command()
def story(
    name: Annotated[
        str | None, typer.Argument(metavar="GROUP", help="A group or transactional id; default: all of them.")
    ] = None,
    times: Annotated[bool, typer.Option("--times", help="Begin each line with its time.")] = False,
    control: Control = "",
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Print what happened to a group: rebalances, fencings and faults, with causes; one line for each."""
    path = "/story" if name is None else path_of("groups", name, "story")
    answer = ask(control, timeout, "GET", f"{path}?times={str(times).lower()}")
    if as_json:
        print_json(answer)
    else:
        echo_lines(answer["story"] or "No events recorded.")


@app.command()
def records(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The name of the topic.")],
    uncommitted: Annotated[
        bool, typer.Option("--uncommitted", help="Print records of open and aborted transactions, too.")
    ] = False,
    control: Control = "",
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Print all records of a topic, by timestamp."""
    answer = ask(
        control,
        timeout,
        "GET",
        f"{path_of('topics', topic, 'records')}?committed={str(not uncommitted).lower()}",
    )
    if not answer["exists"]:
        fail(f"topic {topic} does not exist")
    if as_json:
        print_json(answer["records"])
        return
    print_table(
        ("partition", "offset", "time", "key", "value"),
        [
            (
                each["partition"],
                each["offset"],
                clock_time(each["timestamp_ms"]),
                _content(each, "key"),
                _content(each, "value"),
            )
            for each in answer["records"]
        ],
    )


def _content(record: dict[str, Any], name: str) -> str:
    if f"{name}_base64" in record:
        return f"base64:{record[f'{name}_base64']}"
    return "-" if record[name] is None else str(record[name])


@app.command()
def group(
    group_id: Annotated[str, typer.Argument(metavar="GROUP", help="The id of the group.")],
    control: Control = "",
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Print the state of a group, its members with their partitions, and its lag."""
    answer = ask(control, timeout, "GET", path_of("groups", group_id))
    if answer["state"] == "Dead":
        fail(f"group {group_id} does not exist")
    if as_json:
        print_json(answer)
        return
    echo(f"group {group_id}: {answer['state']}, {ctl_wait.lag_in_words(answer)}")
    print_table(
        ("member", "partitions"),
        [
            (each["name"], " ".join(f"{at['topic']}-{at['partition']}" for at in each["assignment"]) or "-")
            for each in answer["members"]
        ],
    )
    columns = ("topic", "partition", "committed", "lag")
    print_table(columns, [[each[name] for name in columns] for each in answer["offsets"]])


def _end(control: str, timeout: float, how: str) -> None:
    answer = ask(control, timeout, "POST", f"/broker/{how}")
    echo(f"{answer['bootstrap']} is {'up' if answer['is_running'] else 'down'}")


@app.command()
def kill(control: Control = "", timeout: Timeout = DEFAULT_TIMEOUT) -> None:
    """End a broker in memory as kill -9 does; its process and the control port stay. See restart."""
    _end(control, timeout, "kill")


@app.command(name="cut-power")
def cut_power(control: Control = "", timeout: Timeout = DEFAULT_TIMEOUT) -> None:
    """End a broker in memory as a power failure does: writes that were not flushed may be lost."""
    _end(control, timeout, "cut-power")


@app.command()
def restart(control: Control = "", timeout: Timeout = 60.0) -> None:
    """Start the broker again at the same address, with what is on its disk. Faults are lifted."""
    _end(control, timeout, "restart")
