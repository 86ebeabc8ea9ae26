"""Rows of the audit with the causes of `klamm.groups.causes`: recorded ones, else inferred ones."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from klamm.groups.causes import RecordedCauses, inferred_cause
from klamm.spark.decode.record_tables import Row


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


def explained(rebalance: Row, recorded: RecordedCauses) -> Row:
    """A row of `rebalances` with its cause."""
    event = recorded.of(rebalance["group_id"], rebalance["to_generation"], rebalance["at"] // 1000)
    if event is None:
        nothing = dict.fromkeys(("caused_by", "reason", "duration_ms", "moved_count"))
        return {**rebalance, **nothing, "cause": inferred_cause(rebalance), "is_inferred": True}
    joined_ms = event["join_phase_ms"]
    return {
        **rebalance,
        "cause": event["cause"] or inferred_cause(rebalance),
        "is_inferred": False,
        "caused_by": event["client_id"],
        "reason": event["reason"],
        "duration_ms": None if joined_ms is None else joined_ms + (event["sync_phase_ms"] or 0),
        "moved_count": event["moved_count"],
    }
