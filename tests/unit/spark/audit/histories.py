"""The commit history of rows of `offset_commits`, row by row: the reference for the one by columns."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

Row = dict[str, Any]


def history_of(commits: Iterable[Row]) -> list[Row]:
    """By key in the order in which keys first counted, then by log offset."""
    found: dict[tuple[str, str, int], list[Row]] = {}
    for row in sorted(commits, key=lambda each: each["log_offset"]):
        if row["txn"] not in ("none", "committed") or row["is_tombstone"]:
            continue
        rows = found.setdefault((row["group_id"], row["topic"], row["partition"]), [])
        before = rows[-1] if rows else {"committed_offset": None, "commit_ts": None}
        offset, at = row["committed_offset"], row["commit_ts"]
        prev_offset, prev_at = before["committed_offset"], before["commit_ts"]
        rows.append(
            {
                "group_id": row["group_id"],
                "topic": row["topic"],
                "partition": row["partition"],
                "prev_offset": prev_offset,
                "committed_offset": offset,
                "delta": None if prev_offset is None else offset - prev_offset,
                "prev_commit_ts": prev_at,
                "commit_ts": at,
                "gap_ms": None if None in (at, prev_at) else round((at - prev_at).total_seconds() * 1000),
                "is_rewind": None if prev_offset is None else offset < prev_offset,
            }
        )
    return [row for rows in found.values() for row in rows]
