"""The tables of an audit: what they are made of, and their columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.sql.types import StructType

from klamm.spark.decode.tables import (
    COLUMNS,
    COMMITS,
    CONSUMER_OFFSETS,
    OTHER_TABLES,
    TRANSACTION_STATE,
    fields_of,
    table_schema,
)

EVENTS_TOPIC: Final = "__klamm_events"
EVENTS: Final = "events"
LATEST_OFFSETS: Final = "latest_offsets"
COMMIT_HISTORY: Final = "commit_history"
UNDECODED_TRANSACTIONS: Final = "undecoded_transactions"
# Name -> what it is decoded from.
BASE: Final[Mapping[str, tuple[str, str]]] = {
    **{name: (CONSUMER_OFFSETS, name) for name in (COMMITS, *OTHER_TABLES)},
    "transactions": (TRANSACTION_STATE, "transactions"),
    UNDECODED_TRANSACTIONS: (TRANSACTION_STATE, "undecoded"),
}
LATEST_COLUMNS: Final = ("group_id", "topic", "partition", "committed_offset", "commit_ts", "metadata")
_EVENTS: Final = (
    "type string, group_id string, timestamp_ms long, cause string, member_id string, client_id string, "
    "client_host string, reason string, generation int, generation_before int, generation_after int, "
    "join_phase_ms long, sync_phase_ms long, member_count int, moved_count int, dropped_count int, count int"
)
_DERIVED: Final[Mapping[str, str]] = {
    LATEST_OFFSETS: (
        "group_id string, topic string, partition int, committed_offset long, commit_ts timestamp, "
        "metadata string"
    ),
    COMMIT_HISTORY: (
        "group_id string, topic string, partition int, prev_offset long, committed_offset long, delta long, "
        "prev_commit_ts timestamp, commit_ts timestamp, gap_ms long, is_rewind boolean"
    ),
    "assignments": (
        "group_id string, generation int, topic string, partition int, member_id string, client_id string"
    ),
    "rebalances": (
        "group_id string, log_offset long, group_type string, from_generation int, to_generation int, "
        "at timestamp, since_previous_ms long, members_before int, members_after int, joined strings, "
        "left strings, leader_changed boolean, protocol_changed boolean, subscriptions_changed boolean, "
        "is_gap boolean, log_partition int, from_log_offset long, cause string, is_inferred boolean, "
        "caused_by string, reason string, duration_ms long, moved_count int"
    ),
    "stickiness": (
        "group_id string, from_generation int, to_generation int, at timestamp, common long, kept long, "
        "moved long, added long, removed long, stickiness double, forced_moves long, excess_moves long"
    ),
    "lag": (
        "group_id string, topic string, partition int, committed_offset long, log_end_offset long, lag long, "
        "commit_age_ms long, as_of timestamp"
    ),
    "transaction_spans": (
        "transactional_id string, start_ts timestamp, producer_id long, producer_epoch int, timeout_ms int, "
        "state string, partition_count int, end_ts timestamp, duration_ms long, is_open boolean"
    ),
    "groups": (
        "group_id string, group_type string, member_count int, generation int, partition_count long, "
        "lag long, commit_count long, last_commit_ts timestamp, last_progress_ts timestamp, "
        "expires_ts timestamp, is_stuck boolean"
    ),
}
DERIVED: Final = tuple(_DERIVED)
# The log that one pass makes each table from.
SOURCES: Final[Mapping[str, str]] = {
    **{name: format_name for name, (format_name, _) in BASE.items()},
    **dict.fromkeys(DERIVED, CONSUMER_OFFSETS),
    "transaction_spans": TRANSACTION_STATE,
    EVENTS: EVENTS,
}
TABLES: Final = (*BASE, EVENTS, *DERIVED)
assert set(COLUMNS[TRANSACTION_STATE]) == {"transactions", "undecoded"}


def schema_of(name: str) -> StructType:
    """The columns of a table; raises ValueError that lists those that exist."""
    if name in BASE:
        return table_schema(*BASE[name])
    if name == EVENTS:
        return StructType(fields_of(_EVENTS))
    if name not in _DERIVED:
        raise ValueError(f"unknown table {name}: expected one of {', '.join(TABLES)}")
    return StructType(fields_of(_DERIVED[name]))
