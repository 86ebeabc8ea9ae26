"""The tables of an audit as DataFrames: those of the logs, and those derived from them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructType
from pyspark.storagelevel import StorageLevel

from klamm.client.admin.admin import Admin
from klamm.client.admin.model import Resource
from klamm.client.admin.offsets import EARLIEST, LATEST
from klamm.protocol.types import TopicPartition
from klamm.spark.audit import queries
from klamm.spark.audit.parquet import LATEST_COLUMNS, schemas, write_tables
from klamm.spark.decode.tables import (
    COMMITS,
    CONSUMER_OFFSETS,
    LAST_COMMITS,
    OTHERS,
    TOPICS,
    TRANSACTION_STATE,
    table_schema,
)

EVENTS_TOPIC: Final = "__klamm_events"
EVENTS_SCHEMA: Final = (
    "type string, group_id string, timestamp_ms long, cause string, member_id string, client_id string, "
    "client_host string, reason string, generation int, generation_before int, generation_after int, "
    "join_phase_ms long, sync_phase_ms long, member_count int, moved_count int, dropped_count int, count int"
)
# Name -> what it is decoded from.
BASE: Final[Mapping[str, tuple[str, str]]] = {
    "offset_commits": (CONSUMER_OFFSETS, "offset_commits"),
    "group_registrations": (CONSUMER_OFFSETS, "group_registrations"),
    "group_members": (CONSUMER_OFFSETS, "group_members"),
    "consumer_groups": (CONSUMER_OFFSETS, "consumer_groups"),
    "consumer_members": (CONSUMER_OFFSETS, "consumer_members"),
    "consumer_assignments": (CONSUMER_OFFSETS, "consumer_assignments"),
    "consumer_regexes": (CONSUMER_OFFSETS, "consumer_regexes"),
    "tombstones": (CONSUMER_OFFSETS, "tombstones"),
    "undecoded": (CONSUMER_OFFSETS, "undecoded"),
    "transactions": (TRANSACTION_STATE, "transactions"),
    "undecoded_transactions": (TRANSACTION_STATE, "undecoded"),
}
DERIVED: Final = (
    "latest_offsets",
    "commit_history",
    "assignments",
    "rebalances",
    "stickiness",
    "lag",
    "transaction_spans",
    "groups",
)
# What `cache` keeps: scans of the logs, and derived tables that others are made of.
CACHED: Final = (COMMITS, OTHERS, "transactions", "events", "rebalances", "lag", "transaction_spans")
RETENTION: Final = "offsets.retention.minutes"
DEFAULT_RETENTION_MS: Final = 7 * 24 * 3_600_000  # offsets.retention.minutes of Kafka
_LAST_COLUMNS: Final = (*LATEST_COLUMNS, "is_tombstone")
DEFAULT_STUCK_MS: Final = 5 * 60_000


class Audit:
    """An audit of one cluster: every table describes the instant at which it was created."""

    def __init__(
        self,
        spark: SparkSession,
        bootstrap_servers: str,
        *,
        client: Mapping[str, str] | None = None,
        stuck_ms: int = DEFAULT_STUCK_MS,
    ) -> None:
        """`client` has further settings of Kafka's clients. Raises KlammError when the cluster is away."""
        self.spark = spark
        self.bootstrap_servers = bootstrap_servers
        self.stuck_ms = stuck_ms
        self.as_of = datetime.now(UTC)
        self._client = {**(client or {}), "bootstrap.servers": bootstrap_servers}
        self._made: dict[str, DataFrame] = {}
        self._kept: set[str] = set()  # tables that are written or cached: reading them is not reading the log
        with self.admin() as admin:
            self.ends = _ends(admin, [*TOPICS.values(), EVENTS_TOPIC])
            self.retention_ms = _retention_ms(admin)

    def admin(self) -> Admin:
        """An admin client of the cluster."""
        return Admin(self._client)

    @property
    def has_events(self) -> bool:
        """Whether the broker writes down why groups rebalance; elsewhere causes are inferred."""
        return bool(self.ends[EVENTS_TOPIC])

    @property
    def record_count(self) -> int:
        """How many offsets the two logs hold."""
        return sum(end - start for topic in TOPICS.values() for start, end in self.ends[topic].values())

    def table(self, name: str) -> DataFrame:
        """A table by its name in BASE or DERIVED, or `events`."""
        if name not in self._made:
            if name in BASE:
                self._made[name] = self._decoded(*BASE[name])
            elif name == LAST_COMMITS:
                self._made[name] = self._decoded(CONSUMER_OFFSETS, LAST_COMMITS, _LAST_COLUMNS)
            elif name == "events":
                self._made[name] = self._events()
            elif name == "end_offsets":
                self._made[name] = self._end_offsets()
            elif name == "steps":
                self._made[name] = self._sql(queries.STEPS, "group_members", "group_registrations")
            elif name == "consumer_steps":
                self._made[name] = self._sql(queries.CONSUMER_STEPS, "consumer_members", "consumer_groups")
            elif name in DERIVED:
                self._made[name] = self._derived(name)
            else:
                raise ValueError(
                    f"unknown table {name}: expected one of {', '.join((*BASE, 'events', *DERIVED))}"
                )
        return self._made[name]

    def write(self, folder: Path, *, progress: Callable[[str], None] = lambda _: None) -> None:
        """Write every table as Parquet, and go on from there: each log is read once.

        `progress` is called with the name of each table before it is written.
        """
        written = self.write_decoded(folder, progress=progress)
        for name in (*BASE, "events", *DERIVED):
            if name not in written:
                progress(name)
                self.table(name).write.mode("overwrite").parquet(str(folder / name))
                self._keep_written(name, folder, self.table(name).schema)

    def write_decoded(self, folder: Path, *, progress: Callable[[str], None] = lambda _: None) -> set[str]:
        """Write what one pass over each log gives, `latest_offsets` and `commit_history` too; their names."""
        return {name for each in TOPICS for name in self._write_decoded(each, folder, progress)}

    def _write_decoded(self, format_name: str, folder: Path, progress: Callable[[str], None]) -> set[str]:
        """Write what is decoded from one log, in one pass; the names of these tables."""
        found = schemas(format_name)
        names = {table: name for name, (kind, table) in BASE.items() if kind == format_name}
        names |= {table: table for table in found if table not in names}
        topic = TOPICS[format_name]
        if not self.ends[topic]:
            return set()
        for name in names.values():
            progress(name)
        options = {**self._read_options(topic), "decode": format_name, "table": next(iter(found))}
        write_tables(self.spark, options, {table: folder / name for table, name in names.items()})
        for table, name in names.items():
            self._keep_written(name, folder, found[table])
        return set(names.values())

    def _keep_written(self, name: str, folder: Path, schema: StructType) -> None:
        self._made[name] = self.spark.read.schema(schema).parquet(str(folder / name))
        self._kept.add(name)

    def cache(self, *, progress: Callable[[str], None] = lambda _: None) -> None:
        """Keep what several tables are made of in Spark's memory and on its disks instead of writing it.

        `progress` is called with each name of CACHED before that table is read.
        """
        for name in CACHED:
            progress(name)
            if name == OTHERS:
                self._others().count()
                continue
            self._made[name] = self.table(name).persist(StorageLevel.MEMORY_AND_DISK)
            self._made[name].count()
            self._kept.add(name)

    def _decoded(self, format_name: str, table: str, columns: Sequence[str] = ()) -> DataFrame:
        topic = TOPICS[format_name]
        schema = table_schema(format_name, table)
        if columns:
            schema = StructType([schema[name] for name in columns])
        if not self.ends[topic]:
            return self.spark.createDataFrame([], schema)
        if format_name == TRANSACTION_STATE or table in (COMMITS, LAST_COMMITS, OTHERS):
            read = self._read(topic).schema(schema)
            return read.option("decode", format_name).option("table", table).load()
        return self._of_others(table)

    def _of_others(self, table: str) -> DataFrame:
        """A table of the few records that are no offset commits: the log is scanned once for all of them."""
        rows = self._others().where(f.col(table).isNotNull())
        found = rows.select("log_partition", "log_offset", "log_timestamp", f.inline(table))
        if table == "tombstones":
            found = found.unionByName(self._sql(queries.COMMIT_TOMBSTONES, "offset_commits"))
        return found

    def _others(self) -> DataFrame:
        if OTHERS not in self._made:
            read = self._decoded(CONSUMER_OFFSETS, OTHERS)
            self._made[OTHERS] = read.persist(StorageLevel.MEMORY_AND_DISK)
        return self._made[OTHERS]

    def _events(self) -> DataFrame:
        if not self.has_events:
            return self.spark.createDataFrame([], EVENTS_SCHEMA)
        value = f.col("value").cast("string")
        read = self._read(EVENTS_TOPIC).option("subscribe", EVENTS_TOPIC).load()
        return read.select(f.from_json(value, EVENTS_SCHEMA).alias("event")).select("event.*")

    def _read(self, topic: str) -> DataFrameReader:
        return self.spark.read.format("klamm").options(**self._read_options(topic))

    def _read_options(self, topic: str) -> dict[str, str]:
        """Options of a read that stops where the log ended when the audit began."""
        bounds = self.ends[topic]
        return {
            **{f"kafka.{name}": value for name, value in self._client.items()},
            "failOnDataLoss": "false",  # what the cleaner removes meanwhile is not missed
            "startingOffsets": json.dumps({topic: {str(n): start for n, (start, _) in bounds.items()}}),
            "endingOffsets": json.dumps({topic: {str(n): end for n, (_, end) in bounds.items()}}),
        }

    def _end_offsets(self) -> DataFrame:
        """The ends of all partitions that a group has committed."""
        committed = self.table("latest_offsets").select("topic", "partition").distinct().collect()
        with self.admin() as admin:
            found = list_offsets(admin, {TopicPartition(*row): LATEST for row in committed})
        rows = [(key.topic, key.partition, offset) for key, offset in found.items()]
        return self.spark.createDataFrame(rows, "topic string, partition int, log_end_offset long")

    def _derived(self, name: str) -> DataFrame:
        match name:
            case "latest_offsets":
                if COMMITS in self._kept:
                    return self._sql(queries.LATEST_OFFSETS, COMMITS)
                return self._sql(queries.LATEST_OF_LAST, LAST_COMMITS)
            case "commit_history":
                return self._sql(queries.COMMIT_HISTORY, "offset_commits")
            case "assignments":
                return self._sql(queries.ASSIGNMENTS, "group_members")
            case "rebalances":
                return self._sql(queries.REBALANCES, "steps", "consumer_steps", "events")
            case "stickiness":
                return self._sql(queries.STICKINESS, "rebalances", "group_members")
            case "lag":
                return self._sql(queries.LAG, "latest_offsets", "end_offsets")
            case "transaction_spans":
                return self._sql(queries.TRANSACTION_SPANS, "transactions")
            case _:
                tables = ("group_registrations", "consumer_steps", "lag", "commit_history")
                return self._sql(queries.GROUPS, *tables)

    def _sql(self, query: str, *tables: str) -> DataFrame:
        numbers = {
            "as_of": f"timestamp_millis({int(self.as_of.timestamp() * 1000)})",
            "retention_ms": str(self.retention_ms),
            "stuck_ms": str(self.stuck_ms),
        }
        for name, text in numbers.items():
            query = query.replace(f"{{{name}}}", text)
        given: dict[str, Any] = {name: self.table(name) for name in tables}
        return self.spark.sql(query, **given)


def _ends(admin: Admin, topics: list[str]) -> dict[str, dict[int, tuple[int, int]]]:
    """Where each partition starts and ends; a topic that does not exist has none."""
    described = admin.describe_topics(topics, raise_errors=False).successes
    found: dict[str, dict[int, tuple[int, int]]] = {}
    for topic in topics:
        description = described.get(topic)
        found[topic] = {}
        if description is None:
            continue
        partitions = [TopicPartition(topic, item.partition) for item in description.partitions]
        starts = admin.list_offsets(dict.fromkeys(partitions, EARLIEST)).unwrap()
        ends = admin.list_offsets(dict.fromkeys(partitions, LATEST)).unwrap()
        found[topic] = {key.partition: (starts[key].offset, ends[key].offset) for key in partitions}
    return found


def list_offsets(admin: Admin, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Offsets of the partitions that exist."""
    results = admin.list_offsets(wanted, raise_errors=False)
    return {key: item.offset for key, item in results.successes.items()}


def _retention_ms(admin: Admin) -> int:
    """How long a broker keeps the offsets of an empty group; Kafka's default where it does not report it."""
    broker = (Resource.BROKER, str(admin.describe_cluster().brokers[0].broker_id))
    found = admin.describe_configs([broker], keys=RETENTION, raise_errors=False).successes
    entries = found.get(broker, {})
    if RETENTION not in entries:
        return DEFAULT_RETENTION_MS
    return int(entries[RETENTION].value or 0) * 60_000
