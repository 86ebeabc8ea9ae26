"""The tables of an audit as DataFrames: those of the logs, and those derived from them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as f
from pyspark.storagelevel import StorageLevel

from klamm.client.admin.admin import Admin
from klamm.client.admin.model import Resource
from klamm.client.admin.offsets import EARLIEST, LATEST
from klamm.errors import KlammError
from klamm.protocol.types import TopicPartition
from klamm.spark.audit import queries
from klamm.spark.decode.tables import CONSUMER_OFFSETS, TOPICS, TRANSACTION_STATE, table_schema

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
RETENTION: Final = "offsets.retention.minutes"
DEFAULT_RETENTION_MS: Final = 7 * 24 * 3_600_000  # offsets.retention.minutes of Kafka
DEFAULT_STUCK_MS: Final = 5 * 60_000


class Audit:
    """One look at one cluster: every table describes the same instant, the one at which this was made."""

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
        with self.admin() as admin:
            self.ends = _ends(admin, [*TOPICS.values(), EVENTS_TOPIC])
            self.retention_ms = _retention_ms(admin)

    def admin(self) -> Admin:
        """A client to ask the cluster with."""
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
            elif name == "events":
                self._made[name] = self._events()
            elif name == "end_offsets":
                self._made[name] = self._end_offsets()
            elif name == "steps":
                self._made[name] = self._sql(queries.STEPS, "group_members", "group_registrations")
            elif name in DERIVED:
                self._made[name] = self._derived(name)
            else:
                raise ValueError(
                    f"unknown table {name}: expected one of {', '.join((*BASE, 'events', *DERIVED))}"
                )
        return self._made[name]

    def write(self, folder: Path, *, progress: Callable[[str], None] = lambda _: None) -> None:
        """Write every table as Parquet, and go on from there: the log is read once for each base table.

        `progress` is called with the name of each table before it is written.
        """
        for name in (*BASE, "events", *DERIVED):
            progress(name)
            path = str(folder / name)
            self.table(name).write.mode("overwrite").parquet(path)
            self._made[name] = self.spark.read.schema(self.table(name).schema).parquet(path)

    def cache(self, *, progress: Callable[[str], None] = lambda _: None) -> None:
        """Keep the base tables in Spark's memory and on its disks instead of writing them."""
        for name in (*BASE, "events", *DERIVED):
            progress(name)
            if name in BASE or name == "events":
                self._made[name] = self.table(name).persist(StorageLevel.MEMORY_AND_DISK)
                self._made[name].count()

    def _decoded(self, format_name: str, table: str) -> DataFrame:
        topic = TOPICS[format_name]
        if not self.ends[topic]:
            return self.spark.createDataFrame([], table_schema(format_name, table))
        return self._read(topic).option("decode", format_name).option("table", table).load()

    def _events(self) -> DataFrame:
        if not self.has_events:
            return self.spark.createDataFrame([], EVENTS_SCHEMA)
        value = f.col("value").cast("string")
        read = self._read(EVENTS_TOPIC).option("subscribe", EVENTS_TOPIC).load()
        return read.select(f.from_json(value, EVENTS_SCHEMA).alias("event")).select("event.*")

    def _read(self, topic: str) -> DataFrameReader:
        """A reader that stops where the log ended when the audit began."""
        bounds = self.ends[topic]
        return (
            self.spark.read.format("klamm")
            .options(**{f"kafka.{name}": value for name, value in self._client.items()})
            .option("failOnDataLoss", "false")  # what the cleaner removes meanwhile is not missed
            .option(
                "startingOffsets", json.dumps({topic: {str(n): start for n, (start, _) in bounds.items()}})
            )
            .option("endingOffsets", json.dumps({topic: {str(n): end for n, (_, end) in bounds.items()}}))
        )

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
                return self._sql(queries.LATEST_OFFSETS, "offset_commits")
            case "commit_history":
                return self._sql(queries.COMMIT_HISTORY, "offset_commits")
            case "assignments":
                return self._sql(queries.ASSIGNMENTS, "group_members")
            case "rebalances":
                return self._sql(queries.REBALANCES, "steps", "events")
            case "stickiness":
                return self._sql(queries.STICKINESS, "rebalances", "group_members")
            case "lag":
                return self._sql(queries.LAG, "latest_offsets", "end_offsets")
            case "transaction_spans":
                return self._sql(queries.TRANSACTION_SPANS, "transactions")
            case _:
                return self._sql(queries.GROUPS, "group_registrations", "lag", "commit_history")

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
    described = admin.describe_topics(topics)
    found: dict[str, dict[int, tuple[int, int]]] = {}
    for topic in topics:
        description = described[topic]
        found[topic] = {}
        if isinstance(description, KlammError):
            continue
        partitions = [TopicPartition(topic, item.partition) for item in description.partitions]
        starts = admin.list_offsets(dict.fromkeys(partitions, EARLIEST)).unwrap()
        ends = admin.list_offsets(dict.fromkeys(partitions, LATEST)).unwrap()
        found[topic] = {key.partition: (starts[key].offset, ends[key].offset) for key in partitions}
    return found


def list_offsets(admin: Admin, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Offsets of the partitions that exist."""
    results = admin.list_offsets(wanted) if wanted else {}
    return {key: item.offset for key, item in results.items() if not isinstance(item, KlammError)}


def _retention_ms(admin: Admin) -> int:
    """How long a broker keeps the offsets of an empty group; Kafka's default where it does not say."""
    broker = (Resource.BROKER, str(admin.describe_cluster().brokers[0].broker_id))
    entries = admin.describe_configs([broker], keys=[RETENTION])[broker]
    if isinstance(entries, KlammError) or RETENTION not in entries:
        return DEFAULT_RETENTION_MS
    return int(entries[RETENTION].value or 0) * 60_000
