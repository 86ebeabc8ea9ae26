"""The ClusterStore of a database: what every engine does alike.

A change is one transaction that increments the version. An engine says how transactions begin and end, what
its dialect is, and how it learns that another process has changed something.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Final

from klamm.storage.cluster import (
    LAST_PRODUCER_ID,
    BrokerRegistration,
    BrokerState,
    ClusterChanges,
    ConfigChange,
    ConfigResourceType,
    ConflictError,
    FencedError,
    FinalizedFeatures,
    LeaderChange,
    PartitionRegistration,
    TopicState,
    follow_on,
    set_levels,
)
from klamm.storage.engines.sql_rows import BROKER, CONFIG, FEATURES, TOPIC, SqlChange, SqlRows

KEPT_VERSIONS: Final = 10_000  # a broker that is further behind reads everything


class SqlCluster(ABC):
    """A ClusterStore in a database. Raises ClusterStoreError when it cannot be used."""

    def __init__(self) -> None:
        self._cluster_id = ""
        self._me: BrokerRegistration | None = None

    # --- what engines do in their own way --------------------------------------------------------------

    @abstractmethod
    def _reading(self) -> AbstractContextManager[SqlRows]:
        """A consistent view over several statements."""

    @abstractmethod
    def _writing(self) -> AbstractContextManager[SqlRows]:
        """A transaction that is no change of the version."""

    @abstractmethod
    def _changing(self, *, is_registration: bool = False) -> AbstractContextManager[SqlChange]:
        """A transaction that increments the version; FencedError when another process is this broker now.

        Until a registration is complete, what other threads change is that of the former one.
        """

    @abstractmethod
    def _put_broker(self, change: SqlChange, broker: BrokerRegistration) -> None:
        """Insert or replace a broker's row."""

    @abstractmethod
    def _declare_gone(self, change: SqlChange, broker: BrokerRegistration) -> bool:
        """Declare a broker gone, if it has this epoch and may be declared so; whether it was."""

    @abstractmethod
    def changed(self) -> bool: ...
    @abstractmethod
    def close(self) -> None: ...

    def _begin_change(self, rows: SqlRows, version: int, *, is_registration: bool) -> None:
        """What every change does first. Raises FencedError."""
        me = self._me
        if me is not None and not is_registration:
            row = rows.execute(
                "SELECT 1 FROM broker WHERE broker_id = %s AND broker_epoch = %s AND state <> 'gone'",
                [me.broker_id, me.epoch],
            ).fetchone()
            if row is None:
                raise FencedError(f"broker {me.broker_id} was replaced or declared dead")
        rows.execute("DELETE FROM change WHERE version <= %s", [version - KEPT_VERSIONS])

    # --- versions --------------------------------------------------------------------------------------

    @property
    def cluster_id(self) -> str:
        return self._cluster_id

    @property
    def me(self) -> BrokerRegistration | None:
        """The broker that registered with this store."""
        return self._me

    def version(self) -> int:
        with self._reading() as rows:
            return rows.version()

    def changes(self, since_version: int) -> ClusterChanges:
        with self._reading() as rows:
            version = rows.version()
            # A version that is not there yet: the database was restored to an earlier state.
            if since_version == 0 or not 0 <= version - since_version <= KEPT_VERSIONS:
                return ClusterChanges(
                    version,
                    tuple(rows.brokers()),
                    rows.topics(),
                    rows.all_configs(),
                    rows.features(),
                    is_complete=True,
                )
            touched = rows.touched(since_version)
            broker_ids = {int(key) for key in touched[BROKER]}
            resources = [key.split("/", 1) for key in touched[CONFIG]]
            present = rows.topics(touched[TOPIC])
            return ClusterChanges(
                version,
                tuple(each for each in rows.brokers() if each.broker_id in broker_ids),
                {name: present.get(name) for name in touched[TOPIC]},
                {
                    (kind := ConfigResourceType(int(number)), name): rows.configs(kind, name)
                    for number, name in resources
                },
                rows.features() if touched[FEATURES] else None,
            )

    # --- brokers and leaders ---------------------------------------------------------------------------

    def register(self, registration: BrokerRegistration) -> BrokerRegistration:
        with self._changing(is_registration=True) as change:
            registered = replace(
                registration, listeners=dict(registration.listeners), epoch=change.version_number
            )
            self._put_broker(change, registered)
            change.touch(BROKER, [str(registered.broker_id)])
            change.raise_epochs_of(registered.broker_id)
        self._me = registered
        return registered

    def set_state(self, state: BrokerState) -> None:
        me = self._me
        assert me is not None, "no broker has registered with this store"
        with self._changing() as change:
            change.execute("UPDATE broker SET state = %s WHERE broker_id = %s", [str(state), me.broker_id])
            change.touch(BROKER, [str(me.broker_id)])

    def take_over(self, gone: BrokerRegistration, leaders: Sequence[LeaderChange]) -> None:
        with self._changing() as change:
            if not self._declare_gone(change, gone):
                raise ConflictError(f"broker {gone.broker_id} is gone already, back, or still alive")
            change.touch(BROKER, [str(gone.broker_id)])
            (led,) = change.execute(
                "SELECT count(*) FROM partition WHERE leader_id = %s", [gone.broker_id]
            ).fetchone()
            if len(change.hand_over(leaders)) != led or len(leaders) != led:
                raise ConflictError(f"broker {gone.broker_id} leads other partitions")

    def start_moves(self, moves: Sequence[LeaderChange]) -> Sequence[LeaderChange]:
        with self._changing() as change:
            running = {
                broker_id
                for (broker_id,) in change.execute("SELECT broker_id FROM broker WHERE state = 'running'")
            }
            possible = [each for each in moves if each.next_leader_id in running]
            return [each for each, _ in change.move(possible, "moving_to = {next_leader_id}")]

    def finish_moves(self, moves: Sequence[LeaderChange]) -> Sequence[LeaderChange]:
        with self._changing() as change:
            return change.hand_over(moves)

    def cancel_moves(self, moves: Sequence[LeaderChange]) -> None:
        with self._changing() as change:
            change.move(moves, "moving_to = -1")

    def replace_replicas(self, topic: str, partition: int, replicas: Sequence[int]) -> None:
        with self._changing() as change:
            if not change.replace_replicas(topic, partition, replicas):
                raise ConflictError(f"partition {topic}-{partition} does not exist")

    def brokers(self) -> Sequence[BrokerRegistration]:
        with self._reading() as rows:
            return rows.brokers()

    # --- topics ----------------------------------------------------------------------------------------

    def topics(self) -> Mapping[str, TopicState]:
        with self._reading() as rows:
            return rows.topics()

    def create_topic(self, topic: TopicState, configs: Mapping[str, str]) -> None:
        if not follow_on(0, topic.partitions):
            raise ValueError(f"partitions of {topic.name} are not numbered from 0")
        with self._changing() as change:
            change.insert_topic(topic)
            change.set_configs(ConfigResourceType.TOPIC, topic.name, configs)

    def delete_topic(self, name: str, topic_id: bytes) -> None:
        with self._changing() as change:
            change.require_topic(name, topic_id)
            change.delete_topic(name)
            change.set_configs(ConfigResourceType.TOPIC, name, {})

    def add_partitions(self, name: str, topic_id: bytes, added: Sequence[PartitionRegistration]) -> None:
        with self._changing() as change:
            change.require_topic(name, topic_id)
            (present,) = change.execute(
                "SELECT count(*) FROM partition p JOIN topic t ON t.topic_id = p.topic_id WHERE name = %s",
                [name],
            ).fetchone()
            if not follow_on(present, added):
                raise ConflictError(f"topic {name} now has {present} partitions")
            change.insert_partitions(name, topic_id, added)

    # --- configurations, features, producer ids --------------------------------------------------------

    def configs(self, resource_type: ConfigResourceType, name: str) -> Mapping[str, str]:
        with self._reading() as rows:
            return rows.configs(resource_type, name)

    def all_configs(self) -> Mapping[tuple[ConfigResourceType, str], Mapping[str, str]]:
        with self._reading() as rows:
            return rows.all_configs()

    def replace_configs(
        self,
        resource_type: ConfigResourceType,
        name: str,
        configs: Mapping[str, str],
        *,
        expected: Mapping[str, str] | None = None,
    ) -> None:
        with self._changing() as change:
            if resource_type is ConfigResourceType.TOPIC:
                found = change.execute("SELECT 1 FROM topic WHERE name = %s", [name]).fetchone()
                if found is None:
                    raise ConflictError(f"topic {name} does not exist")
            if expected is not None and change.configs(resource_type, name) != expected:
                raise ConflictError(f"configuration of {name} was changed concurrently")
            change.set_configs(resource_type, name, configs)

    def replace_all_configs(
        self, resource_type: ConfigResourceType, changes: Sequence[ConfigChange]
    ) -> Collection[str]:
        lost: list[str] = []
        with self._changing() as change:
            for each in changes:
                if change.configs(resource_type, each.name) == each.expected:
                    change.set_configs(resource_type, each.name, each.configs, each.expected)
                else:
                    lost.append(each.name)
        return lost

    def features(self) -> FinalizedFeatures:
        with self._reading() as rows:
            return rows.features()

    def finalize_features(self, levels: Mapping[str, int], *, expected_epoch: int) -> FinalizedFeatures:
        finalized = FinalizedFeatures(expected_epoch + 1, set_levels(levels))
        with self._changing() as change:
            if change.features().epoch != expected_epoch:
                raise ConflictError("the finalized features changed meanwhile")
            change.set_features(finalized)
        return finalized

    def allocate_producer_ids(self, count: int) -> range:
        if count < 1:
            raise ValueError(f"invalid producer id block size {count}: expected at least 1")
        if count > LAST_PRODUCER_ID:
            raise OverflowError("producer ids are exhausted")
        with self._writing() as rows:
            # One past the last id must still fit 64 bits.
            enough = rows.execute(
                "UPDATE cluster SET next_producer_id = next_producer_id + %s WHERE next_producer_id <= %s",
                [count, LAST_PRODUCER_ID - count],
            ).rowcount
            if not enough:
                raise OverflowError("producer ids are exhausted")
            (end,) = rows.execute("SELECT next_producer_id FROM cluster").fetchone()
        return range(end - count, end)
