"""`klamm ctl faults`: order faults, list them, lift them."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from klamm.cli.cluster import AsJson, print_json, print_table
from klamm.cli.control_port import DEFAULT_TIMEOUT, Control, Timeout, ask
from klamm.cli.failures import MISUSED, fail

app = typer.Typer(
    rich_markup_mode=None, no_args_is_help=True, help="Order faults of a broker, list them, lift them."
)
_FACTS = ("id", "fault", "api", "count", "is_over")  # columns of their own


@app.command()
def add(
    kind: Annotated[
        str,
        typer.Argument(
            metavar="FAULT", help="What happens: fail, delay, drop, lose, cut, hang, fill_disk or fail_fsync."
        ),
    ],
    api: Annotated[
        str | None,
        typer.Argument(
            metavar="API",
            help="The API whose requests are hit, as in Produce or OffsetCommit; default: every API.",
        ),
    ] = None,
    error: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The error code that `fail` answers with, as in NOT_COORDINATOR; only for `fail`.",
        ),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="How much later `delay` does the work, as in 10s or 250ms; only for `delay`.",
        ),
    ] = None,
    when: Annotated[
        str | None,
        typer.Option(
            metavar="before|after",
            help="Whether `drop` closes the connection before or after the work; default: before.",
        ),
    ] = None,
    version: Annotated[int | None, typer.Option(help="Hit only requests of this version of the API.")] = None,
    topic: Annotated[
        str | None,
        typer.Option(help="Hit only requests that name this topic; for faults of the disk: only its files."),
    ] = None,
    partition: Annotated[
        int | None, typer.Option(help="Hit only requests that name this partition; needs --topic.")
    ] = None,
    client_id: Annotated[str | None, typer.Option(help="Hit only requests of this client.id.")] = None,
    group: Annotated[str | None, typer.Option(help="Hit only requests about this group.")] = None,
    transactional_id: Annotated[
        str | None, typer.Option(help="Hit only requests about this transactional id.")
    ] = None,
    times: Annotated[
        int | None, typer.Option(help="How many times it happens; default: until it is lifted.")
    ] = None,
    probability: Annotated[
        float | None,
        typer.Option(help="The share of requests that are hit, from 0 to 1; default: 1, every request."),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            help="With --probability: the seed of the choice, so that a test can repeat it; default: 0."
        ),
    ] = None,
    control: Control = "",
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Order a fault. Prints its id, for `klamm ctl faults lift`.

    \b
      fail        answer with --error; the work is not done
      delay       do the work later, --by a duration on the broker's clock
      drop        close the connection --when before or after the work
      lose        do the work, send no answer
      cut         do the work, send half of the answer, close the connection
      hang        read nothing more from the connection until the fault is lifted
      fill_disk   writes to disk fail, of all partitions or of those of a topic; needs --memory
      fail_fsync  flushes to disk fail, in the same way; needs --memory

    \b
      klamm ctl faults add fail OffsetCommit --group billing --error NOT_COORDINATOR --times 2
      klamm ctl faults add delay Fetch --topic orders --by 10s
      klamm ctl faults add drop Produce --client-id web --when after --probability 0.1 --seed 7
      klamm ctl faults add fail_fsync --topic __consumer_offsets --times 1
    """
    given = {
        "fault": kind, "api": api, "error": error, "by": by, "when": when, "version": version, "topic": topic,
        "partition": partition, "client_id": client_id, "group": group, "transactional_id": transactional_id,
        "times": times, "probability": probability, "seed": seed,
    }  # fmt: skip
    order = {name: value for name, value in given.items() if value is not None}
    _print([ask(control, timeout, "POST", "/faults", order)], as_json)


@app.command(name="list")
def list_faults(control: Control = "", timeout: Timeout = DEFAULT_TIMEOUT, as_json: AsJson = False) -> None:
    """List the faults that were ordered, and how often each has happened."""
    _print(ask(control, timeout, "GET", "/faults")["faults"], as_json)


@app.command()
def lift(
    ids: Annotated[
        list[int] | None,
        typer.Argument(
            metavar="ID...", help="Ids of faults, as `klamm ctl faults add` and `list` print them."
        ),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Lift all faults.")] = False,
    control: Control = "",
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """End faults. Requests that a fault keeps waiting go on."""
    if every == bool(ids):
        fail("expected the ids of faults, or --all", MISUSED)
    if every:
        lifted = ask(control, timeout, "DELETE", "/faults")["faults"]
    else:
        lifted = [ask(control, timeout, "DELETE", f"/faults/{number}") for number in ids or ()]
    _print(lifted, as_json)


def _print(faults: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        print_json(faults)
        return
    print_table(
        ("id", "fault", "api", "details", "count", "state"),
        [
            (
                each["id"],
                each["fault"],
                each.get("api", "-"),
                " ".join(f"{name}={value}" for name, value in each.items() if name not in _FACTS) or "-",
                each["count"],
                "over" if each["is_over"] else "in force",
            )
            for each in faults
        ],
    )
