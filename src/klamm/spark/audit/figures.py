"""The figures of a report, out of the tables that an audit has written. Times are milliseconds."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from klamm.client.admin.offsets import LATEST
from klamm.protocol.types import TopicPartition
from klamm.spark.audit.tables import Audit, list_offsets
from klamm.spark.decode.outcomes import COMMITTED, NAMES, NONE

BUCKETS: Final = 60
MAX_CHARTED_GROUPS: Final = 12
MAX_GROUPS: Final = 500
MAX_REBALANCES: Final = 5_000
MAX_STICKINESS: Final = 1_000
MAX_TRANSACTIONS: Final = 200
MAX_LAG_PARTITIONS: Final = 1_000  # computed for each instant of the chart
LONG_TRANSACTION_MS: Final = 60_000
SOON_MS: Final = 86_400_000  # groups that expire before are counted
COUNTING: Final = pa.array([NAMES[NONE], NAMES[COMMITTED]])
_ENCODED: Final = ["group_id", "topic", "txn"]

Figures = dict[str, Any]
Row = dict[str, Any]


def figures(audit: Audit) -> Figures:
    """Everything that the report shows. The audit must have written its tables."""
    assert audit.folder is not None, "call Audit.write() first"
    tables = _Tables(audit.folder)
    as_of_ms = round(audit.as_of.timestamp() * 1000)
    from_ms = tables.first_ms("offset_commits", "group_registrations", "transactions")
    if from_ms is None:
        from_ms = as_of_ms - 60_000
    width_ms = max(1, -(-(as_of_ms - from_ms) // BUCKETS))
    starts = [from_ms + number * width_ms for number in range(BUCKETS)]
    rebalances = tables.rows("rebalances")
    all_groups = _groups(tables, rebalances)
    groups = all_groups[:MAX_GROUPS]
    spans = tables.rows("transaction_spans")
    charted = [group["id"] for group in groups[:MAX_CHARTED_GROUPS]]
    commits = _Commits(charted, from_ms, width_ms)
    for batch in tables.batches("offset_commits", _Commits.COLUMNS):
        commits.add(batch)
    return {
        "cluster": audit.bootstrap_servers,
        "as_of": as_of_ms,
        "from": from_ms,
        "width": width_ms,
        "starts": starts,
        "exact": audit.has_events,
        "retention": audit.retention_ms,
        "stuck_after": audit.stuck_ms,
        "totals": {
            **_totals(audit, tables, commits, rebalances),
            **_standing(all_groups, as_of_ms),
            "transactions": len(spans),
            "late_transactions": sum(map(_is_late, spans)),
        },
        "groups": groups,
        "charted": charted,
        "rebalances": _rebalances(rebalances),
        "stickiness": _stickiness(tables, charted),
        "rates": commits.rates(),
        "lag": _lag_over_time(audit, charted, commits, [start + width_ms for start in starts]),
        "transactions": _transactions(spans),
        "long_transaction": LONG_TRANSACTION_MS,
        "soon": SOON_MS,
    }


class _Tables:
    """The tables in a folder, read without Spark: what is counted here takes it longer to plan."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def _files(self, name: str) -> list[Path]:
        return sorted((self._folder / name).glob("*.parquet"))

    def batches(self, name: str, columns: list[str]) -> Iterator[Any]:
        for path in self._files(name):
            encoded = [column for column in columns if column in _ENCODED]
            with pq.ParquetFile(path, read_dictionary=encoded) as file:
                yield from file.iter_batches(1 << 18, columns=columns)

    def rows(self, name: str) -> list[Row]:
        """All rows of a table that is not large."""
        return [row for path in self._files(name) for row in pq.read_table(path).to_pylist()]

    def counted(self, name: str, column: str) -> dict[str, int]:
        """How many rows each value of a column has."""
        found: dict[str, int] = {}
        for batch in self.batches(name, [column]):
            for item in pc.value_counts(batch.column(column).cast(pa.string())).to_pylist():
                value = str(item["values"])
                found[value] = found.get(value, 0) + item["counts"]
        return found

    def count(self, name: str) -> int:
        return sum(pq.read_metadata(path).num_rows for path in self._files(name))

    def first_ms(self, *names: str) -> int | None:
        """The time of the oldest record in these tables, as their files state it."""
        found: list[int] = []
        for path in (path for name in names for path in self._files(name)):
            metadata = pq.read_metadata(path)
            column = metadata.schema.names.index("log_timestamp")
            for group in range(metadata.num_row_groups):
                statistics = metadata.row_group(group).column(column).statistics
                first = None if statistics is None else _ms(statistics.min)
                if first is not None and first > 0:
                    found.append(first)
        return min(found, default=None)


def _ms(instant: datetime | None) -> int | None:
    return None if instant is None else round(instant.timestamp() * 1000)


def _totals(audit: Audit, tables: _Tables, commits: _Commits, rebalances: list[Row]) -> Figures:
    causes: dict[str, int] = {}
    for row in rebalances:
        causes[row["cause"]] = causes.get(row["cause"], 0) + 1
    undecoded = tables.counted("undecoded", "reason")
    return {
        "records": audit.record_count,
        "events": audit.event_count,
        "commits": sum(commits.by_outcome.values()),
        "commits_by_txn": commits.by_outcome,
        "registrations": tables.count("group_registrations"),
        "tombstones": tables.counted("tombstones", "record_type"),
        "undecoded": undecoded | tables.counted("undecoded_transactions", "reason"),
        "rebalances": len(rebalances),
        "causes": causes,
    }


def _standing(groups: list[Figures], as_of_ms: int) -> Figures:
    """Counted over all groups: the report lists the first ones only."""
    return {
        "groups": len(groups),
        "lag": sum(group["lag"] or 0 for group in groups),
        "stuck": sum(group["stuck"] for group in groups),
        "expiring": sum(
            group["expires"] is not None and group["expires"] - as_of_ms < SOON_MS for group in groups
        ),
    }


def _groups(tables: _Tables, rebalances: list[Row]) -> list[Figures]:
    """Stuck ones first, then by how much they do."""
    counts: dict[str, int] = {}
    for row in rebalances:
        counts[row["group_id"]] = counts.get(row["group_id"], 0) + 1

    def order(row: Row) -> tuple[bool, int, str]:
        busy = counts.get(row["group_id"], 0) * 50 + (row["commit_count"] or 0)
        return not row["is_stuck"], -busy, row["group_id"]

    return [
        {
            "id": row["group_id"],
            "members": row["member_count"],
            "generation": row["generation"],
            "partitions": row["partition_count"],
            "lag": row["lag"],
            "commits": row["commit_count"] or 0,
            "rebalances": counts.get(row["group_id"], 0),
            "last_commit": _ms(row["last_commit_ts"]),
            "last_progress": _ms(row["last_progress_ts"]),
            "expires": _ms(row["expires_ts"]),
            "stuck": row["is_stuck"],
        }
        for row in sorted(tables.rows("groups"), key=order)
    ]


def _rebalances(rows: list[Row]) -> list[Figures]:
    newest = sorted(rows, key=lambda row: row["at"], reverse=True)[:MAX_REBALANCES]
    return [
        {
            "group": row["group_id"],
            "at": _ms(row["at"]),
            "cause": row["cause"],
            "inferred": row["is_inferred"],
            "by": row["caused_by"],
            "reason": row["reason"],
            "from": row["from_generation"],
            "to": row["to_generation"],
            "before": row["members_before"],
            "after": row["members_after"],
            "joined": len(row["joined"]),
            "left": len(row["left"]),
            "took": row["duration_ms"],
            "moved": row["moved_count"],
        }
        for row in newest
    ]


def _stickiness(tables: _Tables, charted: list[str]) -> list[Figures]:
    rows = [row for row in tables.rows("stickiness") if row["group_id"] in charted]
    newest = sorted(rows, key=lambda row: row["at"])[-MAX_STICKINESS:]
    return [
        {
            "group": row["group_id"],
            "at": _ms(row["at"]),
            "to": row["to_generation"],
            "kept": row["kept"],
            "forced": row["forced_moves"],
            "excess": row["excess_moves"],
            "added": row["added"],
            "removed": row["removed"],
        }
        for row in newest
    ]


class _Commits:
    """What the charts need of all commits, in one pass over them."""

    COLUMNS: Final = [
        *("log_offset", "log_timestamp", "group_id", "topic", "partition", "committed_offset"),
        *("is_tombstone", "txn"),
    ]

    def __init__(self, charted: list[str], from_ms: int, width_ms: int) -> None:
        self._charted = charted
        self._from_ms = from_ms
        self._width_ms = width_ms
        self.by_outcome: dict[str, int] = {}
        self._rates = np.zeros((len(charted) + 1, BUCKETS), np.int64)  # the last row has all other groups
        # The last commit of each bucket, by group, partition and bucket: its place and the offset.
        self._last: dict[tuple[int, str, int, int], tuple[int, int | None]] = {}

    def add(self, batch: Any) -> None:
        outcome = batch.column("txn").dictionary_decode()
        for item in pc.value_counts(outcome).to_pylist():
            self.by_outcome[item["values"]] = self.by_outcome.get(item["values"], 0) + item["counts"]
        names = batch.column("group_id")
        numbers = np.array([self._number(name) for name in names.dictionary.to_pylist()] or [0], np.int64)[
            names.indices.to_numpy()
        ]
        times_ms = batch.column("log_timestamp").cast(pa.int64()).to_numpy() // 1000
        buckets = np.clip((times_ms - self._from_ms) // self._width_ms, 0, BUCKETS - 1)
        is_tombstone = batch.column("is_tombstone").to_numpy(zero_copy_only=False)
        places = (numbers * BUCKETS + buckets)[~is_tombstone]
        self._rates += np.bincount(places, minlength=self._rates.size).reshape(self._rates.shape)
        is_counting = pc.is_in(outcome, COUNTING).to_numpy(zero_copy_only=False)
        self._follow(batch, numbers, buckets, np.flatnonzero(is_counting & (numbers < len(self._charted))))

    def _number(self, group: str) -> int:
        return self._charted.index(group) if group in self._charted else len(self._charted)

    def _follow(self, batch: Any, numbers: Any, buckets: Any, chosen: Any) -> None:
        topic = batch.column("topic")
        topics = topic.dictionary.to_pylist()
        offsets = batch.column("log_offset").to_numpy()[chosen]
        keys = np.stack(
            [
                numbers[chosen],
                topic.indices.to_numpy()[chosen],
                batch.column("partition").to_numpy()[chosen],
                buckets[chosen],
            ]
        )
        order = np.lexsort((offsets, *keys))
        keys, chosen = keys[:, order], chosen[order]
        is_last = np.append((keys[:, 1:] != keys[:, :-1]).any(axis=0), True)[: len(chosen)]
        committed = batch.column("committed_offset").take(pa.array(chosen[is_last])).to_pylist()
        at = offsets[order][is_last].tolist()
        for key, place, offset in zip(keys[:, is_last].T.tolist(), at, committed, strict=True):
            group, number, partition, bucket = key
            name = group, topics[number], partition, bucket
            if place > self._last.get(name, (-1, None))[0]:
                self._last[name] = place, offset

    def rates(self) -> dict[str, list[int]]:
        """Commits in each bucket of time, group by group; `*` has all other groups."""
        names = (*self._charted, "*")
        return {name: row.tolist() for name, row in zip(names, self._rates, strict=True) if row.any()}

    def committed(self) -> dict[tuple[str, TopicPartition], dict[int, int | None]]:
        """The last committed offset of each bucket, by group and partition."""
        found: dict[tuple[str, TopicPartition], dict[int, int | None]] = {}
        for (group, topic, partition, bucket), (_, offset) in self._last.items():
            key = self._charted[group], TopicPartition(topic, partition)
            found.setdefault(key, {})[bucket] = offset
        return found


def _lag_over_time(
    audit: Audit, charted: list[str], commits: _Commits, instants_ms: list[int]
) -> dict[str, list[int | None]]:
    """The lag of each group at the end of each bucket.

    Committed offsets are from the group's commits, end offsets from the timestamps of
    its records: an instant at which a record was produced late counts it late.
    """
    committed = commits.committed()
    partitions = sorted({partition for _, partition in committed})[:MAX_LAG_PARTITIONS]
    ends = _ends_over_time(audit, partitions, instants_ms)
    found: dict[str, list[int | None]] = {group: [None] * BUCKETS for group in charted}
    for (group, partition), by_bucket in committed.items():
        if partition not in ends:
            continue
        at: int | None = None
        for bucket in range(BUCKETS):
            at = by_bucket.get(bucket, at)
            if at is not None:
                behind = max(0, ends[partition][bucket] - at)
                found[group][bucket] = (found[group][bucket] or 0) + behind
    return found


def _ends_over_time(
    audit: Audit, partitions: list[TopicPartition], instants_ms: list[int]
) -> dict[TopicPartition, list[int]]:
    with audit.admin() as admin:
        now = list_offsets(admin, dict.fromkeys(partitions, LATEST))
        found: dict[TopicPartition, list[int]] = {partition: [] for partition in now}
        for instant_ms in instants_ms:
            then = list_offsets(admin, dict.fromkeys(now, instant_ms))
            for partition, end in now.items():
                offset = then.get(partition, -1)
                found[partition].append(end if offset < 0 else offset)
    return found


def _is_late(row: Row) -> bool:
    """Open for longer than its time-out, or than most transactions take."""
    return bool(row["is_open"] and row["duration_ms"] > min(row["timeout_ms"], LONG_TRANSACTION_MS))


def _transactions(spans: list[Row]) -> list[Figures]:
    """The open ones first, then the longest."""
    rows = sorted(spans, key=lambda row: (row["is_open"], row["duration_ms"]), reverse=True)
    return [
        {
            "id": row["transactional_id"],
            "start": _ms(row["start_ts"]),
            "end": _ms(row["end_ts"]),
            "state": row["state"],
            "duration": row["duration_ms"],
            "timeout": row["timeout_ms"],
            "partitions": row["partition_count"],
            "producer": f"{row['producer_id']}/{row['producer_epoch']}",
            "open": row["is_open"],
        }
        for row in rows[:MAX_TRANSACTIONS]
    ]
