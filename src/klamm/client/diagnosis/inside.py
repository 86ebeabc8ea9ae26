"""What klamm's coordinators show of living groups, as far as a diagnosis needs it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Final

from klamm.client.admin.admin import Admin
from klamm.client.admin.results import Results
from klamm.errors import UnsupportedVersionError
from klamm.groups.causes import why
from klamm.groups.snapshot import RebalanceUnderWay
from klamm.protocol.types import TopicPartition


@dataclass(frozen=True, slots=True)
class Inside:
    """Of one group."""

    members: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # fields of MemberSnapshot, by id
    rebalance: RebalanceUnderWay | None = None
    empty_since_ms: int | None = None
    committed_at_ms: Mapping[tuple[TopicPartition, int | None], int] = field(default_factory=dict)


UNKNOWN: Final = Inside()
_OF_MEMBER: Final = ("has_joined", "has_synced", "silent_ms", "session_timeout_ms", "give_up_left_ms")


def ask_inside(admin: Admin, group_ids: Sequence[str]) -> Future[Results[str, dict[str, Any]]] | None:
    """Ask the coordinators, and do something else meanwhile."""
    return admin._operations.inspect_groups(group_ids, raise_errors=False) if group_ids else None


def inside_of(asked: Future[Results[str, dict[str, Any]]] | None) -> dict[str, Inside]:
    """The inside of the groups whose coordinators show it: klamm's do, where DESCRIBE is allowed."""
    if asked is None:
        return {}
    try:
        found = asked.result()
    except UnsupportedVersionError:
        return {}
    return {group_id: _inside(content) for group_id, content in found.successes.items()}


def _inside(content: Mapping[str, Any]) -> Inside:
    members = content.get("members", ())
    return Inside(
        {member["member_id"]: {name: member.get(name) for name in _OF_MEMBER} for member in members},
        _rebalance(content),
        content.get("state_timestamp_ms") if content["state"] == "Empty" else None,
        {
            (TopicPartition(item["topic"], item["partition"]), item["offset"]): item["commit_timestamp_ms"]
            for item in content["offsets"]
        },
    )


def _rebalance(content: Mapping[str, Any]) -> RebalanceUnderWay | None:
    found = content.get("rebalance")
    if found is None:
        return None
    who = found["client_id"] or found["member_id"]
    return RebalanceUnderWay(
        started_ms=found["started_ms"],
        left_ms=found["left_ms"],
        cause=f"{why(found)} ({who})" if who else why(found),
        leader_id=content.get("leader"),
    )
