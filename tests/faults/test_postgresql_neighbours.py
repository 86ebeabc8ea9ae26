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
DELETED_MB: Final = int(os.environ.get("KLAMM_DELETED_MB", "1024"))
SAMPLES: Final = 1_000
NOISE_S: Final = 0.01  # a p99 below that is not told apart from what else the machine does


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
            answers = [each for topic in answer.responses for each in topic.partition_responses]
            assert [each.error_code for each in answers] == [0, 0]
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


def fill(client: WireClient, megabytes: int) -> None:
    """Half a megabyte per request, which nothing can compress."""
    for _ in range(2 * megabytes):
        batch = a_batch(Now(), value=os.urandom(512 * 1024))
        answer = client.ask(ApiKey.PRODUCE, 9, a_produce(Now(), batch, topic=PAIRS))
        assert answer.responses[0].partition_responses[0].error_code == 0


def number(postgres: PostgresServer, query: str) -> int:
    ((value,),) = postgres.execute(query)
    return int(str(value))


def has_vacuumed(postgres: PostgresServer) -> bool:
    """Whether autovacuum has found most rows that were deleted, so that their space is free."""
    ((inserted, deleted, dead, vacuums),) = postgres.execute(
        f"SELECT n_tup_ins, n_tup_del, n_dead_tup, autovacuum_count FROM {TOAST}"
    )
    return inserted == deleted and int(str(dead)) < int(str(deleted)) / 5 and int(str(vacuums)) > 0


class Latencies:
    """How long single appends to another topic take, all the while."""

    def __init__(self, bootstrap: str) -> None:
        self._taken_s: list[float] = []
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(bootstrap,), daemon=True)
        self._thread.start()

    def _run(self, bootstrap: str) -> None:
        with WireClient(bootstrap, timeout_s=60) as client:
            while not self._is_over.is_set():
                began = time.monotonic()
                assert produced(client, TOPIC).error_code == 0
                self._taken_s.append(time.monotonic() - began)

    def take(self) -> list[float]:
        """Those since the last call."""
        taken, self._taken_s = self._taken_s, []
        return taken

    def take_many(self) -> list[float]:
        """Those of some time, from now on."""
        self.take()
        wait_until(lambda: len(self._taken_s) >= SAMPLES, "120s")
        return self.take()

    def end(self) -> None:
        self._is_over.set()
        self._thread.join(60)
        assert not self._thread.is_alive()


def p99(taken_s: list[float]) -> float:
    return sorted(taken_s)[len(taken_s) * 99 // 100]


@pytest.mark.timeout(900)
def test_a_deleted_topic_goes_bit_by_bit_and_its_space_is_used_again(vacuuming: PostgresBrokers) -> None:
    # scenario 67
    postgres = vacuuming.postgres
    latencies = Latencies(vacuuming.bootstrap)
    with WireClient(vacuuming.bootstrap, timeout_s=60) as client:
        fill(client, DELETED_MB)
        size_bytes = number(postgres, "SELECT pg_total_relation_size('chunk')")
        assert size_bytes > DELETED_MB * 1024 * 1024
        usual_s = latencies.take_many()
        request = DeleteTopicsRequest([DeleteTopicState(PAIRS)], timeout_ms=30_000)
        assert client.ask(ApiKey.DELETE_TOPICS, 6, request).responses[0].error_code == 0
        wait_until(lambda: number(postgres, f"SELECT count(*) FROM chunk {LARGE}") == 0, "300s")
        during_s = latencies.take()
        wait_until(partial(has_vacuumed, postgres), "300s")
        usual_s += latencies.take_many()
        latencies.end()
        # It is done in slices, and appends to other partitions hardly wait for one.
        assert len(during_s) > 100
        assert p99(during_s) < 3 * max(p99(usual_s), NOISE_S)
        # What is written next goes where the deleted rows were.
        vacuuming.create_topics(PAIRS)
        fill(client, DELETED_MB // 4)
    assert number(postgres, "SELECT pg_total_relation_size('chunk')") < 1.1 * size_bytes
