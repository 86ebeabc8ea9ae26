"""What else happens in the database: deadlocks, long transactions, deletions; and what brokers spare it."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

import psycopg
import pytest

from faults.postgresql_cluster import PAIRS, TOPIC, PostgresBrokers
from faults.requests import Now, end_of, produced
from klamm.protocol.api import ApiKey
from klamm.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from klamm.testing import wait_until
from klamm.testing.requests import a_batch, a_fetch, a_produce
from klamm.testing.wire import WireClient
from postgresql import PostgresServer

Start = Callable[..., PostgresBrokers]
LARGE: Final = "WHERE length(records) > 100000"
TOAST: Final = (  # where PostgreSQL keeps what is large
    "pg_stat_all_tables WHERE relid = (SELECT reltoastrelid FROM pg_class WHERE oid = 'chunk'::regclass)"
)
WAITING: Final = "WHERE application_name = 'klamm appends' AND wait_event_type = 'Lock'"
DELETED_MB: Final = int(os.environ.get("KLAMM_DELETED_MB", "16"))


def test_a_round_that_deadlocks_is_repeated_and_its_client_sees_nothing(
    start: Start, postgres: PostgresServer
) -> None:
    # scenario 62
    cluster = start(1)
    # Two logs that one connection appends to, in the order of their ids.
    first, second = (
        int(str(number))
        for (number,) in postgres.execute(
            "SELECT partition FROM partition JOIN topic USING (topic_id) "
            f"WHERE name = '{TOPIC}' AND partition_id % 2 = 0 ORDER BY partition_id LIMIT 2"
        )
    )
    lock = (
        "SELECT 1 FROM log JOIN partition USING (partition_id) JOIN topic USING (topic_id) "
        f"WHERE name = '{TOPIC}' AND partition = %s FOR UPDATE OF log"
    )
    with WireClient(cluster.bootstrap, timeout_s=60) as client, psycopg.connect(postgres.url) as other:
        # So that the round is the one that is ended.
        other.execute("SET deadlock_timeout = '1min'")
        other.commit()
        # Both are appended to in one round, unless another one is under way: then once more.
        for _ in range(20):
            other.execute(lock, [second])
            batches = {(TOPIC, number): a_batch(Now()) for number in (first, second)}
            client.send(ApiKey.PRODUCE, 9, a_produce(Now(), batches=batches))
            wait_until(lambda: bool(postgres.execute(f"SELECT 1 FROM pg_stat_activity {WAITING}")), "90s")
            other.execute(lock, [first])  # waits for the round, which waits for this one
            other.rollback()
            _, answer = client.receive(ApiKey.PRODUCE, 9)
            assert [topic.partition_responses[0].error_code for topic in answer.responses] == [0, 0]
            if "deadlock detected" in postgres.log.read_text():
                return
    raise AssertionError("there was no deadlock")


def test_a_transaction_that_stays_open_harms_neither_produce_nor_fetch(
    start: Start, postgres: PostgresServer
) -> None:
    # scenario 63
    cluster = start(1)
    with WireClient(cluster.bootstrap, timeout_s=60) as client, psycopg.connect(postgres.url) as other:
        other.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        other.execute("CREATE TABLE unrelated AS SELECT count(*) FROM chunk")  # it has an id and a snapshot
        for offset in range(50):
            assert produced(client, TOPIC).base_offset == offset
        answer = client.ask(ApiKey.FETCH, 12, a_fetch(Now(), topic=TOPIC))
        assert answer.responses[0].partitions[0].high_watermark == 50
        assert end_of(client, TOPIC, 0) == 50


@pytest.fixture
def counting(tmp_path: Path) -> Iterator[PostgresBrokers]:
    """A broker on a server that counts statements."""
    with PostgresServer(["fsync=off", "shared_preload_libraries=pg_stat_statements"]) as server:
        server.execute("CREATE EXTENSION pg_stat_statements")
        cluster = PostgresBrokers(server, tmp_path, 1)
        cluster.create_topics()
        yield cluster
        cluster.close()


def reads_of_chunks(cluster: PostgresBrokers) -> int:
    ((calls,),) = cluster.postgres.execute(
        "SELECT coalesce(sum(calls), 0) FROM pg_stat_statements "
        "WHERE query ~* '(from|join) chunk' AND query !~* 'insert into chunk' AND query !~* 'pg_stat'"
    )
    return int(str(calls))


def test_a_consumer_at_the_tail_causes_no_statement_on_the_chunks(counting: PostgresBrokers) -> None:
    # scenario 66
    with WireClient(counting.bootstrap, timeout_s=60) as client:
        assert produced(client, TOPIC).base_offset == 0
        before = reads_of_chunks(counting)
        for offset in range(1, 50):
            assert produced(client, TOPIC).base_offset == offset
            answer = client.ask(ApiKey.FETCH, 12, a_fetch(Now(), topic=TOPIC, offset=offset))
            assert answer.responses[0].partitions[0].records
    assert reads_of_chunks(counting) == before


@pytest.fixture
def vacuuming(tmp_path: Path) -> Iterator[PostgresBrokers]:
    """A broker on a server whose autovacuum looks for work all the time."""
    settings = ["fsync=off", "autovacuum_naptime=1s", "autovacuum_vacuum_cost_delay=0"]
    with PostgresServer(settings) as server:
        cluster = PostgresBrokers(server, tmp_path, 1)
        cluster.create_topics()
        yield cluster
        cluster.close()


def fill(client: WireClient) -> None:
    """Half a megabyte per request, which nothing can compress."""
    for _ in range(2 * DELETED_MB):
        batch = a_batch(Now(), value=os.urandom(512 * 1024))
        answer = client.ask(ApiKey.PRODUCE, 9, a_produce(Now(), batch, topic=PAIRS))
        assert answer.responses[0].partition_responses[0].error_code == 0


def number(postgres: PostgresServer, query: str) -> int:
    ((value,),) = postgres.execute(query)
    return int(str(value))


def has_vacuumed(postgres: PostgresServer, before: int) -> bool:
    """Whether the rows that were deleted are gone, and their space is known to be free."""
    return (
        number(postgres, f"SELECT autovacuum_count FROM {TOAST}") > before
        or number(postgres, f"SELECT n_dead_tup FROM {TOAST}") == 0
    )


class Latencies:
    """How long single appends to another topic take, all the while."""

    def __init__(self, bootstrap: str) -> None:
        self.taken_s: list[float] = []
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(bootstrap,), daemon=True)
        self._thread.start()

    def _run(self, bootstrap: str) -> None:
        with WireClient(bootstrap, timeout_s=60) as client:
            while not self._is_over.is_set():
                began = time.monotonic()
                assert produced(client, TOPIC).error_code == 0
                self.taken_s.append(time.monotonic() - began)

    def end(self) -> None:
        self._is_over.set()
        self._thread.join(60)
        assert not self._thread.is_alive()


@pytest.mark.timeout(600)
def test_a_deleted_topic_goes_bit_by_bit_and_its_space_is_used_again(vacuuming: PostgresBrokers) -> None:
    # scenario 67
    postgres = vacuuming.postgres
    sizes: list[int] = []
    latencies = Latencies(vacuuming.bootstrap)
    with WireClient(vacuuming.bootstrap, timeout_s=60) as client:
        for _ in range(5):
            fill(client)
            sizes.append(number(postgres, "SELECT pg_total_relation_size('chunk')"))
            request = DeleteTopicsRequest([DeleteTopicState(PAIRS)], timeout_ms=30_000)
            assert client.ask(ApiKey.DELETE_TOPICS, 6, request).responses[0].error_code == 0
            wait_until(lambda: number(postgres, f"SELECT count(*) FROM chunk {LARGE}") == 0, "300s")
            vacuums = number(postgres, f"SELECT autovacuum_count FROM {TOAST}")
            wait_until(partial(has_vacuumed, postgres, vacuums), "300s")
            vacuuming.create_topics(PAIRS)
    latencies.end()
    # No append waits for the deletion of everything: it is done in slices, between the rounds.
    assert len(latencies.taken_s) > 10
    assert max(latencies.taken_s) < 10
    # Five times as much was written as there ever was at once.
    assert sizes[-1] < 3 * sizes[0]
