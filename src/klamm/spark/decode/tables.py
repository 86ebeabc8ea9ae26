"""The tables that option `decode` offers, and their columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from klamm.config import ConfigError

CONSUMER_OFFSETS: Final = "consumer_offsets"
TRANSACTION_STATE: Final = "transaction_state"
COMMITS: Final = "offset_commits"
LAST_COMMITS: Final = "last_commits"  # only the last commit of each key in the range that is read
OTHERS: Final = "other_records"  # all but offset commits: one array of rows for each of the other tables
TOPICS: Final = {CONSUMER_OFFSETS: "__consumer_offsets", TRANSACTION_STATE: "__transaction_state"}

_PARTITIONS: Final = ArrayType(
    StructType([StructField("topic", StringType()), StructField("partition", IntegerType())])
)
_PARTITIONS_BY_ID: Final = ArrayType(
    StructType([StructField("topic_id", StringType()), StructField("partition", IntegerType())])
)
_TYPES: Final[Mapping[str, DataType]] = {
    "int": IntegerType(),
    "long": LongType(),
    "string": StringType(),
    "binary": BinaryType(),
    "boolean": BooleanType(),
    "double": DoubleType(),
    "timestamp": TimestampType(),
    "strings": ArrayType(StringType()),
    "partitions": _PARTITIONS,
    "partitions_by_id": _PARTITIONS_BY_ID,
}
_WHERE: Final = "log_partition int, log_offset long, log_timestamp timestamp"
_UNDECODED: Final = "key_version int, reason string, key binary, value binary"
_COMMITS: Final = (
    "group_id string, topic string, partition int, committed_offset long, leader_epoch int, "
    "metadata string, commit_ts timestamp, expire_ts timestamp, key_version int, value_version int, "
    "is_tombstone boolean, producer_id long, producer_epoch int, txn string"
)
COLUMNS: Final = {
    CONSUMER_OFFSETS: {
        COMMITS: _COMMITS,
        LAST_COMMITS: _COMMITS,
        "group_registrations": (
            "group_id string, protocol_type string, generation int, protocol string, leader string, "
            "state_ts timestamp, member_count int, value_version int, is_tombstone boolean"
        ),
        "group_members": (
            "group_id string, generation int, member_id string, instance_id string, client_id string, "
            "client_host string, rebalance_timeout_ms int, session_timeout_ms int, is_leader boolean, "
            "subscribed_topics strings, owned partitions, assigned partitions"
        ),
        "consumer_groups": "group_id string, kind string, epoch int, is_tombstone boolean",
        "consumer_members": (
            "group_id string, member_id string, instance_id string, rack_id string, client_id string, "
            "client_host string, subscribed_topics strings, subscribed_regex string, "
            "rebalance_timeout_ms int, server_assignor string, is_classic boolean, is_tombstone boolean"
        ),
        "consumer_assignments": (
            "group_id string, member_id string, kind string, member_epoch int, previous_epoch int, "
            "state string, assigned partitions_by_id, pending_revocation partitions_by_id, "
            "is_tombstone boolean"
        ),
        "consumer_regexes": (
            "group_id string, regex string, topics strings, metadata_version long, resolved_ts timestamp, "
            "is_tombstone boolean"
        ),
        "tombstones": (
            "record_type string, key_version int, group_id string, topic string, partition int, "
            "member_id string"
        ),
        "undecoded": _UNDECODED,
        OTHERS: "key_version int",
    },
    TRANSACTION_STATE: {
        "transactions": (
            "transactional_id string, producer_id long, producer_epoch int, timeout_ms int, state string, "
            "partitions partitions, update_ts timestamp, start_ts timestamp, previous_producer_id long, "
            "next_producer_id long, client_transaction_version int, value_version int, is_tombstone boolean"
        ),
        "undecoded": _UNDECODED,
    },
}


OTHER_TABLES: Final = tuple(
    name for name in COLUMNS[CONSUMER_OFFSETS] if name not in (COMMITS, LAST_COMMITS, OTHERS)
)


def table_schema(format_name: str, table: str) -> StructType:
    """All columns of a table; every one starts with the record's place in the log."""
    fields = [*fields_of(_WHERE), *fields_of(COLUMNS[format_name][table])]
    if table == OTHERS:
        fields += [
            StructField(name, ArrayType(StructType(fields_of(COLUMNS[format_name][name]))))
            for name in OTHER_TABLES
        ]
    return StructType(fields)


def fields_of(text: str) -> list[StructField]:
    """Columns from `name type, ...`."""
    # Spark's own parser of such texts runs in Java, which the process of a data source does not have.
    return [StructField(name, _TYPES[kind]) for name, kind in (item.split() for item in text.split(", "))]


def check_table(format_name: str, table: str | None) -> str:
    """The table that is meant; raises ConfigError that lists those that exist."""
    tables = COLUMNS[format_name]
    if table is None and len(tables) == 2:
        return next(iter(tables))
    if table is None or table not in tables:
        raise ConfigError(
            "table",
            f"invalid value {table} for table: decode={format_name} has the tables {', '.join(tables)}"
            if table is not None
            else f"decode={format_name} needs option table: one of {', '.join(tables)}",
        )
    return table
