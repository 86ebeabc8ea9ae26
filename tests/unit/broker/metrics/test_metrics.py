"""The broker in figures: counted where things happen, told over HTTP to who asks."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest

from internals.jar import Jar
from internals.transactions import SmallCoordinator
from klamm.broker.broker import BrokerNode
from klamm.broker.cluster.serve_window import ServeWindow
from klamm.broker.config.broker_config import BrokerConfig
from klamm.broker.metrics.exposition import Family, render
from klamm.broker.metrics.http import SLICE_LINES, MetricsPage
from klamm.broker.metrics.metrics import Metrics
from klamm.broker.net.http_access import MOST_OF_ADDRESS, HttpAccess, HttpAdmission
from klamm.broker.partitions.markers import TransactionMarker
from klamm.broker.storage import open_storage
from klamm.clock import SystemClock
from klamm.config import ConfigError, Password
from klamm.protocol.api import ApiKey
from klamm.protocol.messages.api_versions import ApiVersionsRequest
from klamm.protocol.messages.metadata import MetadataRequest
from klamm.testing.requests import a_batch, a_fetch, a_produce

TOPICS = "kafka_server_brokertopicmetrics_"
REQUESTS = "kafka_network_requestmetrics_"


@pytest.fixture
def jar() -> Iterator[Jar]:
    jar = Jar()
    jar.create_topic("t", segment_bytes=1024)
    yield jar
    jar.close()


@pytest.fixture
def metrics(jar: Jar) -> Metrics:
    return jar.broker.measure()


def figures(metrics: Metrics) -> dict[str, float]:
    """Every figure under its name and labels, as Prometheus would read them."""
    lines = "".join(metrics.page()).splitlines()
    shape = re.compile(r'[a-z_]+(\{[a-zA-Z]+="[^"]*"(,[a-zA-Z]+="[^"]*")*\})? [0-9.e-]+')
    found = {}
    for line in lines:
        if not line.startswith("# "):
            assert shape.fullmatch(line), line
            name, _, value = line.rpartition(" ")
            assert name not in found
            found[name] = float(value)
    return found


def test_requests_count_by_the_permission_that_they_need(jar: Jar, metrics: Metrics) -> None:
    client = jar.connect()
    for _ in range(2):
        client.ask(ApiKey.PRODUCE, 9, a_produce(jar))
    client.ask(ApiKey.FETCH, 12, a_fetch(jar, offset=0))
    client.ask(ApiKey.API_VERSIONS, 0, ApiVersionsRequest())
    found = figures(metrics)
    name = "klamm_requests_by_permission_total"
    assert {key: value for key, value in found.items() if key.startswith(name)} == {
        f'{name}{{resourceType="TOPIC",operation="WRITE"}}': 2,
        f'{name}{{resourceType="TOPIC",operation="READ"}}': 1,
    }


def test_what_is_produced_and_fetched_counts_for_its_topic_and_in_all(jar: Jar, metrics: Metrics) -> None:
    jar.create_topic("c", cleanup_policy="compact")
    client = jar.connect()
    batch = a_batch(jar, count=3)
    client.ask(ApiKey.PRODUCE, 9, a_produce(jar, batch))
    client.ask(ApiKey.PRODUCE, 9, a_produce(jar, batches={("t", 0): batch, ("c", 0): batch}))
    client.ask(ApiKey.PRODUCE, 9, a_produce(jar, a_batch(jar, key=None, count=2), topic="c"))
    client.ask(ApiKey.PRODUCE, 9, a_produce(jar, batch[:-1] + b"\7"))
    client.ask(ApiKey.PRODUCE, 9, a_produce(jar, a_batch(jar, producer_id=1)))
    client.ask(ApiKey.PRODUCE, 9, a_produce(jar, a_batch(jar, producer_id=1)))
    client.ask(ApiKey.PRODUCE, 9, a_produce(jar, a_batch(jar, producer_id=1, base_sequence=9)))
    fetched = client.ask(ApiKey.FETCH, 12, a_fetch(jar)).responses[0].partitions[0].records
    found = figures(metrics)
    assert found[f"{TOPICS}messagesin_total"] == 10
    assert found[f'{TOPICS}messagesin_total{{topic="t"}}'] == 7
    assert found[f'{TOPICS}bytesin_total{{topic="c"}}'] == len(batch)
    assert found[f'{TOPICS}bytesout_total{{topic="t"}}'] == len(fetched)
    assert found[f'{TOPICS}totalproducerequests_total{{topic="t"}}'] == 6
    assert found[f'{TOPICS}totalfetchrequests_total{{topic="t"}}'] == 1
    assert found[f'{TOPICS}failedproducerequests_total{{topic="t"}}'] == 1
    assert found[f'{TOPICS}invalidmessagecrcrecords_total{{topic="t"}}'] == 1
    assert found[f'{TOPICS}nokeycompactedtopicrecords_total{{topic="c"}}'] == 2
    jar.delete_topic("t")
    found = figures(metrics)
    assert found[f"{TOPICS}messagesin_total"] == 10
    assert not any('topic="t"' in name for name in found)


def test_requests_are_counted_by_api_version_and_outcome_with_their_times(jar: Jar, metrics: Metrics) -> None:
    client = jar.connect()
    client.ask(ApiKey.API_VERSIONS, 3, ApiVersionsRequest("a-client", "1.2"))
    client.ask(ApiKey.METADATA, 9, MetadataRequest([]))
    client.ask(ApiKey.METADATA, 12, MetadataRequest([]))
    client.send(ApiKey.FETCH, 12, a_fetch(jar, max_wait_ms=400))
    client.send(ApiKey.METADATA, 12, MetadataRequest([]))
    jar.pass_ms(300)
    found = figures(metrics)
    assert found['kafka_server_delayedoperationpurgatory_purgatorysize{delayedOperation="Fetch"}'] == 1
    jar.pass_ms(200)
    client.new_answers()
    client.ask(ApiKey.PRODUCE, 9, a_produce(jar, topic="nobody"))
    found = figures(metrics)
    assert found[f'{REQUESTS}requests_total{{request="Metadata",version="12"}}'] == 2
    assert found[f'{REQUESTS}requests_total{{request="FetchConsumer",version="12"}}'] == 1
    assert found[f'{REQUESTS}errors_total{{request="Produce",error="UNKNOWN_TOPIC_OR_PARTITION"}}'] == 1
    assert found[f'{REQUESTS}errors_total{{request="Fetch",error="NONE"}}'] == 2
    assert found[f'{REQUESTS}remotetimems_sum{{request="Fetch"}}'] == 400
    assert found[f'{REQUESTS}totaltimems_count{{request="Metadata"}}'] == 3
    assert found[f'{REQUESTS}requestbytes_count{{request="Fetch"}}'] == 1
    software = 'clientSoftwareName="a-client",clientSoftwareVersion="1.2"'
    assert found[f"kafka_server_socket_server_metrics_connections{{{software}}}"] == 1
    assert found['kafka_server_socket_server_metrics_connection_count{listener="PLAINTEXT"}'] == 1


def test_logs_flushes_and_failures_have_their_figures(jar: Jar, metrics: Metrics) -> None:
    client = jar.connect()
    for _ in range(3):
        client.ask(ApiKey.PRODUCE, 9, a_produce(jar, a_batch(jar, value=bytes(600), producer_id=-1)))
    jar.connect().send_bytes(b"GET / HTTP/1.1\r\n")
    jar.connect().send_bytes(b"\0\0\0\x08\x03\xe7\0\0\0\0\0\0")
    jar.connect().send_bytes(b"\0\0\0\x0a\0\x03\0\1\0\0\0\0\0\x05")
    jar.loop.settle()
    found = figures(metrics)
    assert found['kafka_log_log_numlogsegments{topic="t",partition="0"}'] == 3
    assert found['kafka_log_log_logendoffset{topic="t",partition="0"}'] == 3
    assert found['kafka_cluster_partition_laststableoffsetlag{topic="t",partition="0"}'] == 0
    assert found["kafka_server_replicamanager_leadercount"] == 1
    assert found["kafka_server_kafkaserver_brokerstate"] == 3
    assert found["kafka_log_logflushstats_logflushrateandtimems_count"] == 3
    assert found["klamm_flush_batch_size_count"] == 3
    assert {name: value for name, value in found.items() if "decode" in name} == {
        'klamm_decode_failures_total{reason="frame"}': 1,
        'klamm_decode_failures_total{reason="unsupported"}': 1,
        'klamm_decode_failures_total{reason="request"}': 1,
    }


def test_a_loop_that_was_held_up_is_told_once(jar: Jar, metrics: Metrics) -> None:
    jar.loop.call_later(0.5, jar.clock.advance, 3000)
    jar.pass_ms(5000)
    assert figures(metrics)["klamm_event_loop_lag_seconds"] == pytest.approx(2.5, abs=0.1)
    assert "klamm_event_loop_lag_seconds" not in figures(metrics)  # it was not measured in between
    jar.pass_ms(1500)
    assert figures(metrics)["klamm_event_loop_lag_seconds"] == pytest.approx(0, abs=0.1)


def test_what_was_not_measured_has_no_figure(jar: Jar, metrics: Metrics) -> None:
    names = ("partition_load_time_max", "max_clean_time_secs")
    assert [name for name in figures(metrics) if name.endswith(names)] == []


STATE = "kafka_server_kafkaserver_brokerstate"


def test_a_broker_whose_lease_is_not_renewed_is_not_said_to_run(jar: Jar, metrics: Metrics) -> None:
    assert figures(metrics)[STATE] == 3
    window = ServeWindow(jar.loop, jar.clock.now_ms, 3000)
    window.renewed(jar.clock.now_ms())
    jar.services.serve_window = window
    assert figures(metrics)[STATE] == 3
    jar.pass_ms(3000)
    assert figures(metrics)[STATE] == 127


def test_labels_and_explanations_are_escaped() -> None:
    family = Family("f", "gauge", "one\nline").add(0.5, topic='a"b\\c\nd')
    assert render([family, Family("empty", "gauge", "")]) == (
        b'# HELP f one\\nline\n# TYPE f gauge\nf{topic="a\\"b\\\\c\\nd"} 0.5\n'
    )


class Wire(asyncio.Transport):
    """Remembers what was written and how it ended."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.ended = ""

    def write(self, data: Any) -> None:
        self.written += data

    def close(self) -> None:
        self.ended = "closed"

    def abort(self) -> None:
        self.ended = "aborted"


OPEN = HttpAccess()


def a_page(
    jar: Jar, lines: Callable[[], Iterator[str]] = lambda: iter(["a 1\n"]), access: HttpAccess = OPEN
) -> MetricsPage:
    return MetricsPage(HttpAdmission(jar.loop, lambda _peer, _reason: None), lines, access)


@pytest.mark.parametrize(
    ("fields", "access", "status"),
    [
        (b"Authorization: Bearer s3cret", HttpAccess(Password("s3cret")), b"200 OK"),
        (b"authorization: bearer  s3cret", HttpAccess(Password("s3cret")), b"200 OK"),
        (b"Authorization: Bearer wrong", HttpAccess(Password("s3cret")), b"401 Unauthorized"),
        (b"Authorization: Bearer \xff", HttpAccess(Password("s3cret")), b"401 Unauthorized"),
        (b"Authorization: Basic s3cret", HttpAccess(Password("s3cret")), b"401 Unauthorized"),
        (b"Host: 127.0.0.1", HttpAccess(Password("s3cret"), only_local_names=True), b"401 Unauthorized"),
        (b"Host: localhost:9404", HttpAccess(only_local_names=True), b"200 OK"),
        (b"Host: [::1]:9404", HttpAccess(only_local_names=True), b"200 OK"),
        (b"Host: evil.example", HttpAccess(only_local_names=True), b"403 Forbidden"),
        (b"Host: prometheus.example", HttpAccess(), b"200 OK"),
    ],
)
def test_the_page_is_refused_to_who_has_no_token_and_to_web_pages(
    jar: Jar, fields: bytes, access: HttpAccess, status: bytes
) -> None:
    wire, page = Wire(), a_page(jar, access=access)
    page.connection_made(wire)
    page.data_received(b"GET /metrics HTTP/1.0\r\n" + fields + b"\r\n\r\n")
    if b"200" not in status:
        assert wire.written == b""  # the answer is delayed
        jar.loop.pass_ms(100)
    head = wire.written.split(b"\r\n")
    assert (head[0], wire.ended) == (b"HTTP/1.1 " + status, "closed")
    assert (b"WWW-Authenticate: Bearer" in head) == (b"401" in status)
    assert b"a 1" not in wire.written or b"200" in status


def test_connections_that_ask_nothing_are_few_and_do_not_stay(jar: Jar) -> None:
    told: list[str] = []
    admission = HttpAdmission(jar.loop, lambda _peer, reason: told.append(reason))
    wires = [Wire() for _ in range(MOST_OF_ADDRESS + 1)]
    for wire in wires:
        MetricsPage(admission, lambda: iter(()), HttpAccess()).connection_made(wire)
    assert [wire.ended for wire in wires] == [""] * MOST_OF_ADDRESS + ["aborted"]
    assert told == ["the port METRICS has as many connections as it serves"]
    jar.loop.pass_ms(10_000)
    assert {wire.ended for wire in wires} == {"aborted"}


@pytest.mark.parametrize(
    ("pieces", "status", "ended"),
    [
        ([b"GET /metrics HTTP/1.1\r\n", b"Host: x\r\n\r\n"], b"HTTP/1.1 200 OK", "closed"),
        ([b"GET /metrics HTTP/1.0\r\n\r\n"], b"HTTP/1.1 200 OK", "closed"),
        ([b"GET /metrics?name=x HTTP/1.1\r\n\r\n"], b"HTTP/1.1 200 OK", "closed"),
        ([b"GET / HTTP/1.1\r\n\r\n"], b"HTTP/1.1 404 Not Found", "closed"),
        ([b"POST /metrics HTTP/1.1\r\n\r\n"], b"HTTP/1.1 405 Method Not Allowed", "closed"),
        ([b"x" * 9000], b"", "aborted"),
    ],
)
def test_the_page_is_given_to_who_asks_for_it(
    jar: Jar, pieces: list[bytes], status: bytes, ended: str
) -> None:
    wire, page = Wire(), a_page(jar, lambda: iter(["a 1\n", "", "b 2\n"]))
    page.connection_made(wire)
    for piece in pieces:
        page.data_received(piece)
    page.connection_lost(None)
    assert (wire.written.split(b"\r\n")[0], wire.ended) == (status, ended)
    if status.endswith(b"OK"):
        head, _, body = wire.written.partition(b"\r\n\r\n")
        is_chunked = b"Transfer-Encoding: chunked" in head
        assert is_chunked == (b"HTTP/1.1" in pieces[0])
        assert body == (b"8\r\na 1\nb 2\n\r\n0\r\n\r\n" if is_chunked else b"a 1\nb 2\n")


def test_a_large_page_is_sent_in_slices_while_the_client_reads(jar: Jar) -> None:
    printed: list[int] = []

    def numbers() -> Iterator[str]:
        for number in range(3 * SLICE_LINES + 1):
            printed.append(number)
            yield f"n {number}\n"

    wire, page = Wire(), a_page(jar, numbers)
    page.connection_made(wire)
    page.data_received(b"GET /metrics HTTP/1.0\r\n\r\n")
    # One slice, then it is the turn of others; none while the client does not read
    assert len(printed) == SLICE_LINES
    page.pause_writing()
    jar.loop.settle()
    assert (len(printed), wire.ended) == (SLICE_LINES, "")
    page.resume_writing()
    jar.loop.settle()
    assert (len(printed), wire.ended) == (3 * SLICE_LINES + 1, "closed")
    assert wire.written.endswith(b"n 1499\nn 1500\n")
    # A client that has gone away costs nothing more
    printed.clear()
    wire, page = Wire(), a_page(jar, numbers)
    page.connection_made(wire)
    page.data_received(b"GET /metrics HTTP/1.0\r\n\r\n")
    page.connection_lost(None)
    jar.loop.settle()
    assert len(printed) == SLICE_LINES


def test_a_broker_listens_for_prometheus_where_it_is_told_to() -> None:
    async def scrape() -> bytes:
        settings = {"listeners": "PLAINTEXT://127.0.0.1:0", "klamm.metrics.listener": "127.0.0.1:0"}
        config, clock = BrokerConfig.from_settings(settings), SystemClock()
        storage = open_storage(config, clock=clock, random=Random(1), sleep=time.sleep, in_memory=True)
        broker = BrokerNode(config, clock=clock, random=Random(1), storage=storage, sleep=time.sleep)
        await broker.start()
        assert broker.metrics_listener is not None
        reader, writer = await asyncio.open_connection("127.0.0.1", broker.metrics_listener.port)
        writer.write(b"GET /metrics HTTP/1.1\r\n\r\n")
        answer = await reader.read()
        writer.close()
        await writer.wait_closed()
        await broker.stop()
        return answer

    assert b"\nkafka_server_kafkaserver_brokerstate 3\n" in asyncio.run(scrape())


def test_an_address_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigError, match="expected HOST:PORT"):
        BrokerConfig.from_settings({"klamm.metrics.listener": "9404"})


def test_a_transaction_that_nobody_ends_is_counted_as_late(jar: Jar, metrics: Metrics) -> None:
    late = "kafka_server_replicamanager_partitionswithlatetransactionscount"
    partition = jar.services.partitions.get("t", 0)
    assert partition is not None
    batch = a_batch(jar, producer_id=7, transactional=True)
    partition.log.append(batch, now_ms=jar.clock.now_ms(), timestamp_ms=jar.clock.timestamp_ms())
    # The longest time-out, 15 minutes, and five more
    jar.pass_ms(20 * 60_000)
    assert figures(metrics)[late] == 0
    jar.pass_ms(1)
    assert figures(metrics)[late] == 1
    jar.services.markers.write(TransactionMarker(7, 0, False, 0), [partition.name])
    assert figures(metrics)[late] == 0


def test_verifications_of_transactions_are_counted(jar: Jar, metrics: Metrics) -> None:
    coordinator = jar.services.verifier = SmallCoordinator()
    coordinator.begin("x", 7, 0)
    client = jar.connect()
    for version in (11, 12):
        batch = a_batch(jar, producer_id=7, transactional=True)
        client.ask(ApiKey.PRODUCE, version, a_produce(jar, batch, transactional_id="x"))
    found = figures(metrics)
    prefix = "kafka_server_addpartitionstotxnmanager_verification"
    assert (found[f"{prefix}timems_count"], found[f"{prefix}failurerate_total"]) == (2, 1)
