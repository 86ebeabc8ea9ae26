"""The cluster's metadata in PostgreSQL: the contract, bad input, and lost connections."""

from __future__ import annotations

import time
from collections.abc import Iterator
from random import Random

import pytest

from klamm.storage.cluster import (
    BrokerRegistration,
    BrokerState,
    ClusterStore,
    ClusterStoreError,
    FencedError,
    LeaderChange,
    PartitionRegistration,
)
from klamm.storage.engines.postgresql.cluster import PostgresCluster
from klamm.storage.engines.postgresql.connection import server_problem
from klamm.storage.engines.postgresql.rows import PostgresChange
from postgresql import PostgresServer
from unit.storage.cluster_contract import ClusterContract, a_topic, leaders


@pytest.fixture
def url(postgres: PostgresServer) -> str:
    return postgres.new_schema()


@pytest.fixture
def store(url: str) -> Iterator[PostgresCluster]:
    store = PostgresCluster(url, random=Random(1))
    yield store
    store.close()


@pytest.fixture
def other(store: PostgresCluster, url: str) -> Iterator[PostgresCluster]:
    other = PostgresCluster(url, random=Random(2))
    yield other
    other.close()


def soon_changed(store: ClusterStore) -> bool:
    deadline = time.monotonic() + 30
    while not store.changed():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.001)
    return True


class TestPostgresCluster(ClusterContract):
    """The contract, in a schema of its own for each test."""

    @pytest.fixture
    def store(self, store: PostgresCluster) -> PostgresCluster:
        return store

    @pytest.fixture
    def other(self, other: PostgresCluster) -> PostgresCluster:
        return other

    def test_another_broker_sees_that_something_changed(
        self, store: ClusterStore, other: ClusterStore
    ) -> None:
        store.changed()
        assert soon_changed(store), "the version that it begins with"
        assert not store.changed()
        other.create_topic(a_topic(), {})
        assert soon_changed(store)


def epochs_of_logs(store: PostgresCluster) -> list[tuple[int, list[tuple[int, int]]]]:
    """The leader epoch of each log, and the epochs that it knows with their starts."""
    with store._session.use() as connection:
        return [
            (epoch, [tuple(each) for each in starts])
            for epoch, starts in connection.execute(
                "SELECT g.leader_epoch, (SELECT jsonb_agg(jsonb_build_array(e.leader_epoch, e.start_offset) "
                "ORDER BY e.leader_epoch) FROM epoch_start e WHERE e.partition_id = g.partition_id) "
                "FROM log g ORDER BY partition_id"
            )
        ]


def test_the_logs_are_fenced_with_each_change_of_leadership(
    store: PostgresCluster, other: PostgresCluster
) -> None:
    first = store.register(BrokerRegistration(1, None, {}))
    other.register(BrokerRegistration(2, None, {}))
    store.create_topic(a_topic(), {})
    assert epochs_of_logs(store) == [(0, [(0, 0)]), (0, [(0, 0)])]
    store.finish_moves([LeaderChange("orders", 0, 1, 0, 2)])
    assert epochs_of_logs(store) == [(1, [(1, 0)]), (0, [(0, 0)])]
    other.take_over(first, [LeaderChange("orders", 1, 1, 0, 2)])
    assert epochs_of_logs(store) == [(1, [(1, 0)]), (1, [(1, 0)])]
    other.register(BrokerRegistration(2, None, {}))
    assert leaders(store) == [(2, 2), (2, 2)]
    assert epochs_of_logs(store) == [(2, [(2, 0)]), (2, [(2, 0)])]


def test_a_broker_raises_the_epochs_of_its_own_logs_only(
    store: PostgresCluster, other: PostgresCluster
) -> None:
    store.register(BrokerRegistration(1, None, {}))
    other.register(BrokerRegistration(2, None, {}))
    store.create_topic(a_topic(partitions=3), {})
    store.finish_moves([LeaderChange("orders", 2, 1, 0, 2)])
    with store._session.use() as connection:
        ids = [row[0] for row in connection.execute("SELECT partition_id FROM partition ORDER BY partition")]
    assert store.raise_epochs({ids[0]: 0, ids[1]: 5, ids[2]: 1}) == {ids[0]: 0}
    assert leaders(store) == [(1, 1), (1, 0), (2, 1)]


def test_a_broker_that_registers_anew_raises_no_epochs(store: PostgresCluster) -> None:
    # A round of the former registration may still be under way on another thread.
    with pytest.raises(FencedError):
        store.raise_epochs({1: 0})


def test_a_broker_that_stands_still_in_a_change_does_not_keep_others_from_theirs(
    store: PostgresCluster, other: PostgresCluster
) -> None:
    # A SIGSTOP between two statements: its session would have the lock of the cluster's row for ever.
    store.register(BrokerRegistration(1, None, {}))
    with store._session.use() as connection:
        assert connection.execute("SHOW idle_in_transaction_session_timeout").fetchone() == ("3s",)
        connection.execute("SET idle_in_transaction_session_timeout = '20ms'")  # in place of waiting for it

    def stand_still() -> None:
        with store._changing() as change:
            change.touch("topic", ["half done"])
            other.register(BrokerRegistration(2, None, {}))  # waits for the lock, and gets it

    # The reason of the server, or that it has closed the connection if that arrived first.
    with pytest.raises(ClusterStoreError, match=r"idle-in-transaction|connection"):
        stand_still()
    assert [each.broker_id for each in store.brokers()] == [1, 2]
    assert other.changes(1).topics == {}
    store.set_state(BrokerState.RUNNING)  # it goes on when it wakes up


def test_a_taker_that_dies_in_its_transaction_leaves_the_take_over_to_the_next(
    store: PostgresCluster, other: PostgresCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    # scenario 47
    dead = store.register(BrokerRegistration(1, None, {}))
    store.create_topic(a_topic(), {})
    other.register(BrokerRegistration(2, None, {}))
    version = other.version()
    plan = [LeaderChange("orders", partition, 1, 0, 2) for partition in (0, 1)]

    def die(change: PostgresChange, leaders: object) -> list[LeaderChange]:
        change.execute("SELECT pg_terminate_backend(pg_backend_pid())")
        raise AssertionError("it is dead")

    with monkeypatch.context() as patch:
        patch.setattr(PostgresChange, "hand_over", die)
        with pytest.raises(ClusterStoreError):
            other.take_over(dead, plan)
    assert (other.version(), leaders(other)) == (version, [(1, 0), (1, 0)])
    other.take_over(dead, plan)
    assert (other.version(), leaders(other)) == (version + 1, [(2, 1), (2, 1)])


def test_a_take_over_of_many_partitions_is_one_change(store: PostgresCluster, other: PostgresCluster) -> None:
    # scenario 69
    count = 10_000
    gone = other.register(BrokerRegistration(1, None, {}))
    store.register(BrokerRegistration(2, None, {}))
    store.create_topic(a_topic(partitions=count), {})
    before = store.version()
    store.take_over(gone, [LeaderChange("orders", each, 1, 0, 2) for each in range(count)])
    taken = other.changes(before)
    assert (store.version(), taken.version) == (before + 1, before + 1)
    assert leaders(store) == [(2, 1)] * count


def test_a_change_whose_notification_was_lost_is_found_by_the_poll(
    store: PostgresCluster, other: PostgresCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    # scenario 61
    monkeypatch.setattr(store._listener._session, "_prepare", lambda connection: None)
    store.changed()
    assert soon_changed(store), "the version that it begins with"
    other.create_topic(a_topic(), {})
    assert soon_changed(store)


def test_a_lost_connection_is_made_again(store: PostgresCluster, postgres: PostgresServer) -> None:
    store.register(BrokerRegistration(1, None, {}))
    with store._session.use() as connection:
        pid = connection.info.backend_pid
    postgres.execute(f"SELECT pg_terminate_backend({pid}, 5000)")
    with pytest.raises(ClusterStoreError, match="terminating connection"):
        store.topics()
    assert dict(store.topics()) == {}


def test_a_change_whose_answer_was_lost_is_looked_up(
    store: PostgresCluster, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a connection that breaks right after the server has committed
    store.register(BrokerRegistration(1, None, {}))
    with store._session.use() as connection:
        real = connection.transaction

        def broken_after_commit() -> object:
            transaction = real()
            leave = type(transaction).__exit__

            class Breaking:
                def __enter__(self) -> object:
                    return transaction.__enter__()

                def __exit__(self, *error: object) -> object:
                    result = leave(transaction, *error)  # type: ignore[arg-type]
                    postgres.execute(f"SELECT pg_terminate_backend({connection.info.backend_pid}, 5000)")
                    connection.execute("SELECT 1")
                    return result

            return Breaking()

        monkeypatch.setattr(connection, "transaction", broken_after_commit, raising=False)
        connection_of_this_test = connection
    assert connection_of_this_test is store._session._connection
    # When a topic is created over it
    store.finalize_features({"a": 1}, expected_epoch=-1)
    # Then the change is there, and was reported as done
    assert store.features().levels == {"a": 1}


class TestBadInput:
    """What an operator can get wrong: the message names it and the next step."""

    @pytest.mark.parametrize(
        ("url", "message"),
        [
            ("mysql://127.0.0.1/db", "scheme is 'mysql'.*write postgresql://"),
            ("postgresql://127.0.0.1:port/db", "(?s)port.*"),
            ("postgresql://127.0.0.1:1/db", "(?i)refused.*check that PostgreSQL runs"),
            ("postgresql://anna:a@b@127.0.0.1/db", "write @ as %40"),
        ],
    )
    def test_a_url_that_leads_nowhere(self, url: str, message: str) -> None:
        with pytest.raises(ClusterStoreError, match=message):
            PostgresCluster(url, random=Random(1))

    def test_an_unknown_database_and_an_unknown_user(self, postgres: PostgresServer) -> None:
        with pytest.raises(ClusterStoreError, match=r"absent.*does not exist.*CREATE DATABASE"):
            PostgresCluster(postgres.url_of("absent"), random=Random(1))
        with pytest.raises(ClusterStoreError, match=r"nobody.*does not exist.*check the user"):
            PostgresCluster(postgres.url_of("postgres", user="nobody"), random=Random(1))

    def test_a_role_without_rights(self, postgres: PostgresServer) -> None:
        postgres.execute("DROP ROLE IF EXISTS guest")
        postgres.execute("CREATE ROLE guest LOGIN")
        with pytest.raises(ClusterStoreError, match=r"denied for schema public; the role of .*needs"):
            PostgresCluster(postgres.url_of("postgres", user="guest"), random=Random(1))

    @pytest.mark.parametrize(
        "url",
        [
            "postgresql://anna:secret@127.0.0.1:1/db",
            "postgresql:/anna:secret@127.0.0.1:1/db",
            "postgresql://anna:a@secret@127.0.0.1:1/db",
            "postgresql://anna:1/secret@127.0.0.1:1/db",
        ],
    )
    def test_the_password_is_in_no_message(self, url: str) -> None:
        with pytest.raises(ClusterStoreError) as caught:
            PostgresCluster(url, random=Random(1))
        assert "secret" not in str(caught.value)

    def test_a_schema_of_a_newer_klamm(self, store: PostgresCluster, url: str) -> None:
        with store._session.use() as connection:
            connection.execute("UPDATE cluster SET schema_version = 99")
        with pytest.raises(ClusterStoreError, match=r"version is 99.*use a newer klamm"):
            PostgresCluster(url, random=Random(1))

    def test_a_schema_that_is_too_old_to_migrate(self, store: PostgresCluster, url: str) -> None:
        with store._session.use() as connection:
            connection.execute("UPDATE cluster SET schema_version = 0")
        with pytest.raises(ClusterStoreError, match="too old"):
            PostgresCluster(url, random=Random(1))

    def test_tables_of_another_program(self, postgres: PostgresServer, url: str) -> None:
        schema = url.rpartition("%3D")[2]
        postgres.execute(f"CREATE TABLE {schema}.cluster (name text)")
        with pytest.raises(ClusterStoreError, match="not klamm's"):
            PostgresCluster(url, random=Random(1))

    def test_commits_that_do_not_wait_for_the_disk(self, postgres: PostgresServer, url: str) -> None:
        # scenario 60
        postgres.execute("DROP ROLE IF EXISTS hasty")
        postgres.execute("CREATE ROLE hasty LOGIN SUPERUSER")
        postgres.execute("ALTER ROLE hasty SET synchronous_commit = off")
        hasty = url.replace("postgres@", "hasty@")
        with pytest.raises(ClusterStoreError, match=r"synchronous_commit is off.*klamm\.flush=os"):
            PostgresCluster(hasty, random=Random(1))
        PostgresCluster(hasty, random=Random(1), must_be_durable=False).close()

    @pytest.mark.parametrize(
        ("settings", "problem"),
        [
            (("on", "", "UTF8", False, "off"), ""),
            (("local", "", "UTF8", False, "off"), ""),
            (("local", "s1", "UTF8", False, "off"), "standbys are configured"),
            (("remote_apply", "s1", "UTF8", False, "off"), ""),
            (("on", "", "LATIN1", False, "off"), "ENCODING 'UTF8'"),
            (("on", "", "UTF8", True, "off"), "primary"),
            (("on", "", "UTF8", False, "on"), "read-only"),
        ],
    )
    def test_settings_of_the_server(self, settings: tuple[str, str, str, bool, str], problem: str) -> None:
        found = server_problem(*settings, must_be_durable=True)
        assert problem in found
        assert bool(found) == bool(problem)


def test_brokers_that_start_at_once_create_one_cluster(url: str) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(4) as threads:
        stores = list(threads.map(lambda seed: PostgresCluster(url, random=Random(seed)), range(4)))
    assert len({store.cluster_id for store in stores}) == 1
    for store in stores:
        store.close()


def test_partition_ids_are_never_used_again(store: PostgresCluster) -> None:
    store.create_topic(a_topic(), {})
    store.delete_topic("orders", b"i" * 16)
    store.create_topic(a_topic(topic_id=b"j" * 16), {})
    store.add_partitions("orders", b"j" * 16, [PartitionRegistration(2, (1,), 1, 0)])
    with store._session.use() as connection:
        ids = [row[0] for row in connection.execute("SELECT partition_id FROM partition")]
        deleted = [row[0] for row in connection.execute("SELECT partition_id FROM deleted_partition")]
    assert len(deleted) == 2
    assert not set(ids) & set(deleted)
