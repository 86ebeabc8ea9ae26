"""Answers to odd Fetch requests that are Apache Kafka's: each was once a difference under random traffic."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from internals.jar import Jar, JarClient
from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from klamm.protocol.types import ZERO_ID
from klamm.testing.requests import a_batch, a_fetch, a_produce


@pytest.fixture
def jar() -> Iterator[Jar]:
    jar = Jar()
    jar.create_topic("t", partitions=2)
    jar.create_topic("u")
    writer = jar.connect()
    for topic, partition in (("t", 0), ("t", 1), ("u", 0)):
        writer.ask(ApiKey.PRODUCE, 9, a_produce(jar, a_batch(jar), topic=topic, partition=partition))
    yield jar
    jar.close()


@pytest.fixture
def client(jar: Jar) -> JarClient:
    return jar.connect()


def a_topic(name: str, *partitions: int, topic_id: bytes = ZERO_ID, max_bytes: int = 10_000) -> FetchTopic:
    wanted = [FetchPartition(each, partition_max_bytes=max_bytes) for each in partitions]
    return FetchTopic(topic_id, name, wanted)


def fetched(client: JarClient, version: int, *topics: FetchTopic, max_bytes: int = 10_000) -> FetchResponse:
    request = FetchRequest(min_bytes=1, max_bytes=max_bytes, topics=topics)
    response = client.ask(ApiKey.FETCH, version, request)
    assert isinstance(response, FetchResponse)
    return response


def places(response: FetchResponse) -> list[tuple[str, list[int]]]:
    return [
        (topic.topic, [each.partition_index for each in topic.partitions]) for topic in response.responses
    ]


def codes(response: FetchResponse) -> list[int]:
    return [each.error_code for topic in response.responses for each in topic.partitions]


def id_of(jar: Jar, name: str) -> bytes:
    topic = jar.services.image.topic(name)
    assert topic is not None
    return topic.topic_id


def test_what_does_not_exist_comes_last(client: JarClient) -> None:
    response = fetched(client, 12, a_topic("t", 9, 0), a_topic("u", 0), a_topic("t", 1), a_topic("v", 0))
    assert places(response) == [("t", [0]), ("u", [0]), ("t", [1, 9]), ("v", [0])]


def test_unknown_ids_come_before_unknown_partitions(jar: Jar, client: JarClient) -> None:
    known = id_of(jar, "t")
    response = fetched(client, 13, a_topic("", 9, topic_id=known), a_topic("", 0, topic_id=b"\7" * 16))
    assert [topic.topic_id for topic in response.responses] == [b"\7" * 16, known]
    assert codes(response) == [ErrorCode.unknown_topic_id, ErrorCode.unknown_topic_or_partition]


def test_a_broker_gets_unknown_ids_and_partitions_as_it_names_them(jar: Jar, client: JarClient) -> None:
    known, unknown = id_of(jar, "t"), b"\7" * 16
    wanted = ((9, known), (0, unknown), (0, known))
    topics = [a_topic("", partition, topic_id=topic_id) for partition, topic_id in wanted]
    request = FetchRequest(replica_id=5, min_bytes=1, max_bytes=10_000, topics=topics)
    response = client.ask(ApiKey.FETCH, 13, request)
    assert codes(response) == [
        ErrorCode.not_leader_or_follower,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.unknown_topic_id,
    ]


def test_a_partition_with_a_negative_limit_fails_if_there_is_something_to_read(client: JarClient) -> None:
    response = fetched(client, 12, a_topic("t", 0, max_bytes=-1), a_topic("u", 0))
    assert codes(response) == [ErrorCode.unknown_server_error, 0]
    assert response.responses[0].partitions[0].high_watermark == -1
    at_the_end = FetchTopic(ZERO_ID, "t", [FetchPartition(0, fetch_offset=1, partition_max_bytes=-1)])
    assert codes(fetched(client, 12, at_the_end)) == [0]


def test_a_negative_limit_of_a_request_fails_its_first_partition_only(client: JarClient) -> None:
    response = fetched(client, 12, a_topic("t", 0, 1), max_bytes=-3)
    assert codes(response) == [ErrorCode.unknown_server_error, 0]
    assert response.responses[0].partitions[1].records  # one batch always comes


def test_a_negative_limit_ends_the_wait(jar: Jar, client: JarClient) -> None:
    request = a_fetch(jar, max_wait_ms=10_000, min_bytes=1000, partition_max_bytes=-1)
    assert codes(client.ask(ApiKey.FETCH, 12, request)) == [ErrorCode.unknown_server_error]


@pytest.mark.parametrize(
    ("max_bytes", "partition_max_bytes", "batches"),
    [
        (800, 190, [2, 2, 2, 2, 0, 0]),
        (400, 190, [2, 2, 0, 0, 0, 0]),
        (250, 190, [2, 0, 0, 0, 0, 0]),
        (100, 190, [1, 0, 0, 0, 0, 0]),
        (800, 50, [1, 0, 0, 0, 0, 0]),
    ],
)
def test_limits_over_several_partitions_let_through_the_batches_that_kafka_sends_whole(
    jar: Jar, client: JarClient, max_bytes: int, partition_max_bytes: int, batches: list[int]
) -> None:
    # Given nine batches of 91 bytes in each of six partitions
    jar.create_topic("six", partitions=6)
    batch = a_batch(jar, value=b"x" * 20)
    assert len(batch) == 91
    for partition in range(6):
        for _ in range(9):
            client.ask(ApiKey.PRODUCE, 9, a_produce(jar, batch, topic="six", partition=partition))
    # Then each partition has what Apache Kafka 4.3.1 sends, without the batch that it cuts
    request = a_fetch(
        jar,
        topic="six",
        offsets=dict.fromkeys(range(6), 0),
        max_bytes=max_bytes,
        partition_max_bytes=partition_max_bytes,
    )
    response = client.ask(ApiKey.FETCH, 12, request)
    sizes = [len(each.records or b"") for each in response.responses[0].partitions]
    assert sizes == [91 * count for count in batches]


@pytest.mark.parametrize(("partition_max_bytes", "aborted"), [(10_000, []), (10, None), (0, [])])
def test_a_batch_that_did_not_fit_hides_whether_transactions_were_aborted(
    client: JarClient, partition_max_bytes: int, aborted: list[object] | None
) -> None:
    topics = [a_topic("t", 0), a_topic("u", 0, max_bytes=partition_max_bytes)]
    request = FetchRequest(min_bytes=1, max_bytes=10_000, isolation_level=1, topics=topics)
    response = client.ask(ApiKey.FETCH, 12, request)
    assert response.responses[1].partitions[0].aborted_transactions == aborted


@pytest.mark.parametrize("session_id", [2**31 - 1, 2**31 - 8, -(2**31), -268_435_455])
def test_a_session_id_that_no_session_can_have_fails_the_request(client: JarClient, session_id: int) -> None:
    request = FetchRequest(session_id=session_id, session_epoch=1, topics=[a_topic("t", 0)])
    response = client.ask(ApiKey.FETCH, 12, request)
    assert (response.error_code, response.session_id) == (ErrorCode.unknown_server_error, session_id)
    assert places(response) == [("t", [0])]
    assert codes(response) == [ErrorCode.unknown_server_error]


@pytest.mark.parametrize("session_id", [2**31 - 9, -1, -268_435_454])
def test_a_session_id_that_no_session_has_is_not_found(client: JarClient, session_id: int) -> None:
    response = client.ask(ApiKey.FETCH, 12, FetchRequest(session_id=session_id, session_epoch=1))
    assert (response.error_code, response.session_id) == (ErrorCode.fetch_session_id_not_found, 0)


def test_a_topic_without_an_id_fails_the_request_unless_it_comes_last(jar: Jar, client: JarClient) -> None:
    nothing, known = a_topic("", 0), a_topic("", 0, topic_id=id_of(jar, "t"))
    assert codes(fetched(client, 13, nothing, known)) == [0, ErrorCode.unknown_topic_id]
    response = fetched(client, 13, nothing, known, a_topic("", 9, topic_id=id_of(jar, "t")))
    assert (response.error_code, response.responses) == (ErrorCode.unknown_server_error, [])
    assert fetched(client, 13, a_topic("", 0, 1)).error_code == ErrorCode.unknown_server_error


def test_what_is_cut_off_counts_against_the_limit(jar: Jar, client: JarClient) -> None:
    writer = jar.connect()
    writer.ask(ApiKey.PRODUCE, 9, a_produce(jar, a_batch(jar, value=bytes(500)), topic="t"))
    size = len(a_batch(jar))
    # There is room for the first batch of each, but Kafka reads a part of the second one of the first topic.
    response = fetched(client, 12, a_topic("t", 0), a_topic("u", 0), max_bytes=2 * size)
    assert [len(topic.partitions[0].records or b"") for topic in response.responses] == [size, 0]
    # With a limit of its own, the first topic leaves the rest.
    response = fetched(
        client, 12, a_topic("t", 0, max_bytes=size + 5), a_topic("u", 0), max_bytes=2 * size + 5
    )
    assert [len(topic.partitions[0].records or b"") for topic in response.responses] == [size, size]


@pytest.mark.parametrize(("replica_id", "aborted"), [(-1, []), (-2, []), (-3, None)])
def test_the_isolation_level_is_that_of_consumers(
    client: JarClient, replica_id: int, aborted: list[object] | None
) -> None:
    request = FetchRequest(
        replica_id=replica_id, min_bytes=1, max_bytes=10_000, isolation_level=1, topics=[a_topic("t", 0)]
    )
    response = client.ask(ApiKey.FETCH, 12, request)
    assert response.responses[0].partitions[0].aborted_transactions == aborted


def test_a_session_has_the_order_of_its_first_response(jar: Jar, client: JarClient) -> None:
    topics = [a_topic("missing", 0), a_topic("u", 0)]
    request = FetchRequest(min_bytes=1, max_bytes=10_000, session_epoch=0, topics=topics)
    session_id = client.ask(ApiKey.FETCH, 12, request).session_id
    jar.create_topic("missing")
    request = FetchRequest(min_bytes=1, max_bytes=10_000, session_id=session_id, session_epoch=1)
    assert places(client.ask(ApiKey.FETCH, 12, request)) == [("u", [0]), ("missing", [0])]
