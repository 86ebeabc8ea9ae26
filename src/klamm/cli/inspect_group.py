"""`klamm groups inspect`: the coordinator's memory of a living group."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from klamm.cli import inside
from klamm.cli.cluster import (
    DEFAULT_BOOTSTRAP,
    DEFAULT_TIMEOUT,
    AsJson,
    Bootstrap,
    Timeout,
    print_table,
)
from klamm.cli.completion import complete_groups
from klamm.cli.output import echo
from klamm.client.diagnosis.history import OFFSETS_TOPIC
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
    deadlines, who is parked in JoinGroup or SyncGroup, ids that are not used yet, pending offsets. Of a
    consumer group (KIP-848) its epochs, and what each member has, still has to give up and gets, and until
    when. It changes nothing. Only klamm's broker shows it.

    \b
      klamm groups inspect billing
      klamm groups inspect billing --json
    """
    inside.inspect(_GROUPS, group, bootstrap, timeout, as_json=as_json)


def _print(found: dict[str, Any]) -> None:
    echo(f"{found['group']}: {found['type']} group, {found['state']}{_since(found)}")
    inside.echo_coordinator(found)
    parts = [f"generation {found['generation']}"]
    if "target_epoch" in found:
        parts = _epochs(found)
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
        if "target_epoch" in found:
            print_table(_CONSUMER_COLUMNS, [_consumer_row(item) for item in found["members"]])
        else:
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
_CONSUMER_COLUMNS = (
    "member",
    "instance",
    "host",
    "protocol",
    "epoch",
    "silent",
    "session ends in",
    "rebalance timeout",
    "topics",
    "assigned",
    "to give up",
    "to get",
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


def _epochs(found: dict[str, Any]) -> list[str]:
    """Of a consumer group."""
    parts = [f"epoch {found['epoch']}", f"target of epoch {found['target_epoch']}"]
    if found["is_computing"]:
        parts.append("its target is being computed")
    elif found["epoch"] > found["target_epoch"]:
        parts.append("a target is computed with the next heartbeat")
    return [*parts, f"assignor {found['assignor']}"]


def _consumer_row(item: dict[str, Any]) -> tuple[object, ...]:
    """The last columns are empty when it has what it should have."""
    gives = " ".join(item["to_give_up"])
    for name, what in (("give_up", "given up"), ("rejoin", "to join again"), ("sync", "to sync")):
        if (deadline_ms := item[f"{name}_left_ms"]) is not None:
            gives += f" ({what} within {duration(deadline_ms)})"
    awaited = [f"{each['partition']} (of {each['owner'] or 'nobody'})" for each in item["to_get"]]
    return (
        item["member_id"] + (" (away)" if item["is_away"] else ""),
        item["instance_id"] or "-",
        item["client_host"],
        item["protocol"],
        item["epoch"],
        _time(item, "silent_ms"),
        _time(item, "session_left_ms"),
        _time(item, "rebalance_timeout_ms"),
        ",".join([*item["topics"], *([f"/{item['regex']}/"] if item["regex"] else [])]) or "-",
        " ".join(item["assigned"]) or "nothing",
        gives.strip() or "-",
        " ".join(awaited) or "-",
    )


def _time(item: dict[str, Any], name: str) -> str:
    return "-" if item[name] is None or item[name] < 0 else duration(item[name])


def _member_row(item: dict[str, Any]) -> tuple[object, ...]:
    offered = item["protocols"]
    topics = offered[0].get("topics") if offered else None
    return (
        item["member_id"] + (" (leader)" if item["is_leader"] else ""),
        item["instance_id"] or "-",
        item["client_host"],
        item["parked"] or "-",
        _time(item, "parked_ms"),
        _time(item, "silent_ms"),
        _time(item, "session_left_ms"),
        _time(item, "rebalance_timeout_ms"),
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


_GROUPS = inside.InsideOf(
    "groups",
    OFFSETS_TOPIC,
    lambda admin, key: admin.inspect_groups([key], raise_errors=False),
    "klamm groups describe",
    _print,
)
