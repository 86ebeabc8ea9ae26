"""Why groups rebalanced: as the broker wrote it down, else as the members before and after suggest."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from klamm.spark.decode.record_tables import Row

# An event this far from a rebalance with the same generation is of an earlier group with the same name.
NEAR_MS: Final = 300_000
EXPLAINING: Final = ("rebalance_completed", "group_emptied")


def event_row(value: bytes | None, columns: Sequence[str], numbers: frozenset[str]) -> Row:
    """A record of the topic of events as a row; what cannot be read is null."""
    try:
        found = json.loads(value or b"null")
    except ValueError:
        found = None
    if not isinstance(found, dict):
        return dict.fromkeys(columns)
    return {name: _fitting(found.get(name), name in numbers) for name in columns}


def _fitting(value: Any, is_number: bool) -> Any:
    if is_number:
        return value if type(value) is int and abs(value) < 1 << 63 else None
    return value if isinstance(value, str) else None


class Causes:
    """Events of some groups, to be found by rebalance."""

    def __init__(self, events: Iterable[Row]) -> None:
        self._events: dict[tuple[str, int], list[Row]] = {}
        for event in events:
            if event["type"] in EXPLAINING and event["timestamp_ms"] is not None:
                key = (event["group_id"], event["generation_after"])
                self._events.setdefault(key, []).append(event)

    def explained(self, rebalance: Row) -> Row:
        """A row of `rebalances` with its cause."""
        at_ms = rebalance["at"] // 1000
        near = [
            event
            for event in self._events.get((rebalance["group_id"], rebalance["to_generation"]), ())
            if abs(event["timestamp_ms"] - at_ms) < NEAR_MS
        ]
        event = min(near, key=lambda each: abs(each["timestamp_ms"] - at_ms), default=None)
        if event is None:
            nothing = dict.fromkeys(("caused_by", "reason", "duration_ms", "moved_count"))
            return {**rebalance, **nothing, "cause": inferred(rebalance), "is_inferred": True}
        joined_ms = event["join_phase_ms"]
        return {
            **rebalance,
            "cause": event["cause"] or inferred(rebalance),
            "is_inferred": False,
            "caused_by": event["client_id"],
            "reason": event["reason"],
            "duration_ms": None if joined_ms is None else joined_ms + (event["sync_phase_ms"] or 0),
            "moved_count": event["moved_count"],
        }


def inferred(rebalance: Mapping[str, Any]) -> str:
    """What the members before and after say."""
    reasons = (
        (rebalance["members_after"] == 0, "the last member left"),
        (rebalance["members_before"] == 0, "the first member joined"),
        (rebalance["is_gap"], "several rebalances in a row"),
        (rebalance["joined"] and rebalance["left"], "members joined and left"),
        (rebalance["joined"], "a member joined"),
        (rebalance["left"], "a member left or its session expired"),
        (rebalance["subscriptions_changed"], "a subscription changed"),
        (rebalance["protocol_changed"], "the assignor changed"),
        (rebalance["group_type"] == "consumer", "topics or partitions changed"),
    )
    return next((text for is_it, text in reasons if is_it), "a member rejoined")
