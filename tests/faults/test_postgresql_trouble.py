"""A database that is away, stalled, full or slow: brokers say so, and recover."""

from __future__ import annotations

import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from faults.postgresql_cluster import PAIRS, PARTITIONS, Numbers, PostgresBrokers
from interop.processes import ProcessEndedError
from klamm.clock import SystemClock
from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.metadata import MetadataRequest
from klamm.protocol.messages.produce import PartitionProduceResponse
from klamm.testing.requests import a_produce
from klamm.testing.wire import WireClient
from postgresql import PostgresServer

Start = Callable[..., PostgresBrokers]


class Now:
    """Dates records."""

    clock = SystemClock()


def produced(client: WireClient, *, timeout_ms: int = 30_000) -> PartitionProduceResponse:
    answer = client.ask(ApiKey.PRODUCE, 9, a_produce(Now(), topic=PAIRS, timeout_ms=timeout_ms))
    line: PartitionProduceResponse = answer.responses[0].partition_responses[0]
    return line


@contextmanager
def appends_that(postgres: PostgresServer, body: str, *, have_locks: bool = False) -> Iterator[None]:
    """While this lasts, the server does something before each insert of records, or when it has the locks."""
    result = "NEW" if have_locks else "NULL"
    postgres.execute(
        "CREATE FUNCTION trouble() RETURNS trigger LANGUAGE plpgsql AS "
        f"$$BEGIN {body}; RETURN {result}; END$$"
    )
    each = "FOR EACH ROW" if have_locks else ""
    postgres.execute(f"CREATE TRIGGER trouble BEFORE INSERT ON chunk {each} EXECUTE FUNCTION trouble()")
    yield
    postgres.execute("DROP TRIGGER trouble ON chunk; DROP FUNCTION trouble()")


def test_a_second_broker_with_one_node_id_does_not_start_and_names_the_first(start: Start) -> None:
    # scenario 70
    cluster = start(1)
    with pytest.raises(ProcessEndedError) as refused:
        cluster.start(1, port=0)
    said = str(refused.value)
    assert f"broker 1 is already running at {cluster.bootstrap}" in said
    assert "stop it, or choose another node.id" in said


def test_a_database_without_space_refuses_appends_and_nothing_else(
    start: Start, postgres: PostgresServer
) -> None:
    cluster = start(1)
    with WireClient(cluster.bootstrap) as client:
        assert produced(client).error_code == 0
        full = "RAISE 'could not extend file: No space left on device' USING ERRCODE = '53100'"
        with appends_that(postgres, full):
            assert produced(client).error_code == ErrorCode.kafka_storage_error
            assert client.ask(ApiKey.METADATA, 12, MetadataRequest()).brokers
        # It goes on with the next append, at the offset that was not used.
        assert produced(client).base_offset == 1
    assert "No space left on device" in cluster.logs()


def test_a_slow_database_delays_acknowledgements_and_ends_no_lease(
    start: Start, postgres: PostgresServer
) -> None:
    cluster = start(1)
    before = cluster.leaders()
    with WireClient(cluster.bootstrap) as client, WireClient(cluster.bootstrap) as other:
        with appends_that(postgres, "PERFORM pg_sleep(3)"):  # longer than a lease
            client.send(ApiKey.PRODUCE, 9, a_produce(Now(), topic=PAIRS))
            assert other.ask(ApiKey.METADATA, 12, MetadataRequest()).brokers
            _, answer = client.receive(ApiKey.PRODUCE, 9)
        assert answer.responses[0].partition_responses[0].error_code == 0
    assert cluster.leaders() == before


def test_a_broker_without_its_database_asks_clients_to_retry_and_comes_back(
    start: Start, postgres: PostgresServer
) -> None:
    cluster = start(1)
    load = Numbers(cluster.bootstrap)
    load.wait_for_more()
    postgres.stop(signal.SIGQUIT)
    with WireClient(cluster.bootstrap, timeout_s=60) as client:
        assert produced(client, timeout_ms=500).error_code == ErrorCode.request_timed_out
    # What it knows may be out of date after the serve window: such a response is held.
    time.sleep(1.0)
    with WireClient(cluster.bootstrap, timeout_s=3) as client, pytest.raises(socket.timeout):
        client.ask(ApiKey.METADATA, 12, MetadataRequest())
    postgres.start()
    load.wait_for_more()
    load.end()
    load.check()
    assert "the cluster store is not available, retrying" in cluster.logs()


def test_a_broker_that_is_stopped_without_its_database_ends_when_its_time_is_over(
    start: Start, postgres: PostgresServer
) -> None:
    cluster = start(1, {"klamm.shutdown.timeout.ms": "2000"})
    load = Numbers(cluster.bootstrap)
    load.wait_for_more()
    postgres.stop(signal.SIGQUIT)
    with WireClient(cluster.bootstrap, timeout_s=60) as client:  # records wait for the database
        assert produced(client, timeout_ms=500).error_code == ErrorCode.request_timed_out
    cluster.stop(1)
    assert "klamm.shutdown.timeout.ms=2000" in cluster.logs()
    assert "Traceback" not in cluster.logs()
    postgres.start()
    cluster.start(1)
    load.wait_for_more()
    load.end()
    load.check()


def test_a_stalled_database_ends_no_lease(start: Start, postgres: PostgresServer) -> None:
    # scenario 58
    cluster = start(2)
    load = Numbers(cluster.bootstrap)
    load.wait_for_more()
    before = cluster.leaders()
    postgres.stall(signal.SIGSTOP)
    # For longer than broker.session.timeout.ms. What is asked after the serve window is not answered.
    time.sleep(1.0)
    with WireClient(cluster.bootstrap.split(",")[0], timeout_s=3) as client, pytest.raises(socket.timeout):
        client.ask(ApiKey.METADATA, 12, MetadataRequest())
    postgres.stall(signal.SIGCONT)
    load.wait_for_more(500)
    assert cluster.leaders() == before
    load.end()
    load.check()
    assert len(before) == 2 * PARTITIONS
