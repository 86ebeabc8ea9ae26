"""Cluster metadata in PostgreSQL.

A change is one transaction. It increments the version in the cluster's only row first, whose lock makes
changes follow one another: versions are visible in their order, without gaps.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from random import Random
from typing import Final

import psycopg
from psycopg.types.json import Jsonb

from klamm.protocol.types import id_to_text
from klamm.storage.cluster import (
    BrokerRegistration,
    BrokerState,
    ClusterStoreError,
    FencedError,
    new_topic_id,
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
from klamm.storage.engines.postgresql.rows import CHANNEL, DIALECT, PostgresChange, executing
from klamm.storage.engines.postgresql.schema import prepare_schema
from klamm.storage.engines.sql_cluster import SqlCluster
from klamm.storage.engines.sql_rows import TOPIC, SqlChange, SqlRows

SESSION_TIMEOUT_MS: Final = 9_000

_logger = logging.getLogger(__name__)


class PostgresCluster(SqlCluster):
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
        super().__init__()
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

    def changed(self) -> bool:
        return self._listener.changed()

    def set_state(self, state: BrokerState) -> None:
        self.has_left = state is BrokerState.GONE
        super().set_state(state)

    def _put_broker(self, change: SqlChange, broker: BrokerRegistration) -> None:
        change.execute(
            "INSERT INTO broker VALUES (%s, %s, %s, %s, %s, clock_timestamp(), "
            "clock_timestamp() + %s * interval '1 millisecond') ON CONFLICT (broker_id) DO UPDATE SET "
            "broker_epoch = excluded.broker_epoch, rack = excluded.rack, listeners = excluded.listeners, "
            "state = excluded.state, renewed_at = excluded.renewed_at, expires_at = excluded.expires_at",
            [
                broker.broker_id,
                broker.epoch,
                broker.rack,
                Jsonb({name: list(address) for name, address in broker.listeners.items()}),
                broker.state,
                self._session_timeout_ms,
            ],
        )

    def _declare_gone(self, change: SqlChange, broker: BrokerRegistration) -> bool:
        rules = self.lease_rules
        declared = change.execute(
            "UPDATE broker SET state = 'gone' WHERE broker_id = %(id)s AND broker_epoch = %(epoch)s AND "
            + ("state <> 'gone'" if rules is None else rules.is_dead()),
            {"id": broker.broker_id, "epoch": broker.epoch, **({} if rules is None else rules.values())},
        ).rowcount
        return bool(declared == 1)

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
    def _reading(self) -> Iterator[SqlRows]:
        with self._wrapped_errors(), self._session.use() as connection, connection.transaction():
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            yield SqlRows(executing(connection), DIALECT)

    @contextmanager
    def _writing(self) -> Iterator[SqlRows]:
        with self._wrapped_errors(), self._session.use() as connection, connection.transaction():
            yield SqlRows(executing(connection), DIALECT)

    @contextmanager
    def _changing(self, *, is_registration: bool = False) -> Iterator[PostgresChange]:
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
                    change = PostgresChange(executing(connection), DIALECT, version)
                    self._begin_change(change, version, is_registration=is_registration)
                    yield change
                    connection.execute("SELECT pg_notify(%s, %s)", [CHANNEL, str(version)])
                    is_decided = True
            except ConnectionLostError:
                if not is_decided or not self._was_committed(transaction_id):
                    raise

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
