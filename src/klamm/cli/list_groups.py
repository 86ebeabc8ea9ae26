"""`klamm groups list`: every group with its members, its lag and its verdict."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from time import sleep
from typing import Annotated, Any

import typer

from klamm.cli.cluster import (
    DEFAULT_BOOTSTRAP,
    DEFAULT_TIMEOUT,
    AsJson,
    Bootstrap,
    Timeout,
    an_admin,
    print_json,
    print_table,
)
from klamm.cli.failures import MISUSED, fail
from klamm.cli.output import echo
from klamm.cli.survey import survey
from klamm.client.admin.model import ListedGroup
from klamm.groups.diagnosis.finding import Diagnosis
from klamm.groups.diagnosis.members import unread_for_ms
from klamm.groups.diagnosis.progress import rates
from klamm.groups.diagnosis.words import duration, rate
from klamm.groups.lag import TotalLag, total_lag
from klamm.groups.snapshot import GroupSnapshot

COLUMNS = ("group", "state", "type", "members", "lag", "oldest unread", "commits", "verdict")
CLEAR = "\x1b[2J\x1b[H"  # the whole terminal, cursor to its first line


def list_groups(
    state: Annotated[
        list[str] | None,
        typer.Option("--state", help="List only groups in this state, as in Stable or Empty; repeatable."),
    ] = None,
    watch: Annotated[
        float | None,
        typer.Option(
            "--watch",
            metavar="SECONDS",
            help="List them again after every so many seconds, until Ctrl-C; default: list them once.",
        ),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """List the groups of the whole cluster: members, lag, how long the oldest record waits, verdict.

    \b
      klamm groups list
      klamm groups list --state Empty --json
      klamm groups list --watch 5
    """
    if watch is not None and watch <= 0:
        fail("--watch must be above 0", MISUSED)
    while True:
        with an_admin(bootstrap, timeout) as admin:
            listed = admin.list_groups(states=state or ())
        names = [item.group_id for item in listed]
        found = survey(bootstrap, timeout, names) if names else None
        looked = {} if found is None else {each.group_id: (each, it) for each, it in found.groups}
        if as_json:
            print_json([_as_json(item, looked.get(item.group_id)) for item in listed])
        else:
            if watch is not None and sys.stdout.isatty():
                sys.stdout.write(CLEAR)
            _print(listed, looked, is_filtered=bool(state))
        if watch is None:
            return
        sleep(watch)


_Looked = tuple[GroupSnapshot, Diagnosis]


def _print(listed: Sequence[ListedGroup], looked: dict[str, _Looked], *, is_filtered: bool) -> None:
    if not listed:
        echo("No groups" + (" in this state." if is_filtered else "."))
    else:
        print_table(COLUMNS, [_row(item, looked.get(item.group_id)) for item in listed])


def _total(group: GroupSnapshot) -> TotalLag:
    is_complete = not group.is_rebalancing and not group.hidden_topics
    return total_lag([each.row for each in group.partitions], is_complete=is_complete)


def _row(item: ListedGroup, found: _Looked | None) -> tuple[object, ...]:
    kind = item.group_type if item.protocol_type in ("", "consumer") else item.protocol_type
    if found is None:  # gone since, or of a kind that is described in another way
        return (item.group_id, item.state, kind, "?", "?", "?", "?", "not known")
    group, diagnosis = found
    total, age_ms, speed = _total(group), unread_for_ms(group), rates(group)
    lag = "-" if not total.counted else f"{total.known}+" if total.lag is None else total.lag
    return (
        item.group_id,
        group.state,
        kind,
        len(group.members),
        lag,
        "-" if age_ms is None else duration(age_ms),
        "-" if speed is None else rate(speed.committed, 1),
        diagnosis.verdict.verdict.value,
    )


def _as_json(item: ListedGroup, found: _Looked | None) -> dict[str, Any]:
    listed = {
        "group": item.group_id,
        "state": item.state,
        "protocol_type": item.protocol_type,
        "type": item.group_type,
    }
    if found is None:
        unknown = ("members", "lag", "known_lag", "oldest_unread_ms", "committed_per_s", "verdict")
        return {**listed, **dict.fromkeys(unknown)}
    group, diagnosis = found
    total, speed = _total(group), rates(group)
    return {
        **listed,
        "members": len(group.members),
        "lag": total.lag,
        "known_lag": total.known,
        "oldest_unread_ms": unread_for_ms(group),
        "committed_per_s": None if speed is None else round(speed.committed * 1000, 3),
        "verdict": diagnosis.verdict.verdict.value,
    }
