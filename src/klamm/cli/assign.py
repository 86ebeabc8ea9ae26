"""`klamm assign`: what assignors do, side by side, without a broker."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from klamm.assignors.comparing import SERVER_NAMES, Result, Scenario, compare
from klamm.cli.assign_picture import picture
from klamm.cli.cluster import AsJson, pairs, print_json, print_table
from klamm.cli.failures import MISUSED, fail
from klamm.cli.output import echo
from klamm.config import ConfigError

_USUAL = "range,roundrobin,sticky,cooperative-sticky,uniform"
app = typer.Typer(rich_markup_mode=None)


@app.command()
def assign(
    topics: Annotated[
        str, typer.Option("--topics", metavar="TOPIC:PARTITIONS,...", help="The topics, as in t0:2,t1:2.")
    ],
    members: Annotated[
        str, typer.Option("--members", metavar="MEMBER,...", help="The members of the group, as in C0,C1,C2.")
    ],
    subscribe: Annotated[
        list[str] | None,
        typer.Option(
            "--subscribe",
            metavar="MEMBER=TOPIC,...",
            help="The topics of one member, as in C0=t0,t1; repeatable; default: all topics.",
        ),
    ] = None,
    racks: Annotated[
        str | None,
        typer.Option(
            "--racks",
            metavar="MEMBER=RACK,...",
            help="The racks of members; leaders of partitions are in them by turns; default: no racks.",
        ),
    ] = None,
    leave: Annotated[
        str | None,
        typer.Option(
            "--leave",
            metavar="MEMBER,...",
            help="Members that leave the group after its first assignment; default: none.",
        ),
    ] = None,
    join: Annotated[
        str | None,
        typer.Option(
            "--join",
            metavar="MEMBER,...",
            help="Those of --members that join only after the first assignment; default: none.",
        ),
    ] = None,
    comparing: Annotated[
        str,
        typer.Option(
            "--compare",
            metavar="ASSIGNOR,...",
            help="The assignors: names, or package.module:Class; server:range is that of the coordinator.",
        ),
    ] = _USUAL,
    svg: Annotated[
        Path | None,
        typer.Option(
            "--svg", metavar="FILE", help="Write a picture of the result to this file; default: no picture."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare assignors: who gets which partition, and what moves when members leave or join.

    It shows how uneven the result is, too, and needs no broker. Assignors of clients are range, roundrobin,
    sticky, cooperative-sticky, random, rack-leader and broadcast; of the coordinator uniform, rack,
    server:range and server:rack-leader.

    \b
      klamm assign --topics t0:2,t1:2,t2:2,t3:2 --members C0,C1,C2 --leave C1
      klamm assign --topics t0:1,t1:2,t2:3 --members C0,C1,C2 --subscribe C0=t0 --subscribe C1=t0,t1
      klamm assign --topics t:4 --members a,b --racks a=east,b=west --compare range,rack-leader --svg out.svg
    """
    leaving, joining = _listed(leave), _listed(join)
    scenario = _scenario(topics, _listed(members), subscribe or [], racks)
    unknown = [name for name in (*leaving, *joining) if name not in scenario.subscriptions]
    if unknown:
        fail(f"{unknown[0]} is not among the members {', '.join(scenario.subscriptions)}", MISUSED)
    if len(joining) == len(scenario.subscriptions):
        fail("--join names every member: who is there before?", MISUSED)
    try:
        results = compare(_listed(comparing), scenario, leaving, joining)
    except ConfigError as error:
        fail(f"{error}; of the coordinator: {', '.join(SERVER_NAMES)}", MISUSED)
    if svg is not None:
        svg.write_text(picture(results), encoding="utf-8")
    if as_json:
        print_json([_as_json(result) for result in results])
        return
    _print("at first" if leaving or joining else "", results, [result.before for result in results])
    if leaving or joining:
        echo()
        changes = [f"{name} left" for name in leaving] + [f"{name} joined" for name in joining]
        _print(", ".join(changes), results, [result.final for result in results])
    echo()
    columns = ("assignor", "most - least", "moved although the owner stays", "rebalances")
    print_table(columns, [_summary(result) for result in results])


def _listed(text: str | None) -> list[str]:
    return [each.strip() for each in (text or "").split(",") if each.strip()]


def _scenario(topics: str, members: Sequence[str], subscribe: Sequence[str], racks: str | None) -> Scenario:
    counts: dict[str, int] = {}
    for item in _listed(topics):
        name, _, number = item.rpartition(":")
        if not name or not number.isdigit() or not 1 <= int(number) <= 10_000:
            fail(f"invalid topic {item}: expected TOPIC:PARTITIONS, as in t0:2", MISUSED)
        counts[name] = int(number)
    if not counts or not members:
        fail("expected at least one topic and one member", MISUSED)
    chosen = {name: frozenset(_listed(text)) for name, text in pairs(subscribe, "--subscribe").items()}
    rack_of = pairs(_listed(racks), "--racks")
    for name in (*chosen, *rack_of):
        if name not in members:
            fail(f"{name} is not among the members {', '.join(members)}", MISUSED)
    for name, wanted in chosen.items():
        if not wanted <= counts.keys():
            fail(f"{name} subscribes to {min(wanted - counts.keys())}, which --topics does not have", MISUSED)
    every = frozenset(counts)
    return Scenario(
        topics=counts,
        subscriptions={name: chosen.get(name, every) for name in dict.fromkeys(members)},
        racks=rack_of,
    )


def _print(title: str, results: Sequence[Result], shares: Sequence[Any]) -> None:
    if title:
        echo(f"{title}:")
    members = list(dict.fromkeys(member for share in shares for member in share))
    rows = [
        (member, *(" ".join(map(str, share.get(member, ()))) or "-" for share in shares))
        for member in members
    ]
    print_table(("member", *(result.assignor for result in results)), rows)


def _summary(result: Result) -> tuple[object, ...]:
    moved = "-" if result.after is None else f"{len(result.moved)}: {' '.join(map(str, result.moved))}"
    return (
        result.assignor,
        result.unevenness,
        moved.removesuffix(": "),
        "-" if result.after is None else result.rounds,
    )


def _as_json(result: Result) -> dict[str, Any]:
    def named(shares: Any) -> dict[str, list[str]] | None:
        return None if shares is None else {name: list(map(str, held)) for name, held in shares.items()}

    return {
        "assignor": result.assignor,
        "before": named(result.before),
        "after": named(result.after),
        "moved": [str(each) for each in result.moved],
        "unevenness": result.unevenness,
        "rebalances": result.rounds,
    }
