"""Leases in PostgreSQL: acquired, renewed, and ended by silence or by death."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from random import Random

import pytest

from klamm.broker.cluster.postgresql_lease import PostgresLease
from klamm.storage.cluster import (
    BrokerRegistration,
    BrokerState,
    ClusterStoreError,
    ConflictError,
    FencedError,
    LeaderChange,
)
from klamm.storage.engines.postgresql.cluster import PostgresCluster
from klamm.storage.engines.postgresql.lease_rules import LeaseRules
from postgresql import PostgresServer
from unit.storage.cluster_contract import a_topic, leaders


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        yield server


class Member:
    """One broker: its store and its lease."""

    def __init__(self, url: str, broker_id: int, *, session_timeout_ms: int = 60_000) -> None:
        self.broker_id = broker_id
        self.store = PostgresCluster(url, random=Random(1), session_timeout_ms=session_timeout_ms)
        # The server has just started: it must not have, for a session of this length.
        rules = LeaseRules(self.store.cluster_id, session_timeout_ms, serve_window_ms=10)
        self.store.lease_rules = rules
        self.lease = PostgresLease(self.store, broker_id, rules, renewal_timeout_ms=30_000)
        self.now_ms = 0
        self.lease.now_ms = lambda: self.now_ms  # type: ignore[method-assign]
        self.me = BrokerRegistration(broker_id, None, {})

    def join(self) -> BrokerRegistration:
        assert self.lease.try_acquire() is None
        self.me = self.store.register(self.me)
        self.lease.registered(self.me)
        return self.me

    def execute(self, statement: str) -> None:
        with self.store._session.use() as connection:
            connection.execute(statement)

    def be_silent(self, seconds: int) -> None:
        """As if the last renewal was so long ago."""
        self.execute(
            f"UPDATE broker SET renewed_at = renewed_at - interval '{seconds} s', "
            f"expires_at = expires_at - interval '{seconds} s' WHERE broker_id = {self.broker_id}"
        )

    def die(self) -> None:
        """As with kill -9: its connections end, its row stays."""
        with self.lease._session.use() as connection:
            pid = connection.info.backend_pid
        self.lease.release()
        # The server notices it a little later.
        with self.store._session.use() as connection:
            while connection.execute("SELECT 1 FROM pg_stat_activity WHERE pid = %s", [pid]).fetchone():
                time.sleep(0.001)

    def close(self) -> None:
        self.lease.release()
        self.store.close()


@pytest.fixture
def member(postgres: PostgresServer) -> Iterator[Callable[..., Member]]:
    url = postgres.new_schema()
    members: list[Member] = []

    def make(broker_id: int, **options: int) -> Member:
        members.append(Member(url, broker_id, **options))
        return members[-1]

    yield make
    for each in members:
        each.close()


def test_a_second_process_with_one_id_has_to_wait_and_sees_renewals(
    member: Callable[..., Member],
) -> None:
    first, second = member(1), member(1)
    first.join()
    holder = second.lease.try_acquire()
    assert holder is not None
    assert second.lease.try_acquire() == holder
    first.lease.renew()
    again = second.lease.try_acquire()
    assert again is not None
    assert again.renewal != holder.renewal


def test_the_lease_of_a_killed_process_is_free_when_it_must_have_stopped_answering(
    member: Callable[..., Member],
) -> None:
    first, second = member(1), member(1)
    first.join()
    first.die()
    assert second.lease.try_acquire() is not None, "it may still send responses"
    first.be_silent(2)  # longer than the serve window and its margin
    second.join()
    with pytest.raises(FencedError):
        first.store.set_state(BrokerState.RUNNING)


def test_silence_alone_does_not_free_the_lease_before_it_expires(member: Callable[..., Member]) -> None:
    first, second = member(1), member(1)
    first.join()
    first.be_silent(30)
    assert second.lease.try_acquire() is not None, "the lock shows that its process lives"
    first.be_silent(31)
    assert second.lease.try_acquire() is None


def test_a_broker_that_stopped_leaves_its_lease_at_once(member: Callable[..., Member]) -> None:
    first, second = member(1), member(1)
    first.join()
    first.store.set_state(BrokerState.GONE)
    first.lease.renew()  # while it closes its logs
    first.lease.release()
    second.join()
    second.lease.renew()


def test_a_broker_that_was_replaced_cannot_renew(member: Callable[..., Member]) -> None:
    first, second = member(1), member(1)
    first.join()
    first.die()
    first.be_silent(2)
    second.join()
    first.lease._session = second.lease._session  # its own was closed
    with pytest.raises(FencedError):
        first.lease.renew()


def dead(judge: Member, broker: BrokerRegistration, *, after_ms: int = 1_100) -> bool:
    """Whether it is dead for a broker that observed it for so long: more than window and margin."""
    judge.now_ms += 1_000
    judge.lease.is_dead(broker, judges_silence=True)
    judge.now_ms += after_ms
    return judge.lease.is_dead(broker, judges_silence=True)


def test_a_broker_is_dead_when_it_is_silent_and_its_lock_is_free(member: Callable[..., Member]) -> None:
    # A short session: the server runs for longer than that.
    judge, other = member(1, session_timeout_ms=1), member(2, session_timeout_ms=600_000)
    judge.join()
    registered = other.join()
    assert not dead(judge, registered)
    other.be_silent(2)
    assert not dead(judge, registered), "its lock shows that its process lives"
    other.die()
    assert dead(judge, registered)
    assert not judge.lease.is_dead(registered, judges_silence=False)


def test_a_broker_is_dead_when_its_lease_expired(member: Callable[..., Member]) -> None:
    judge, other = member(1, session_timeout_ms=1), member(2, session_timeout_ms=600_000)
    judge.join()
    registered = other.join()
    other.be_silent(601)
    assert dead(judge, registered)
    other.lease.renew()
    assert not dead(judge, registered)


def test_nobody_is_dead_because_the_clock_of_the_database_was_set_forward(postgres: PostgresServer) -> None:
    url = postgres.new_schema()
    judge, other = (Member(f"{url},pg_catalog", each, session_timeout_ms=1_000) for each in (1, 2))
    with closing(judge), closing(other):
        judge.join()
        registered = other.join()
        assert not dead(judge, registered, after_ms=0)
        # In the schema of the cluster, which is searched before that of the server's own functions.
        postgres.execute(
            f"CREATE FUNCTION {url.rpartition('%3D')[2]}.clock_timestamp() RETURNS timestamptz LANGUAGE sql "
            "AS $$ SELECT pg_catalog.clock_timestamp() + interval '1 hour' $$"
        )
        judge.now_ms += 900
        assert not judge.lease.is_dead(registered, judges_silence=True), "it has not had the time to renew"
        judge.now_ms += 200
        assert judge.lease.is_dead(registered, judges_silence=True)


def test_nobody_is_dead_soon_after_a_start_of_the_database(member: Callable[..., Member]) -> None:
    judge, other = member(1, session_timeout_ms=600_000), member(2, session_timeout_ms=600_000)
    judge.join()
    registered = other.join()
    other.die()
    other.be_silent(601)
    assert not dead(judge, registered)


def test_a_take_over_checks_the_lease_in_its_transaction(member: Callable[..., Member]) -> None:
    judge, other = member(1, session_timeout_ms=1), member(2, session_timeout_ms=600_000)
    judge.join()
    judge.store.create_topic(a_topic(), {})
    other.store.finish_moves([LeaderChange("orders", each, 1, 0, 2) for each in range(2)])
    registered = other.join()
    plan = [LeaderChange("orders", each, 2, 2, 1) for each in range(2)]
    with pytest.raises(ConflictError, match="still alive"):
        judge.store.take_over(registered, plan)
    other.die()
    other.be_silent(2)
    judge.store.take_over(registered, plan)
    assert leaders(judge.store) == [(1, 3), (1, 3)]


def test_a_lost_connection_is_made_again_with_its_lock(
    member: Callable[..., Member], postgres: PostgresServer
) -> None:
    judge, other = member(1, session_timeout_ms=1), member(2, session_timeout_ms=600_000)
    judge.join()
    registered = other.join()
    with other.lease._session.use() as connection:
        pid = connection.info.backend_pid
    postgres.execute(f"SELECT pg_terminate_backend({pid}, 5000)")
    with pytest.raises(ClusterStoreError):
        other.lease.renew()
    other.lease.renew()
    other.be_silent(2)
    assert not dead(judge, registered)
