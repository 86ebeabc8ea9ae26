"""How far a query is behind, from its progress: Spark takes no metrics from sources in Python."""

from __future__ import annotations

import json
from typing import Any, TypeAlias

# By topic and partition, as Spark's reports have them.
ReportedOffsets: TypeAlias = dict[tuple[str, str], int]


def offsets_behind_latest(progress: Any) -> list[dict[str, float | None]]:
    """For each source of a progress, what the official connector has in `metrics`, under its names.

    `progress` is `query.lastProgress`, or the one of a listener's event. None is what is not known: the
    source has not looked yet, or is not one of klamm.
    """
    tree = progress if isinstance(progress, dict) else json.loads(progress.json)
    return [_behind(source) for source in tree["sources"]]


def _behind(source: dict[str, Any]) -> dict[str, float | None]:
    latest, end = offsets_of(source.get("latestOffset")), offsets_of(source.get("endOffset"))
    behind = [max(0, offset - end[key]) for key, offset in latest.items() if key in end]
    known = behind if behind and len(behind) == len(latest) else None
    return {
        "minOffsetsBehindLatest": min(known) if known else None,
        "maxOffsetsBehindLatest": max(known) if known else None,
        "avgOffsetsBehindLatest": sum(known) / len(known) if known else None,
    }


def offsets_of(offset: Any) -> ReportedOffsets:
    """The offsets of one place in a report."""
    return {
        (topic, number): value
        for topic, partitions in offset_tree(offset).items()
        if not topic.startswith("$") and isinstance(partitions, dict)
        for number, value in partitions.items()
    }


def offset_tree(offset: Any) -> dict[str, Any]:
    """Offsets are JSON as text or as objects."""
    try:
        tree = json.loads(offset) if isinstance(offset, str) else offset
    except ValueError:
        return {}
    return tree if isinstance(tree, dict) else {}
