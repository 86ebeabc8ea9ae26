"""The lease of a broker as a row in PostgreSQL, judged by the database's clock.

The session that renews it also has an advisory lock. The lock ends with its session, also after kill -9: a
broker whose lock is free and that was silent for longer than the serve window is dead, some seconds before
its lease expires. The lock alone proves nothing, because a broker may only have lost its connection.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import psycopg
from psycopg import Connection

from klamm.broker.cluster.lease import LeaseHolder
from klamm.storage.cluster import BrokerRegistration, ClusterStoreError, FencedError
from klamm.storage.engines.postgresql.cluster import PostgresCluster
from klamm.storage.engines.postgresql.connection import (
    ConnectionLostError,
    Session,
    StoreUnavailableError,
    check_not_pooled,
    unavailable,
)
from klamm.storage.engines.postgresql.lease_rules import LeaseRules

_CACHED_MS: Final = 200  # how old the state of other brokers may be, when deaths are looked for


class PostgresLease:
    """The lease of one broker id. See `Lease`."""

    ends_by_silence = True

    def __init__(
        self, cluster: PostgresCluster, broker_id: int, rules: LeaseRules, *, renewal_timeout_ms: int
    ) -> None:
        self._cluster = cluster
        self._broker_id = broker_id
        self._rules = rules
        self._address = cluster.address
        self._epoch = -1
        self._is_acquired = False
        self._session = Session(
            cluster.address, "lease", statement_timeout_ms=renewal_timeout_ms, prepare=self._connected
        )
        self._dead: dict[int, int] = {}  # epochs of brokers that are dead, by id
        self._observed: dict[int, tuple[int, int]] = {}  # by broker: last renewal, and when it was first seen
        self._read_at_ms = -1

    def _connected(self, connection: Connection[Any]) -> None:
        check_not_pooled(connection, self._address)
        if self._is_acquired:
            # It was lost with the last connection. If another session has it, the row decides.
            connection.execute("SELECT pg_try_advisory_lock(%s, %s)", self._key(self._broker_id))

    def _key(self, broker_id: int) -> tuple[int, int]:
        return self._rules.lock_class, broker_id

    def now_ms(self) -> int:
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000

    def try_acquire(self) -> LeaseHolder | None:
        with self._connection() as connection:
            row = connection.execute(
                "SELECT state = 'gone' OR expires_at < clock_timestamp(), "
                f"{self._rules.is_silent()}, (extract(epoch FROM renewed_at) * 1000000)::bigint, "
                "broker_epoch FROM broker WHERE broker_id = %(id)s",
                {"id": self._broker_id, **self._rules.values()},
            ).fetchone()
            is_over, is_silent, renewal, epoch = row if row is not None else (True, True, 0, -1)
            is_mine = epoch == self._epoch >= 0
            if is_over or is_mine or is_silent:
                (has_lock,) = connection.execute(
                    "SELECT pg_try_advisory_lock(%s, %s)", self._key(self._broker_id)
                ).fetchone() or (False,)
                if has_lock or is_over:
                    self._is_acquired = True
                    return None
        return LeaseHolder(renewal, f"registered at epoch {epoch} in {self._address.text}")

    def registered(self, me: BrokerRegistration) -> None:
        self._epoch = me.epoch
        self.renew()

    def renew(self) -> None:
        with self._connection() as connection:
            renewed = connection.execute(
                "UPDATE broker SET renewed_at = clock_timestamp(), "
                "expires_at = clock_timestamp() + %s * interval '1 millisecond' "
                "WHERE broker_id = %s AND broker_epoch = %s AND state <> 'gone'",
                [self._rules.session_timeout_ms, self._broker_id, self._epoch],
            ).rowcount
        if not renewed and not self._cluster.has_left:
            raise FencedError(f"broker {self._broker_id} was replaced or declared dead")

    def is_dead(self, broker: BrokerRegistration, *, judges_silence: bool) -> bool:
        if not judges_silence:
            # Locks end with a restart of the database too: only silence proves a death.
            return False
        if self.now_ms() - self._read_at_ms >= _CACHED_MS:
            self._read_brokers()
        return self._dead.get(broker.broker_id) == broker.epoch

    def _read_brokers(self) -> None:
        """Find out which brokers are dead.

        The database's clock may have been set forward: then all leases seem to have expired, and their
        brokers answer on. So a broker must have been silent in front of our eyes for as long, too.
        """
        asked_at_ms = self.now_ms()
        with self._connection() as connection:
            rows = connection.execute(
                "SELECT broker_id, broker_epoch, (extract(epoch FROM renewed_at) * 1000000)::bigint, "
                f"{self._rules.is_dead()} FROM broker",
                self._rules.values(),
            ).fetchall()
        self._read_at_ms = self.now_ms()
        self._dead = {}
        for broker_id, epoch, renewal, is_dead in rows:
            known, seen_at_ms = self._observed.get(broker_id, (None, -1))
            if known != renewal:
                self._observed[broker_id] = renewal, self._read_at_ms
            elif is_dead and asked_at_ms - seen_at_ms >= self._rules.silence_ms:
                self._dead[broker_id] = epoch

    @contextmanager
    def hold(self, broker: BrokerRegistration) -> Iterator[bool]:
        """The lease is checked in the transaction of the take-over."""
        yield True

    def release(self) -> None:
        self._session.close()

    @contextmanager
    def _connection(self) -> Iterator[Connection[Any]]:
        try:
            with self._session.use() as connection:
                yield connection
        except (StoreUnavailableError, ConnectionLostError) as error:
            raise ClusterStoreError(str(error)) from error
        except psycopg.Error as error:
            raise ClusterStoreError(str(unavailable(self._address, error))) from error
