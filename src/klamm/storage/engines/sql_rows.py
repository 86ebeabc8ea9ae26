"""Rows of the cluster's metadata in a database: reading them, and the transaction of one change.

Statements are written once, with `%s` for each value. A dialect says what databases do in different ways; an
engine replaces methods of `SqlChange` where one statement for many rows saves it round trips.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final, Protocol

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

BROKER: Final = "broker"  # the kinds of changes
TOPIC: Final = "topic"
CONFIG: Final = "config"  # key: type/name
FEATURES: Final = "features"

_TOPICS: Final = (
    "SELECT t.name, t.topic_id, p.partition, p.preference, p.leader_id, p.leader_epoch, p.moving_to "
    "FROM topic t LEFT JOIN partition p ON p.topic_id = t.topic_id {} ORDER BY t.name, p.partition"
)

Values = Sequence[Any] | Mapping[str, Any]
Execute = Callable[[str, Values], Any]  # a statement and its values; the result is a cursor


class Dialect(Protocol):
    """How a database keeps topic ids, JSON and lists of numbers, and how it is asked for some names."""

    def topic_id(self, topic_id: bytes) -> Any: ...
    def topic_id_of(self, value: Any) -> bytes: ...
    def json(self, value: object) -> Any: ...
    def json_of(self, value: Any) -> Any: ...
    def numbers(self, numbers: Sequence[int]) -> Any: ...
    def numbers_of(self, value: Any) -> Sequence[int]: ...
    def is_among(self, column: str) -> str:
        """The condition that a column has one of the names of one value."""
        ...

    def names(self, names: Collection[str]) -> Any:
        """That value."""
        ...


class SqlRows:
    """The rows as one transaction sees them."""

    def __init__(self, execute: Execute, dialect: Dialect) -> None:
        self._execute = execute
        self._dialect = dialect

    def execute(self, statement: str, values: Values = ()) -> Any:
        """Run a statement; its cursor."""
        return self._execute(statement, values)

    def version(self) -> int:
        row = self.execute("SELECT version FROM cluster").fetchone()
        if row is None:
            raise ClusterStoreError("table cluster is empty: restore the database from a backup")
        return int(row[0])

    def brokers(self) -> list[BrokerRegistration]:
        return [
            BrokerRegistration(
                broker_id,
                rack,
                {name: (host, port) for name, (host, port) in self._dialect.json_of(listeners).items()},
                epoch,
                BrokerState(state),
            )
            for broker_id, rack, listeners, epoch, state in self.execute(
                "SELECT broker_id, rack, listeners, broker_epoch, state FROM broker ORDER BY broker_id"
            )
        ]

    def topics(self, names: Collection[str] | None = None) -> dict[str, TopicState]:
        """All topics, or those of these names that exist."""
        dialect = self._dialect
        if names is None:
            rows = self.execute(_TOPICS.format(""))
        else:
            rows = self.execute(_TOPICS.format("WHERE " + dialect.is_among("t.name")), [dialect.names(names)])
        ids: dict[str, bytes] = {}
        partitions: dict[str, list[PartitionRegistration]] = {}
        for name, topic_id, partition, preference, leader_id, epoch, moving_to in rows:
            ids[name] = dialect.topic_id_of(topic_id)
            states = partitions.setdefault(name, [])
            if partition is not None:
                replicas = tuple(dialect.numbers_of(preference))
                states.append(PartitionRegistration(partition, replicas, leader_id, epoch, moving_to))
        return {name: TopicState(name, ids[name], tuple(states)) for name, states in partitions.items()}

    def require_topic(self, name: str, topic_id: bytes) -> None:
        """Raises ConflictError unless a topic has this id."""
        row = self.execute("SELECT topic_id FROM topic WHERE name = %s", [name]).fetchone()
        if row is None or self._dialect.topic_id_of(row[0]) != topic_id:
            raise ConflictError(f"topic {name} does not have id {id_to_text(topic_id)}")

    def all_configs(self) -> dict[tuple[ConfigResourceType, str], dict[str, str]]:
        found: dict[tuple[ConfigResourceType, str], dict[str, str]] = {}
        for resource_type, resource, name, value in self.execute(
            "SELECT resource_type, resource, name, value FROM config ORDER BY resource_type, resource, name"
        ):
            found.setdefault((ConfigResourceType(resource_type), resource), {})[name] = value
        return found

    def configs(self, resource_type: ConfigResourceType, resource: str) -> dict[str, str]:
        rows = self.execute(
            "SELECT name, value FROM config WHERE resource_type = %s AND resource = %s ORDER BY name",
            [int(resource_type), resource],
        )
        return dict(rows.fetchall())

    def features(self) -> FinalizedFeatures:
        row = self.execute("SELECT features FROM cluster").fetchone()
        if row is None or row[0] is None:
            return FinalizedFeatures()
        return FinalizedFeatures(**self._dialect.json_of(row[0]))

    def touched(self, since_version: int) -> dict[str, set[str]]:
        """What was changed after a version: the keys of each kind."""
        touched: dict[str, set[str]] = {kind: set() for kind in (BROKER, TOPIC, CONFIG, FEATURES)}
        for kind, key in self.execute(
            "SELECT DISTINCT kind, key FROM change WHERE version > %s", [since_version]
        ):
            touched[kind].add(key)
        return touched


class SqlChange(SqlRows):
    """The transaction of one change. Changes follow one another: no other one is under way."""

    def __init__(self, execute: Execute, dialect: Dialect, version: int) -> None:
        super().__init__(execute, dialect)
        self.version_number = version

    def execute_many(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        """Run a statement once for each row of values."""
        for row in rows:
            self.execute(statement, row)

    def touch(self, kind: str, keys: Iterable[str]) -> None:
        """List things as changed, for other brokers."""
        self.execute_many(
            "INSERT INTO change VALUES (%s, %s, %s) ON CONFLICT DO NOTHING",
            [(self.version_number, kind, key) for key in keys],
        )

    def move(self, changes: Sequence[LeaderChange], assignment: str) -> list[tuple[LeaderChange, int]]:
        """Change partitions whose leader and epoch are as expected; these, and their ids.

        `assignment` may have `{next_leader_id}` once.
        """
        moved = []
        has_next = "{next_leader_id}" in assignment
        assignment = assignment.format(next_leader_id="%s")
        for each in changes:
            row = self.execute(
                "SELECT partition_id FROM partition p JOIN topic t ON t.topic_id = p.topic_id "
                "WHERE t.name = %s AND p.partition = %s AND leader_id = %s AND leader_epoch = %s",
                [each.topic, each.partition, each.leader_id, each.leader_epoch],
            ).fetchone()
            if row is not None:
                self.execute(
                    f"UPDATE partition SET {assignment} WHERE partition_id = %s",
                    [each.next_leader_id, *row] if has_next else row,
                )
                moved.append((each, row[0]))
        self.touch(TOPIC, {each.topic for each, _ in moved})
        return moved

    def hand_over(self, changes: Sequence[LeaderChange]) -> list[LeaderChange]:
        """Make each next leader the leader at the next epoch, where the leader is as expected; these."""
        moved = self.move(
            changes, "leader_id = {next_leader_id}, leader_epoch = leader_epoch + 1, moving_to = -1"
        )
        self.start_epochs([partition_id for _, partition_id in moved])
        return [each for each, _ in moved]

    def raise_epochs_of(self, leader_id: int) -> None:
        """Give the partitions of a leader the next epoch."""
        led = self.execute(
            "SELECT t.name, p.partition_id FROM partition p JOIN topic t ON t.topic_id = p.topic_id "
            "WHERE leader_id = %s",
            [leader_id],
        ).fetchall()
        self.execute(
            "UPDATE partition SET leader_epoch = leader_epoch + 1, moving_to = -1 WHERE leader_id = %s",
            [leader_id],
        )
        self.touch(TOPIC, {topic for topic, _ in led})
        self.start_epochs([partition_id for _, partition_id in led])

    def start_epochs(self, partition_ids: Sequence[int]) -> None:
        """Partitions were given another epoch: for logs that are in the same database."""

    def insert_topic(self, topic: TopicState) -> None:
        """Raises ConflictError when its name or id is taken."""
        stored_id = self._dialect.topic_id(topic.topic_id)
        taken = self.execute(
            "SELECT 1 FROM topic WHERE name = %s OR topic_id = %s", [topic.name, stored_id]
        ).fetchone()
        if taken is not None:
            raise ConflictError(f"topic {topic.name} or its topic id already exists")
        self.execute("INSERT INTO topic (topic_id, name) VALUES (%s, %s)", [stored_id, topic.name])
        self.insert_partitions(topic.name, topic.topic_id, topic.partitions)

    def insert_partitions(self, topic: str, topic_id: bytes, added: Sequence[PartitionRegistration]) -> None:
        self.execute_many(
            "INSERT INTO partition (topic_id, partition, preference, leader_id, leader_epoch, moving_to) "
            "VALUES (%s, %s, %s, %s, %s, %s)",
            [self.partition_row(topic_id, state) for state in added],
        )
        self.touch(TOPIC, [topic])

    def partition_row(self, topic_id: bytes, state: PartitionRegistration) -> Sequence[Any]:
        """The values that are inserted for a partition."""
        return (
            self._dialect.topic_id(topic_id),
            state.partition,
            self._dialect.numbers(state.replicas),
            state.leader_id,
            state.leader_epoch,
            state.moving_to,
        )

    def replace_replicas(self, topic: str, partition: int, replicas: Sequence[int]) -> bool:
        """Whether there is such a partition."""
        found = self.execute(
            "UPDATE partition SET preference = %s WHERE partition = %s "
            "AND topic_id = (SELECT topic_id FROM topic WHERE name = %s)",
            [self._dialect.numbers(replicas), partition, topic],
        ).rowcount
        self.touch(TOPIC, [topic])
        return bool(found == 1)

    def delete_topic(self, name: str) -> None:
        self.execute("DELETE FROM topic WHERE name = %s", [name])
        self.touch(TOPIC, [name])

    def set_configs(
        self,
        resource_type: ConfigResourceType,
        resource: str,
        configs: Mapping[str, str],
        present: Mapping[str, str] | None = None,
    ) -> None:
        """Replace a configuration; only rows that differ are written where the present one is known."""
        kind = int(resource_type)
        if present is None:
            self.execute("DELETE FROM config WHERE resource_type = %s AND resource = %s", [kind, resource])
            present = {}
        self.execute_many(
            "DELETE FROM config WHERE resource_type = %s AND resource = %s AND name = %s",
            [(kind, resource, name) for name, value in present.items() if configs.get(name) != value],
        )
        self.execute_many(
            "INSERT INTO config (resource_type, resource, name, value) VALUES (%s, %s, %s, %s)",
            [(kind, resource, name, value) for name, value in configs.items() if present.get(name) != value],
        )
        self.touch(CONFIG, [f"{kind}/{resource}"])

    def set_features(self, features: FinalizedFeatures) -> None:
        value = {"epoch": features.epoch, "levels": dict(features.levels)}
        self.execute("UPDATE cluster SET features = %s", [self._dialect.json(value)])
        self.touch(FEATURES, [""])
