"""Rows of the cluster's metadata in PostgreSQL: its dialect, many rows in one statement, fences of logs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from psycopg import Connection
from psycopg.types.json import Jsonb

from klamm.storage.cluster import ConfigResourceType, LeaderChange, PartitionRegistration
from klamm.storage.engines.sql_rows import CONFIG, TOPIC, Execute, SqlChange

CHANNEL: Final = "klamm"

# The fence: from here on no append of an older epoch takes effect. Rows are locked in the order in which
# rounds lock them, so that neither waits for the other.
_LOCK_LOGS: Final = "SELECT 1 FROM log WHERE partition_id = ANY(%s) ORDER BY partition_id FOR NO KEY UPDATE"
_RAISE_LOG_EPOCHS: Final = """
UPDATE log SET leader_epoch = p.leader_epoch FROM partition p
WHERE p.partition_id = log.partition_id AND log.partition_id = ANY(%s)
"""
# An epoch in which no record was written is replaced by the next one.
_DROP_EMPTY_EPOCHS: Final = """
DELETE FROM epoch_start e USING log WHERE log.partition_id = e.partition_id
AND e.partition_id = ANY(%s) AND e.start_offset >= log.end_offset
"""
_START_EPOCHS: Final = """
INSERT INTO epoch_start SELECT partition_id, leader_epoch, end_offset FROM log WHERE partition_id = ANY(%s)
"""


class PostgresDialect:
    """JSON, UUIDs and arrays are types of the database."""

    def topic_id(self, topic_id: bytes) -> UUID:
        return UUID(bytes=topic_id)

    def topic_id_of(self, value: UUID) -> bytes:
        return value.bytes

    def json(self, value: object) -> Jsonb:
        return Jsonb(value)

    def json_of(self, value: Any) -> Any:
        return value

    def numbers(self, numbers: Sequence[int]) -> list[int]:
        return list(numbers)

    def numbers_of(self, value: Sequence[int]) -> Sequence[int]:
        return value

    def is_among(self, column: str) -> str:
        return f"{column} = ANY(%s)"

    def names(self, names: Collection[str]) -> list[str]:
        return list(names)


DIALECT: Final = PostgresDialect()


def executing(connection: Connection[Any]) -> Execute:
    """Run statements on a connection."""
    return connection.execute


class PostgresChange(SqlChange):
    """The transaction of one change. The cluster's row is locked: changes follow one another."""

    def touch(self, kind: str, keys: Iterable[str]) -> None:
        self.execute(
            "INSERT INTO change SELECT %s, %s, key FROM unnest(%s::text[]) key ON CONFLICT DO NOTHING",
            [self.version_number, kind, list(keys)],
        )

    def move(self, changes: Sequence[LeaderChange], assignment: str) -> list[tuple[LeaderChange, int]]:
        rows = self.execute(
            f"UPDATE partition p SET {assignment.format(next_leader_id='n.next_leader_id')} FROM topic t, "
            "unnest(%s::text[], %s::int[], %s::int[], %s::int[], %s::int[]) "
            "n(topic, of_partition, of_leader, of_epoch, next_leader_id) "
            "WHERE t.topic_id = p.topic_id AND t.name = n.topic AND p.partition = n.of_partition "
            "AND p.leader_id = n.of_leader AND p.leader_epoch = n.of_epoch "
            "RETURNING t.name, p.partition, p.partition_id",
            [
                [each.topic for each in changes],
                [each.partition for each in changes],
                [each.leader_id for each in changes],
                [each.leader_epoch for each in changes],
                [each.next_leader_id for each in changes],
            ],
        ).fetchall()
        ids = {(topic, partition): partition_id for topic, partition, partition_id in rows}
        moved = [
            (each, ids[each.topic, each.partition]) for each in changes if (each.topic, each.partition) in ids
        ]
        self.touch(TOPIC, {each.topic for each, _ in moved})
        return moved

    def start_epochs(self, partition_ids: Sequence[int]) -> None:
        """Fence the logs of partitions that were given another epoch."""
        if partition_ids:
            ids = [list(partition_ids)]
            for statement in (_LOCK_LOGS, _RAISE_LOG_EPOCHS, _DROP_EMPTY_EPOCHS, _START_EPOCHS):
                self.execute(statement, ids)

    def insert_partitions(self, topic: str, topic_id: bytes, added: Sequence[PartitionRegistration]) -> None:
        super().insert_partitions(topic, topic_id, added)
        numbers = [state.partition for state in added]
        ids = [
            row[0]
            for row in self.execute(
                "INSERT INTO log (partition_id, leader_epoch) SELECT partition_id, leader_epoch "
                "FROM partition WHERE topic_id = %s AND partition = ANY(%s) RETURNING partition_id",
                [DIALECT.topic_id(topic_id), numbers],
            )
        ]
        self.execute(_START_EPOCHS, [ids])

    def delete_topic(self, name: str) -> None:
        """Its chunks are deleted later, bit by bit."""
        ids = [
            row[0]
            for row in self.execute(
                "SELECT partition_id FROM partition JOIN topic USING (topic_id) WHERE name = %s "
                "ORDER BY partition_id",
                [name],
            )
        ]
        self.execute(_LOCK_LOGS, [ids])
        for table in ("log", "epoch_start", "aborted", "producer_snapshot"):
            self.execute(f"DELETE FROM {table} WHERE partition_id = ANY(%s)", [ids])
        self.execute("INSERT INTO deleted_partition SELECT unnest(%s::int[])", [ids])
        super().delete_topic(name)

    def set_configs(
        self,
        resource_type: ConfigResourceType,
        resource: str,
        configs: Mapping[str, str],
        present: Mapping[str, str] | None = None,
    ) -> None:
        kind = int(resource_type)
        statement, values = "DELETE FROM config WHERE resource_type = %s AND resource = %s", [kind, resource]
        if present is None:
            self.execute(statement, values)
            present = {}
        gone = [name for name, value in present.items() if configs.get(name) != value]
        new = {name: value for name, value in configs.items() if present.get(name) != value}
        if gone:
            self.execute(f"{statement} AND name = ANY(%s)", [*values, gone])
        if new:
            self.execute(
                "INSERT INTO config SELECT %s, %s, * FROM unnest(%s::text[], %s::text[])",
                [*values, list(new), list(new.values())],
            )
        self.touch(CONFIG, [f"{kind}/{resource}"])
