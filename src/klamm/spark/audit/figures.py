"""The figures of a report: small results of queries, as JSON's own types. Times are milliseconds."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from klamm.client.admin.offsets import LATEST
from klamm.protocol.types import TopicPartition
from klamm.spark.audit.tables import EVENTS_TOPIC, Audit, list_offsets

BUCKETS: Final = 60
MAX_CHARTED_GROUPS: Final = 12
MAX_GROUPS: Final = 500
MAX_REBALANCES: Final = 5_000
MAX_TRANSACTIONS: Final = 200
MAX_LAG_PARTITIONS: Final = 1_000  # computed for each instant of the chart
LONG_TRANSACTION_MS: Final = 60_000

Figures = dict[str, Any]


def figures(audit: Audit) -> Figures:
    """Everything that the report shows."""
    as_of_ms = _ms(audit.as_of) or 0
    from_ms = _first_ms(audit, as_of_ms)
    width_ms = max(1, -(-(as_of_ms - from_ms) // BUCKETS))
    starts = [from_ms + number * width_ms for number in range(BUCKETS)]
    groups = _groups(audit)
    charted = [group["id"] for group in groups[:MAX_CHARTED_GROUPS]]
    rebalances = _rebalances(audit)
    transactions = _transactions(audit)
    return {
        "cluster": audit.bootstrap_servers,
        "as_of": as_of_ms,
        "from": from_ms,
        "width": width_ms,
        "starts": starts,
        "exact": audit.has_events,
        "retention": audit.retention_ms,
        "stuck_after": audit.stuck_ms,
        "totals": _totals(audit),
        "groups": groups,
        "charted": charted,
        "rebalances": rebalances,
        "stickiness": _stickiness(audit, charted),
        "rates": _rates(audit, charted, from_ms, width_ms),
        "lag": _lag_over_time(audit, charted, starts, width_ms),
        "transactions": transactions,
        "long_transaction": LONG_TRANSACTION_MS,
    }


def _ms(instant: datetime | None) -> int | None:
    return None if instant is None else round(instant.timestamp() * 1000)


def _first_ms(audit: Audit, as_of_ms: int) -> int:
    """The time of the oldest record that any chart shows."""
    tables = ("offset_commits", "group_registrations", "transactions")
    firsts = [_rows(audit.table(name).agg(f.unix_millis(f.min("log_timestamp"))))[0][0] for name in tables]
    return min([first for first in firsts if first is not None and first > 0], default=as_of_ms - 60_000)


def _rows(frame: DataFrame) -> list[Any]:
    return frame.collect()


def _totals(audit: Audit) -> Figures:
    def counted(name: str, column: str) -> dict[str, int]:
        return {str(row[0]): row[1] for row in _rows(audit.table(name).groupBy(column).count())}

    outcomes = counted("offset_commits", "txn")
    causes = counted("rebalances", "cause")
    return {
        "records": audit.record_count,
        "events": sum(end - start for start, end in audit.ends[EVENTS_TOPIC].values()),
        "commits": sum(outcomes.values()),
        "commits_by_txn": outcomes,
        "registrations": audit.table("group_registrations").count(),
        "tombstones": counted("tombstones", "record_type"),
        "undecoded": counted("undecoded", "reason") | counted("undecoded_transactions", "reason"),
        "rebalances": sum(causes.values()),
        "causes": causes,
        "transactions": audit.table("transaction_spans").count(),
    }


def _groups(audit: Audit) -> list[Figures]:
    rebalances = audit.table("rebalances").groupBy("group_id").agg(f.count("*").alias("rebalances"))
    frame = (
        audit.table("groups")
        .join(rebalances, "group_id", "left")
        .orderBy(
            f.desc("is_stuck"),
            f.desc_nulls_last(f.coalesce("rebalances", f.lit(0)) * 50 + f.coalesce("commit_count", f.lit(0))),
            "group_id",
        )
        .limit(MAX_GROUPS)
    )
    return [
        {
            "id": row.group_id,
            "members": row.member_count,
            "generation": row.generation,
            "partitions": row.partition_count,
            "lag": row.lag,
            "commits": row.commit_count or 0,
            "rebalances": row.rebalances or 0,
            "last_commit": _ms(row.last_commit_ts),
            "last_progress": _ms(row.last_progress_ts),
            "expires": _ms(row.expires_ts),
            "stuck": row.is_stuck,
        }
        for row in _rows(frame)
    ]


def _rebalances(audit: Audit) -> list[Figures]:
    frame = audit.table("rebalances").orderBy(f.desc("at")).limit(MAX_REBALANCES)
    return [
        {
            "group": row.group_id,
            "at": _ms(row["at"]),
            "cause": row.cause,
            "inferred": row.is_inferred,
            "by": row.caused_by,
            "reason": row.reason,
            "from": row.from_generation,
            "to": row.to_generation,
            "before": row.members_before,
            "after": row.members_after,
            "joined": len(row.joined),
            "left": len(row["left"]),
            "took": row.duration_ms,
            "moved": row.moved_count,
        }
        for row in _rows(frame)
    ]


def _stickiness(audit: Audit, charted: list[str]) -> list[Figures]:
    frame = (
        audit.table("stickiness").where(f.col("group_id").isin(charted)).orderBy(f.desc("at")).limit(1_000)
    )
    return [
        {
            "group": row.group_id,
            "at": _ms(row["at"]),
            "to": row.to_generation,
            "kept": row.kept,
            "forced": row.forced_moves,
            "excess": row.excess_moves,
            "added": row.added,
            "removed": row.removed,
        }
        for row in reversed(_rows(frame))
    ]


def _bucketed(frame: DataFrame, from_ms: int, width_ms: int) -> DataFrame:
    number = f.least(
        f.lit(BUCKETS - 1),
        f.greatest(f.lit(0), f.floor((f.unix_millis("log_timestamp") - from_ms) / width_ms)),
    )
    return frame.withColumn("bucket", number.cast("int"))


def _rates(audit: Audit, charted: list[str], from_ms: int, width_ms: int) -> dict[str, list[int]]:
    """Commits in each bucket of time, group by group; `*` has all other groups."""
    name = f.when(f.col("group_id").isin(charted), f.col("group_id")).otherwise(f.lit("*"))
    frame = _bucketed(audit.table("offset_commits").where("NOT is_tombstone"), from_ms, width_ms)
    found: dict[str, list[int]] = {}
    for group, bucket, count in _rows(frame.groupBy(name.alias("group"), "bucket").count()):
        found.setdefault(group, [0] * BUCKETS)[bucket] = count
    return found


def _lag_over_time(
    audit: Audit, charted: list[str], starts: list[int], width_ms: int
) -> dict[str, list[int | None]]:
    """The lag of each group at the end of each bucket.

    Committed offsets are from the group's commits, end offsets from the timestamps of
    its records: an instant at which a record was produced late counts it late.
    """
    commits = audit.table("offset_commits").where("txn IN ('none', 'committed')")
    frame = (
        _bucketed(commits.where(f.col("group_id").isin(charted)), starts[0], width_ms)
        .groupBy("group_id", "topic", "partition", "bucket")
        .agg(f.max_by("committed_offset", "log_offset").alias("offset"))
    )
    committed: dict[tuple[str, TopicPartition], dict[int, int | None]] = {}
    for group, topic, partition, bucket, offset in _rows(frame):
        committed.setdefault((group, TopicPartition(topic, partition)), {})[bucket] = offset
    partitions = sorted({partition for _, partition in committed})[:MAX_LAG_PARTITIONS]
    ends = _ends_over_time(audit, partitions, [start + width_ms for start in starts])
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


def _transactions(audit: Audit) -> list[Figures]:
    """The open ones first, then the longest."""
    frame = (
        audit.table("transaction_spans")
        .orderBy(f.desc("is_open"), f.desc("duration_ms"))
        .limit(MAX_TRANSACTIONS)
    )
    return [
        {
            "id": row.transactional_id,
            "start": _ms(row.start_ts),
            "end": _ms(row.end_ts),
            "state": row.state,
            "duration": row.duration_ms,
            "timeout": row.timeout_ms,
            "partitions": row.partition_count,
            "producer": f"{row.producer_id}/{row.producer_epoch}",
            "open": row.is_open,
        }
        for row in _rows(frame)
    ]
