"""Cluster metadata in PostgreSQL.

A change is one transaction. It increments the version in the cluster's only row first, whose lock makes
changes follow one another: versions are visible in their order, without gaps.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from random import Random
from typing import Any, Final

import psycopg
from psycopg import Connection
from psycopg.types.json import Jsonb

from klamm.protocol.lazy_dataclass import replace
from klamm.protocol.types import id_to_text
from klamm.storage.cluster import (
    LAST_PRODUCER_ID,
    BrokerRegistration,
    BrokerState,
    ClusterChanges,
    ClusterStoreError,
    ConfigResourceType,
    ConflictError,
    FencedError,
    FinalizedFeatures,
    LeaderChange,
    PartitionRegistration,
    TopicState,
    follow_on,
    new_topic_id,
    set_levels,
)
from klamm.storage.engines.postgresql.connection import (
    Address,
    ConnectionLostError,
    Session,
    StoreUnavailableError,
    check_server,
    unavailable,
)
from klamm.storage.engines.postgresql.lease_rules import LeaseRules
from klamm.storage.engines.postgresql.listening import ChangeListener
from klamm.storage.engines.postgresql.rows import (
    BROKER,
    CHANNEL,
    CONFIG,
    FEATURES,
    KEPT_VERSIONS,
    TOPIC,
    PostgresChange,
    insert_topic,
    listeners_json,
    read_all_configs,
    read_brokers,
    read_configs,
    read_features,
    read_topics,
    read_version,
    require_topic,
)
from klamm.storage.engines.postgresql.schema import prepare_schema

SESSION_TIMEOUT_MS: Final = 9_000

_logger = logging.getLogger(__name__)


class PostgresCluster:
    """A ClusterStore in PostgreSQL. Raises ClusterStoreError when the database cannot be used."""

    def __init__(
        self,
        url: str,
        *,
        random: Random,
        must_be_durable: bool = True,
        session_timeout_ms: int = SESSION_TIMEOUT_MS,
        make_address: Callable[[str], Address] = Address,
    ) -> None:
        """`make_address` decides how connections are made: simulations have their own."""
        self._me: BrokerRegistration | None = None
        self.has_left = False  # this broker has stopped, by itself
        self.lease_rules: LeaseRules | None = None  # what a take-over checks
        self._session_timeout_ms = session_timeout_ms
        with self._wrapped_errors():
            self.address = make_address(url)
            self._session = Session(
                self.address,
                "cluster",
                prepare=lambda connection: check_server(
                    connection, self.address, must_be_durable=must_be_durable
                ),
            )
            try:
                with self._session.use() as connection:
                    self._cluster_id = prepare_schema(
                        connection, self.address, id_to_text(new_topic_id(random))
                    )
            except BaseException:
                self._session.close()
                raise
        self._listener = ChangeListener(self.address)

    @property
    def cluster_id(self) -> str:
        return self._cluster_id

    @property
    def me(self) -> BrokerRegistration | None:
        """The broker that registered with this store."""
        return self._me

    def version(self) -> int:
        with self._reading() as connection:
            return read_version(connection)

    def changed(self) -> bool:
        return self._listener.changed()

    def changes(self, since_version: int) -> ClusterChanges:
        with self._reading() as connection:
            version = read_version(connection)
            # A version that is not there yet: the database was restored to an earlier state.
            if since_version == 0 or not 0 <= version - since_version <= KEPT_VERSIONS:
                return ClusterChanges(
                    version,
                    tuple(read_brokers(connection)),
                    dict(read_topics(connection)),
                    read_all_configs(connection),
                    read_features(connection),
                    is_complete=True,
                )
            touched: dict[str, set[str]] = {BROKER: set(), TOPIC: set(), CONFIG: set(), FEATURES: set()}
            for kind, key in connection.execute(
                "SELECT DISTINCT kind, key FROM change WHERE version > %s", [since_version]
            ):
                touched[kind].add(key)
            broker_ids = {int(key) for key in touched[BROKER]}
            resources = [key.split("/", 1) for key in touched[CONFIG]]
            present = read_topics(connection, touched[TOPIC])
            return ClusterChanges(
                version,
                tuple(each for each in read_brokers(connection) if each.broker_id in broker_ids),
                {name: present.get(name) for name in touched[TOPIC]},
                {
                    (ConfigResourceType(int(kind)), name): read_configs(
                        connection, ConfigResourceType(int(kind)), name
                    )
                    for kind, name in resources
                },
                read_features(connection) if touched[FEATURES] else None,
            )

    # --- brokers and leaders ---------------------------------------------------------------------------

    def register(self, registration: BrokerRegistration) -> BrokerRegistration:
        with self._changing(is_registration=True) as change:
            registered = replace(registration, listeners=dict(registration.listeners), epoch=change.version)
            change.execute(
                "INSERT INTO broker VALUES (%s, %s, %s, %s, %s, clock_timestamp(), "
                "clock_timestamp() + %s * interval '1 millisecond') ON CONFLICT (broker_id) DO UPDATE SET "
                "broker_epoch = excluded.broker_epoch, rack = excluded.rack, listeners = excluded.listeners, "
                "state = excluded.state, renewed_at = excluded.renewed_at, expires_at = excluded.expires_at",
                [
                    registered.broker_id,
                    registered.epoch,
                    registered.rack,
                    listeners_json(registered),
                    registered.state,
                    self._session_timeout_ms,
                ],
            )
            change.touch(BROKER, [str(registered.broker_id)])
            led = change.execute(
                "UPDATE partition p SET leader_epoch = leader_epoch + 1, moving_to = -1 FROM topic t "
                "WHERE t.topic_id = p.topic_id AND leader_id = %s RETURNING t.name, p.partition_id",
                [registered.broker_id],
            ).fetchall()
            change.touch(TOPIC, {topic for topic, _ in led})
            change.start_epochs([partition_id for _, partition_id in led])
        self._me = registered
        return registered

    def set_state(self, state: BrokerState) -> None:
        me = self._me
        assert me is not None, "no broker has registered with this store"
        self.has_left = state is BrokerState.GONE
        with self._changing() as change:
            change.execute("UPDATE broker SET state = %s WHERE broker_id = %s", [state, me.broker_id])
            change.touch(BROKER, [str(me.broker_id)])

    def take_over(self, gone: BrokerRegistration, leaders: Sequence[LeaderChange]) -> None:
        with self._changing() as change:
            rules = self.lease_rules
            declared = change.execute(
                "UPDATE broker SET state = 'gone' WHERE broker_id = %(id)s AND broker_epoch = %(epoch)s AND "
                + ("state <> 'gone'" if rules is None else rules.is_dead()),
                {"id": gone.broker_id, "epoch": gone.epoch, **({} if rules is None else rules.values())},
            ).rowcount
            if declared != 1:
                raise ConflictError(f"broker {gone.broker_id} is gone already, back, or still alive")
            change.touch(BROKER, [str(gone.broker_id)])
            (led,) = change.execute(
                "SELECT count(*) FROM partition WHERE leader_id = %s", [gone.broker_id]
            ).fetchone() or (0,)
            if len(change.hand_over(leaders)) != led or len(leaders) != led:
                raise ConflictError(f"broker {gone.broker_id} leads other partitions")

    def start_moves(self, moves: Sequence[LeaderChange]) -> Sequence[LeaderChange]:
        with self._changing() as change:
            running = {
                broker_id
                for (broker_id,) in change.execute("SELECT broker_id FROM broker WHERE state = 'running'")
            }
            possible = [each for each in moves if each.next_leader_id in running]
            return [each for each, _ in change.move(possible, "moving_to = n.next_leader_id")]

    def finish_moves(self, moves: Sequence[LeaderChange]) -> Sequence[LeaderChange]:
        with self._changing() as change:
            return change.hand_over(moves)

    def cancel_moves(self, moves: Sequence[LeaderChange]) -> None:
        with self._changing() as change:
            change.move(moves, "moving_to = -1")

    def replace_replicas(self, topic: str, partition: int, replicas: Sequence[int]) -> None:
        with self._changing() as change:
            found = change.execute(
                "UPDATE partition p SET preference = %s FROM topic t "
                "WHERE t.topic_id = p.topic_id AND t.name = %s AND p.partition = %s",
                [list(replicas), topic, partition],
            ).rowcount
            if found != 1:
                raise ConflictError(f"partition {topic}-{partition} does not exist")
            change.touch(TOPIC, [topic])

    def brokers(self) -> Sequence[BrokerRegistration]:
        with self._reading() as connection:
            return read_brokers(connection)

    # --- topics ----------------------------------------------------------------------------------------

    def topics(self) -> Mapping[str, TopicState]:
        with self._reading() as connection:
            return read_topics(connection)

    def create_topic(self, topic: TopicState, configs: Mapping[str, str]) -> None:
        if not follow_on(0, topic.partitions):
            raise ValueError(f"partitions of {topic.name} are not numbered from 0")
        with self._changing() as change:
            insert_topic(change, topic)
            change.set_configs(ConfigResourceType.TOPIC, topic.name, configs)

    def delete_topic(self, name: str, topic_id: bytes) -> None:
        with self._changing() as change:
            require_topic(change.connection, name, topic_id)
            change.delete_topic(name)
            change.set_configs(ConfigResourceType.TOPIC, name, {})

    def add_partitions(self, name: str, topic_id: bytes, added: Sequence[PartitionRegistration]) -> None:
        with self._changing() as change:
            require_topic(change.connection, name, topic_id)
            (present,) = change.execute(
                "SELECT count(*) FROM partition JOIN topic USING (topic_id) WHERE name = %s", [name]
            ).fetchone() or (0,)
            if not follow_on(present, added):
                raise ConflictError(f"topic {name} now has {present} partitions")
            change.insert_partitions(name, topic_id, added)

    # --- configurations, features, producer ids --------------------------------------------------------

    def configs(self, resource_type: ConfigResourceType, name: str) -> Mapping[str, str]:
        with self._reading() as connection:
            return read_configs(connection, resource_type, name)

    def all_configs(self) -> Mapping[tuple[ConfigResourceType, str], Mapping[str, str]]:
        with self._reading() as connection:
            return read_all_configs(connection)

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
            if expected is not None and read_configs(change.connection, resource_type, name) != expected:
                raise ConflictError(f"configuration of {name} was changed concurrently")
            change.set_configs(resource_type, name, configs)

    def features(self) -> FinalizedFeatures:
        with self._reading() as connection:
            return read_features(connection)

    def finalize_features(self, levels: Mapping[str, int], *, expected_epoch: int) -> FinalizedFeatures:
        finalized = FinalizedFeatures(expected_epoch + 1, set_levels(levels))
        with self._changing() as change:
            if read_features(change.connection).epoch != expected_epoch:
                raise ConflictError("the finalized features changed meanwhile")
            change.execute(
                "UPDATE cluster SET features = %s",
                [Jsonb({"epoch": finalized.epoch, "levels": dict(finalized.levels)})],
            )
            change.touch(FEATURES, [""])
        return finalized

    def allocate_producer_ids(self, count: int) -> range:
        if count < 1:
            raise ValueError(f"invalid producer id block size {count}: expected at least 1")
        if count > LAST_PRODUCER_ID:
            raise OverflowError("producer ids are exhausted")
        with self._wrapped_errors(), self._session.use() as connection:
            row = connection.execute(
                "UPDATE cluster SET next_producer_id = next_producer_id + %s "
                "WHERE next_producer_id <= %s RETURNING next_producer_id",
                [count, LAST_PRODUCER_ID - count],
            ).fetchone()
        if row is None:
            raise OverflowError("producer ids are exhausted")
        return range(row[0] - count, row[0])

    # --- logs ------------------------------------------------------------------------------------------

    def raise_epochs(self, expected: Mapping[int, int]) -> dict[int, int]:
        """Give partitions that this broker leads at these epochs the next one; the end of their logs.

        It waits for appends of the old epochs that are under way: afterwards none takes effect. Partitions
        that have another leader or epoch by now are left out. Both are keyed by partition id.
        """
        me = self._me
        if me is None:
            # A round was under way when the broker found itself replaced.
            raise FencedError("this broker registers anew")
        ids = sorted(expected)
        with self._changing() as change:
            raised = change.execute(
                "UPDATE partition p SET leader_epoch = p.leader_epoch + 1 "
                "FROM topic t, unnest(%s::int[], %s::int[]) n(id, epoch) WHERE p.topic_id = t.topic_id "
                "AND p.partition_id = n.id AND p.leader_epoch = n.epoch AND p.leader_id = %s "
                "RETURNING p.partition_id, t.name",
                [ids, [expected[each] for each in ids], me.broker_id],
            ).fetchall()
            change.touch(TOPIC, {topic for _, topic in raised})
            change.start_epochs([partition_id for partition_id, _ in raised])
            return dict(
                change.execute(
                    "SELECT partition_id, end_offset FROM log WHERE partition_id = ANY(%s)",
                    [[partition_id for partition_id, _ in raised]],
                ).fetchall()
            )

    def close(self) -> None:
        self._listener.close()
        self._session.close()

    # --- transactions ----------------------------------------------------------------------------------

    @contextmanager
    def _reading(self) -> Iterator[Connection[Any]]:
        """A consistent view over several statements."""
        with self._wrapped_errors(), self._session.use() as connection, connection.transaction():
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            yield connection

    @contextmanager
    def _changing(self, *, is_registration: bool = False) -> Iterator[PostgresChange]:
        """A transaction that increments the version; FencedError when another process is this broker now.

        Until a registration is complete, what other threads change is that of the former one.
        """
        transaction_id = ""
        is_decided = False
        with self._wrapped_errors():
            try:
                with self._session.use() as connection, connection.transaction():
                    row = connection.execute(
                        "UPDATE cluster SET version = version + 1 "
                        "RETURNING version, pg_current_xact_id()::text"
                    ).fetchone()
                    assert row is not None
                    version, transaction_id = row
                    if not is_registration:
                        self._check_registration(connection)
                    connection.execute("DELETE FROM change WHERE version <= %s", [version - KEPT_VERSIONS])
                    yield PostgresChange(connection, version)
                    connection.execute("SELECT pg_notify(%s, %s)", [CHANNEL, str(version)])
                    is_decided = True
            except ConnectionLostError:
                if not is_decided or not self._was_committed(transaction_id):
                    raise

    def _check_registration(self, connection: Connection[Any]) -> None:
        me = self._me
        if me is None:
            return
        row = connection.execute(
            "SELECT 1 FROM broker WHERE broker_id = %s AND broker_epoch = %s AND state <> 'gone'",
            [me.broker_id, me.epoch],
        ).fetchone()
        if row is None:
            raise FencedError(f"broker {me.broker_id} was replaced or declared dead")

    def _was_committed(self, transaction_id: str) -> bool:
        """Whether a transaction took effect whose answer was lost. Waits while it is in progress."""
        with self._session.use() as connection:
            # Its lock on this row: while the old session still commits, this statement waits.
            connection.execute("SELECT 1 FROM cluster FOR UPDATE")
            row = connection.execute("SELECT pg_xact_status(%s::xid8)", [transaction_id]).fetchone()
        is_committed = row is not None and row[0] == "committed"
        _logger.warning(
            "%s: connection lost while committing a change, which was %s",
            self.address.text,
            "committed" if is_committed else "not committed",
        )
        return is_committed

    @contextmanager
    def _wrapped_errors(self) -> Iterator[None]:
        try:
            yield
        except (StoreUnavailableError, ConnectionLostError) as error:
            raise ClusterStoreError(str(error)) from error
        except psycopg.Error as error:
            # There is no address if the URL itself is wrong, but then no statement either.
            raise ClusterStoreError(str(unavailable(self.address, error))) from error
