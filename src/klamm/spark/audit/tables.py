"""The tables of an audit as DataFrames: those of the logs, and those derived from them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from klamm.client.admin.admin import Admin
from klamm.client.admin.model import Resource
from klamm.client.admin.offsets import EARLIEST, LATEST
from klamm.errors import TopicAuthorizationError, UnknownTopicOrPartitionError
from klamm.protocol.types import TopicPartition
from klamm.spark.audit.one_pass import AuditTask
from klamm.spark.audit.parquet import PlannedPass, write_tables
from klamm.spark.audit.schemas import (
    BASE,
    DERIVED,
    EVENTS,
    EVENTS_TOPIC,
    LATEST_COLUMNS,
    LATEST_OFFSETS,
    SOURCES,
    schema_of,
)
from klamm.spark.audit.source import AuditSource
from klamm.spark.decode.tables import CONSUMER_OFFSETS, LAST_COMMITS, TOPICS, table_schema
from klamm.spark.options.options import SourceOptions, source_options
from klamm.spark.read.batch_reader import gathered
from klamm.spark.read.reading import RangePartition
from klamm.spark.read.splitting import OffsetRange

__all__ = ["BASE", "DERIVED", "Audit"]

RETENTION: Final = "offsets.retention.minutes"
DEFAULT_RETENTION_MS: Final = 7 * 24 * 3_600_000  # offsets.retention.minutes of Kafka
_TOPIC_OF: Final = {**TOPICS, EVENTS: EVENTS_TOPIC}  # by what is made of it
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
        self.folder: Path | None = None  # where the tables are, once they are written
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

    @property
    def event_count(self) -> int:
        """How many events the broker has written."""
        return sum(end - start for start, end in self.ends[EVENTS_TOPIC].values())

    def table(self, name: str) -> DataFrame:
        """A table by its name in BASE or DERIVED, or `events`: of the log, or as it was written."""
        if name not in self._made:
            schema = schema_of(name)
            if self.folder is not None:
                self._made[name] = self.spark.read.schema(schema).parquet(str(self.folder / name))
            elif not self.ends[_TOPIC_OF[SOURCES[name]]]:
                self._made[name] = self.spark.createDataFrame([], schema)
            elif name in BASE:
                format_name, table = BASE[name]
                self._made[name] = self._decoded(format_name, table, schema)
            elif name == LATEST_OFFSETS:
                # All commits of a group are in one partition of the log, which one task reads.
                wide = table_schema(CONSUMER_OFFSETS, LAST_COMMITS)
                wanted = StructType([wide[column] for column in (*LATEST_COLUMNS, "is_tombstone")])
                last = self._decoded(CONSUMER_OFFSETS, LAST_COMMITS, wanted)
                self._made[name] = last.where("NOT is_tombstone").select(*LATEST_COLUMNS)
            else:
                self._made[name] = self._derived(name)
        return self._made[name]

    def write(self, folder: Path, *, progress: Callable[[int], None] = lambda _: None) -> None:
        """Write every table as Parquet, and go on from there: each log is read once.

        On a cluster, all machines must share the folder. `progress` is called now and then, from another
        thread, with the number of offsets that were read.
        """
        passes = [self._planned(source) for source in _TOPIC_OF if self.ends[_TOPIC_OF[source]]]
        write_tables(self.spark, passes, folder, progress)
        self.folder = folder
        self._made.clear()  # a table is looked for in the folder when it is asked for

    def _decoded(self, format_name: str, table: str, schema: StructType) -> DataFrame:
        options = {**self._read_options(TOPICS[format_name]), "decode": format_name, "table": table}
        return self.spark.read.format("klamm").options(**options).schema(schema).load()

    def _derived(self, name: str) -> DataFrame:
        """A table that tasks make in one pass over its log."""
        self.spark.dataSource.register(AuditSource)
        plan = AuditSource.plan_text(self._planned(SOURCES[name]))
        return self.spark.read.format(AuditSource.name()).options(table=name, plan=plan).load()

    def _planned(self, source: str) -> PlannedPass:
        """How one of the logs is read for all of its tables."""
        events = self._ranges(EVENTS_TOPIC)
        task = AuditTask(
            source=source,
            options=self._source_options(_TOPIC_OF[source]),
            events=self._source_options(EVENTS_TOPIC),
            event_ranges=tuple(events),
            as_of_ms=int(self.as_of.timestamp() * 1000),
            retention_ms=self.retention_ms,
            stuck_ms=self.stuck_ms,
        )
        ranges = events if source == EVENTS else self._ranges(_TOPIC_OF[source])
        return task, gathered(ranges, self.spark.sparkContext.defaultParallelism)

    def _ranges(self, topic: str) -> list[RangePartition]:
        found = [
            OffsetRange(TopicPartition(topic, number), start, end)
            for number, (start, end) in self.ends[topic].items()
        ]
        return [RangePartition(item) for item in found if item.size]

    def _source_options(self, topic: str) -> SourceOptions:
        return source_options({**self._read_options(topic), "subscribe": topic}, is_streaming=False)

    def _read_options(self, topic: str) -> dict[str, str]:
        """Options of a read that stops where the log ended when the audit began."""
        bounds = self.ends[topic]
        return {
            **{f"kafka.{name}": value for name, value in self._client.items()},
            "failOnDataLoss": "false",  # what the cleaner removes meanwhile is not missed
            "startingOffsets": json.dumps({topic: {str(n): start for n, (start, _) in bounds.items()}}),
            "endingOffsets": json.dumps({topic: {str(n): end for n, (_, end) in bounds.items()}}),
        }


def _ends(admin: Admin, topics: list[str]) -> dict[str, dict[int, tuple[int, int]]]:
    """Where each partition starts and ends; a topic that does not exist has none. Raises KlammError."""
    results = admin.describe_topics(topics, raise_errors=False)
    described = results.successes
    for topic, error in results.errors.items():
        is_denied = isinstance(error, TopicAuthorizationError)
        # Only klamm has events; where they may not be read they need not exist.
        if not isinstance(error, UnknownTopicOrPartitionError) and not (is_denied and topic == EVENTS_TOPIC):
            raise error
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
