"""Rows of the cluster's metadata in PostgreSQL: reading them, and the transaction of one change."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from psycopg import Connection, errors
from psycopg.types.json import Jsonb

from klamm.protocol.types import id_to_text
from klamm.storage.cluster import (
    BrokerRegistration,
    BrokerState,
    ClusterStoreError,
    ConfigResourceType,
    ConflictError,
    FinalizedFeatures,
    LeaderChange,
    PartitionRegistration,
    TopicState,
)

KEPT_VERSIONS: Final = 10_000  # a broker that is further behind reads everything
CHANNEL: Final = "klamm"

BROKER: Final = "broker"  # the kinds of changes
TOPIC: Final = "topic"
CONFIG: Final = "config"  # key: type/name
FEATURES: Final = "features"

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


class PostgresChange:
    """The transaction of one change. The cluster's row is locked: changes follow one another."""

    __slots__ = ("connection", "execute", "version")

    def __init__(self, connection: Connection[Any], version: int) -> None:
        self.connection = connection
        self.execute = connection.execute
        self.version = version

    def touch(self, kind: str, keys: Collection[str]) -> None:
        """List something as changed, for other brokers."""
        self.execute(
            "INSERT INTO change SELECT %s, %s, key FROM unnest(%s::text[]) key ON CONFLICT DO NOTHING",
            [self.version, kind, list(keys)],
        )

    def move(self, changes: Sequence[LeaderChange], assignment: str) -> list[tuple[LeaderChange, int]]:
        """Change partitions whose leader and epoch are as expected; these, and their ids.

        `assignment` may use `n.next_leader_id`.
        """
        rows = self.execute(
            f"UPDATE partition p SET {assignment} FROM topic t, "
            "unnest(%s::text[], %s::int[], %s::int[], %s::int[], %s::int[]) "
            "n(topic, partition, leader_id, leader_epoch, next_leader_id) "
            "WHERE t.topic_id = p.topic_id AND t.name = n.topic AND p.partition = n.partition "
            "AND p.leader_id = n.leader_id AND p.leader_epoch = n.leader_epoch "
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

    def hand_over(self, changes: Sequence[LeaderChange]) -> list[LeaderChange]:
        """Make each next leader the leader at the next epoch, where the leader is as expected; these."""
        moved = self.move(
            changes, "leader_id = n.next_leader_id, leader_epoch = p.leader_epoch + 1, moving_to = -1"
        )
        self.start_epochs([partition_id for _, partition_id in moved])
        return [each for each, _ in moved]

    def start_epochs(self, partition_ids: Sequence[int]) -> None:
        """Fence the logs of partitions that were given another epoch."""
        if partition_ids:
            ids = [list(partition_ids)]
            for statement in (_LOCK_LOGS, _RAISE_LOG_EPOCHS, _DROP_EMPTY_EPOCHS, _START_EPOCHS):
                self.execute(statement, ids)

    def insert_partitions(self, topic: str, topic_id: bytes, added: Sequence[PartitionRegistration]) -> None:
        ids = [
            row[0]
            for state in added
            for row in self.execute(
                "INSERT INTO partition (topic_id, partition, preference, leader_id, leader_epoch, moving_to) "
                "VALUES (%s, %s, %s, %s, %s, %s) RETURNING partition_id",
                [
                    UUID(bytes=topic_id),
                    state.partition,
                    list(state.replicas),
                    state.leader_id,
                    state.leader_epoch,
                    state.moving_to,
                ],
            )
        ]
        self.execute(
            "INSERT INTO log (partition_id, leader_epoch) "
            "SELECT partition_id, leader_epoch FROM partition WHERE partition_id = ANY(%s)",
            [ids],
        )
        self.execute(_START_EPOCHS, [ids])
        self.touch(TOPIC, [topic])

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
        self.execute("DELETE FROM topic WHERE name = %s", [name])
        self.touch(TOPIC, [name])

    def set_configs(self, resource_type: ConfigResourceType, name: str, configs: Mapping[str, str]) -> None:
        self.execute(
            "DELETE FROM config WHERE resource_type = %s AND resource = %s", [int(resource_type), name]
        )
        self.execute(
            "INSERT INTO config SELECT %s, %s, * FROM unnest(%s::text[], %s::text[])",
            [int(resource_type), name, list(configs), list(configs.values())],
        )
        self.touch(CONFIG, [f"{int(resource_type)}/{name}"])


def insert_topic(change: PostgresChange, topic: TopicState) -> None:
    """Raises ConflictError when its name or id is taken."""
    try:
        with change.connection.transaction():
            change.execute(
                "INSERT INTO topic (topic_id, name) VALUES (%s, %s)", [UUID(bytes=topic.topic_id), topic.name]
            )
    except errors.UniqueViolation as error:
        raise ConflictError(f"topic {topic.name} or its topic id already exists") from error
    change.insert_partitions(topic.name, topic.topic_id, topic.partitions)


def read_version(connection: Connection[Any]) -> int:
    row = connection.execute("SELECT version FROM cluster").fetchone()
    if row is None:
        raise ClusterStoreError("table cluster is empty: restore the database from a backup")
    return int(row[0])


def read_brokers(connection: Connection[Any]) -> list[BrokerRegistration]:
    return [
        BrokerRegistration(
            broker_id,
            rack,
            {name: (host, port) for name, (host, port) in listeners.items()},
            epoch,
            BrokerState(state),
        )
        for broker_id, rack, listeners, epoch, state in connection.execute(
            "SELECT broker_id, rack, listeners, broker_epoch, state FROM broker ORDER BY broker_id"
        )
    ]


def listeners_json(registration: BrokerRegistration) -> Jsonb:
    return Jsonb({name: list(address) for name, address in registration.listeners.items()})


def read_topics(connection: Connection[Any], names: Collection[str] | None = None) -> dict[str, TopicState]:
    """All topics, or those of these names that exist."""
    wanted = None if names is None else list(names)
    ids: dict[str, bytes] = {}
    partitions: dict[str, list[PartitionRegistration]] = {}
    for name, topic_id, partition, preference, leader_id, epoch, moving_to in connection.execute(
        "SELECT t.name, t.topic_id, p.partition, p.preference, p.leader_id, p.leader_epoch, p.moving_to "
        "FROM topic t LEFT JOIN partition p USING (topic_id) "
        "WHERE %s::text[] IS NULL OR t.name = ANY(%s) ORDER BY t.name, p.partition",
        [wanted, wanted],
    ):
        ids[name] = topic_id.bytes
        states = partitions.setdefault(name, [])
        if partition is not None:
            states.append(PartitionRegistration(partition, tuple(preference), leader_id, epoch, moving_to))
    return {name: TopicState(name, ids[name], tuple(states)) for name, states in partitions.items()}


def require_topic(connection: Connection[Any], name: str, topic_id: bytes) -> None:
    row = connection.execute("SELECT topic_id FROM topic WHERE name = %s", [name]).fetchone()
    if row is None or row[0].bytes != topic_id:
        raise ConflictError(f"topic {name} does not have id {id_to_text(topic_id)}")


def read_all_configs(connection: Connection[Any]) -> dict[tuple[ConfigResourceType, str], dict[str, str]]:
    found: dict[tuple[ConfigResourceType, str], dict[str, str]] = {}
    for resource_type, resource, name, value in connection.execute(
        "SELECT resource_type, resource, name, value FROM config ORDER BY resource_type, resource, name"
    ):
        found.setdefault((ConfigResourceType(resource_type), resource), {})[name] = value
    return found


def read_configs(connection: Connection[Any], resource_type: ConfigResourceType, name: str) -> dict[str, str]:
    rows = connection.execute(
        "SELECT name, value FROM config WHERE resource_type = %s AND resource = %s ORDER BY name",
        [int(resource_type), name],
    )
    return dict(rows.fetchall())


def read_features(connection: Connection[Any]) -> FinalizedFeatures:
    row = connection.execute("SELECT features FROM cluster").fetchone()
    return FinalizedFeatures() if row is None or row[0] is None else FinalizedFeatures(**row[0])
