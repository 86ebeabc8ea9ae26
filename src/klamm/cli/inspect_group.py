"""`klamm groups inspect`: the coordinator's memory of a living group."""

from __future__ import annotations

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
from klamm.cli.completion import complete_groups
from klamm.cli.failures import fail
from klamm.cli.output import echo
from klamm.client.diagnosis.coordinators import partition_of
from klamm.client.diagnosis.history import OFFSETS_TOPIC
from klamm.errors import UnsupportedVersionError
from klamm.groups.causes import why
from klamm.groups.diagnosis.words import duration
from klamm.groups.story import clock_time


def inspect(
    group: Annotated[
        str, typer.Argument(metavar="GROUP", help="The id of the group.", autocompletion=complete_groups)
    ],
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Show what the coordinator knows of a living group, as Kafka's GroupMetadata and MemberMetadata have it.

    Its phase and since when, generation, leader, votes per assignor, members with their subscriptions and
    deadlines, who is parked in JoinGroup or SyncGroup, ids that are not used yet, pending offsets. It changes
    nothing. Only klamm's broker shows it.

    \b
      klamm groups inspect billing
      klamm groups inspect billing --json
    """
    with an_admin(bootstrap, timeout) as admin:
        try:
            found = admin.inspect_groups([group]).unwrap()[group]
        except UnsupportedVersionError:
            fail(
                f"{bootstrap} does not show the inside of groups: only klamm's broker does; "
                f"`klamm groups describe {group}` works with any"
            )
        found["log"] = partition_of(admin, OFFSETS_TOPIC, group)
    if as_json:
        print_json(found)
    else:
        _print(found)


def _print(found: dict[str, Any]) -> None:
    echo(f"{found['group']}: {found['type']} group, {found['state']}{_since(found)}")
    echo(f"  coordinator {found['coordinator']}, log {found['log'] or 'not known'}")
    parts = [f"generation {found['generation']}"]
    if "leader" in found:
        votes = ", ".join(f"{name}: {number}" for name, number in found["votes"].items())
        parts += [
            f"leader {found['leader'] or '-'}",
            f"protocol {found['protocol'] or '-'} ({found['protocol_type'] or '-'})",
            f"votes {votes or '-'}",
        ]
    echo("  " + "  ".join(parts))
    _print_rebalance(found)
    for item in found.get("pending_ids", ()):
        echo(f"  id not used yet: {item['member_id']}, {_left(item['left_ms'])}")
    if found.get("members"):
        echo()
        print_table(_MEMBER_COLUMNS, [_member_row(item) for item in found["members"]])
    if found["offsets"]:
        echo()
        print_table(_OFFSET_COLUMNS, [_offset_row(item) for item in found["offsets"]])
    if found["pending_offsets"]:
        echo()
        echo("in transactions that have not ended:")
        columns = ("producer id", "topic", "partition", "offset")
        names = ("producer_id", "topic", "partition", "offset")
        print_table(columns, [tuple(item[name] for name in names) for item in found["pending_offsets"]])


_MEMBER_COLUMNS = (
    "member",
    "instance",
    "host",
    "waits in",
    "for",
    "silent",
    "session ends in",
    "rebalance timeout",
    "offers",
    "topics",
    "assigned",
)
_OFFSET_COLUMNS = ("topic", "partition", "offset", "leader epoch", "committed", "expires", "metadata")


def _since(found: dict[str, Any]) -> str:
    since_ms = found.get("state_since_ms")
    return "" if since_ms is None else f" for {duration(since_ms)}"


def _left(left_ms: int | None) -> str:
    return "no deadline" if left_ms is None else f"{duration(left_ms)} left"


def _print_rebalance(found: dict[str, Any]) -> None:
    rebalance = found.get("rebalance")
    if rebalance is None:
        return
    who = rebalance["member_id"] or "-"
    echo(f"  rebalance for {duration(rebalance['started_ms'])} because {why(rebalance)}: {who}")
    if found["state"] == "PreparingRebalance":
        echo(f"  joined {found['awaiting_join']} of {len(found['members'])}, {_left(rebalance['left_ms'])}")
    else:
        late = ", ".join(found["awaiting_sync"]) or "nobody"
        echo(f"  SyncGroup not received from {late}, {_left(rebalance['left_ms'])}")
    delay = found.get("initial_delay")
    if delay is not None:
        more = duration(delay["may_be_extended_by_ms"])
        echo(f"  initial delay: {_left(delay['left_ms'])}, may be extended by {more}")


def _member_row(item: dict[str, Any]) -> tuple[object, ...]:
    def time(name: str) -> str:
        return "-" if item[name] is None else duration(item[name])

    offered = item["protocols"]
    topics = offered[0].get("topics") if offered else None
    return (
        item["member_id"] + (" (leader)" if item["is_leader"] else ""),
        item["instance_id"] or "-",
        item["client_host"],
        item["parked"] or "-",
        time("parked_ms"),
        time("silent_ms"),
        time("session_left_ms"),
        time("rebalance_timeout_ms"),
        ",".join(each["name"] for each in offered),
        "-" if topics is None else ",".join(topics),
        "-" if item["assignment"] is None else " ".join(item["assignment"]) or "nothing",
    )


def _offset_row(item: dict[str, Any]) -> tuple[object, ...]:
    expires_ms = item["expire_timestamp_ms"]
    return (
        item["topic"],
        item["partition"],
        item["offset"],
        item["leader_epoch"],
        clock_time(item["commit_timestamp_ms"]),
        "-" if expires_ms is None else clock_time(expires_ms),
        item["metadata"] or "-",
    )
