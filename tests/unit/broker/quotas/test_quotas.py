"""Quotas: whom they slow down, for how long, and that Kafka's order of precedence decides."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from internals.jar import Jar, JarClient
from klamm.broker.quotas import buckets
from klamm.broker.quotas.manager import QuotaManager
from klamm.broker.quotas.rates import Rate, TokenBucket
from klamm.clock import ManualClock
from klamm.protocol.api import ApiKey
from klamm.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from klamm.protocol.messages.api_versions import ApiVersionsRequest
from klamm.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from klamm.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from klamm.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from klamm.protocol.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from klamm.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from klamm.protocol.messages.list_groups import ListGroupsRequest
from klamm.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from klamm.records.record import Record, encode_batch

PRODUCER, CONSUMER, MUTATIONS = "producer_byte_rate", "consumer_byte_rate", "controller_mutation_rate"
ANONYMOUS = {"user": "ANONYMOUS"}


@pytest.fixture
def jar() -> Iterator[Jar]:
    jar = Jar()
    jar.create_topic("t", max_message_bytes=10_000_000)
    yield jar
    jar.close()


def ask(jar: Jar, api_key: ApiKey, version: int, request: Any, client: JarClient | None = None) -> Any:
    client = client or jar.connect()
    client.send(api_key, version, request)
    jar.pass_ms(10)
    (answer,) = client.new_answers()
    return answer


def alter(
    jar: Jar, entity: Mapping[str, str | None], quotas: Mapping[str, float | None], **more: bool
) -> tuple[int, str | None]:
    entry = EntryData(
        [EntityData(*each) for each in entity.items()],
        [OpData(key, value or 0.0, value is None) for key, value in quotas.items()],
    )
    (result,) = ask(jar, ApiKey.ALTER_CLIENT_QUOTAS, 1, AlterClientQuotasRequest([entry], **more)).entries
    return result.error_code, result.error_message


def a_produce(size_bytes: int, acks: int = -1) -> ProduceRequest:
    batch = encode_batch([Record(0, 0, None, bytes(size_bytes), ())])
    return ProduceRequest(
        None, acks, 5000, [TopicProduceData(name="t", partition_data=[PartitionProduceData(0, batch)])]
    )


def produced(jar: Jar, client: JarClient, size_bytes: int) -> int:
    return int(ask(jar, ApiKey.PRODUCE, 9, a_produce(size_bytes), client).throttle_time_ms)


def a_fetch() -> FetchRequest:
    partition = FetchPartition(0, fetch_offset=0, partition_max_bytes=10_000_000)
    return FetchRequest(session_epoch=-1, topics=[FetchTopic(topic="t", partitions=[partition])])


# --- rates ---------------------------------------------------------------------------------------------


def test_ten_seconds_of_a_quota_may_be_used_at_once() -> None:
    rate = Rate()
    waits = []
    for now_ms in (0, 10, 20):
        rate.record(400_000, now_ms)
        waits.append(rate.throttle_ms(100_000, now_ms))
    assert waits[:2] == [0, 0]
    assert 1900 <= waits[2] <= 2000


def test_what_was_used_long_ago_does_not_count() -> None:
    rate = Rate()
    rate.record(5_000_000, 0)
    assert rate.throttle_ms(100_000, 0) > 0
    rate.record(1, 11_000)
    assert rate.throttle_ms(100_000, 11_000) == 0


def test_a_bucket_may_be_overdrawn_once_and_fills_again() -> None:
    bucket = TokenBucket(1.0, 0)
    bucket.take(30, 1.0, 0)
    assert bucket.throttle_ms(1.0, 0) == 19_000
    assert bucket.throttle_ms(1.0, 10_000) == 9_000
    assert bucket.throttle_ms(1.0, 19_000) == 0
    bucket.take(1, 1.0, 1_000_000)  # it holds no more than eleven seconds
    bucket.take(11, 1.0, 1_000_000)
    assert bucket.throttle_ms(1.0, 1_000_000) == 1_000


# --- produce and fetch -----------------------------------------------------------------------------------


def test_a_producer_above_its_quota_is_answered_at_once_and_then_not_read(jar: Jar) -> None:
    assert alter(jar, ANONYMOUS, {PRODUCER: 100_000}) == (0, None)
    client = jar.connect()
    assert [produced(jar, client, 400_000) for _ in range(2)] == [0, 0]
    throttle_ms = produced(jar, client, 400_000)
    assert 1900 <= throttle_ms <= 2100
    client.send(ApiKey.API_VERSIONS, 0, ApiVersionsRequest())
    jar.pass_ms(throttle_ms - 100)
    assert not client.new_answers()
    jar.pass_ms(200)
    assert len(client.new_answers()) == 1


def test_a_quota_of_a_user_is_shared_by_all_client_ids_and_one_of_both_is_not(jar: Jar) -> None:
    alter(jar, ANONYMOUS, {PRODUCER: 100_000})
    produced(jar, jar.connect(client_id="one"), 900_000)
    assert produced(jar, jar.connect(client_id="two"), 400_000) > 0
    alter(jar, {**ANONYMOUS, "client-id": "three"}, {PRODUCER: 100_000})
    assert produced(jar, jar.connect(client_id="three"), 400_000) == 0


def test_an_unanswered_produce_mutes_too(jar: Jar) -> None:
    alter(jar, ANONYMOUS, {PRODUCER: 100_000})
    client = jar.connect()
    client.send(ApiKey.PRODUCE, 9, a_produce(1_500_000, acks=0))
    client.send(ApiKey.API_VERSIONS, 0, ApiVersionsRequest())
    jar.pass_ms(1000)
    assert not client.new_answers()
    jar.pass_ms(10_000)
    assert len(client.new_answers()) == 1


def test_a_throttled_fetch_has_no_data_and_they_come_later(jar: Jar) -> None:
    produced(jar, jar.connect(), 900_000)
    alter(jar, {"client-id": "reader"}, {CONSUMER: 100_000})
    client = jar.connect(client_id="reader")
    first = ask(jar, ApiKey.FETCH, 12, a_fetch(), client)
    assert first.throttle_time_ms == 0
    assert len(first.responses[0].partitions[0].records) > 900_000
    second = ask(jar, ApiKey.FETCH, 12, a_fetch(), client)
    assert (second.error_code, list(second.responses)) == (0, [])
    assert 7900 <= second.throttle_time_ms <= 8100
    client.send(ApiKey.FETCH, 12, a_fetch())
    jar.pass_ms(second.throttle_time_ms - 200)
    assert not client.new_answers()
    jar.pass_ms(10_000)  # what was fetched first counts for eleven seconds
    client.send(ApiKey.FETCH, 12, a_fetch())
    jar.pass_ms(10_000)
    assert len(client.new_answers()[-1].responses[0].partitions[0].records) > 900_000


def test_a_throttled_fetch_leaves_its_session_as_it_was(jar: Jar) -> None:
    produced(jar, jar.connect(), 900_000)
    alter(jar, ANONYMOUS, {CONSUMER: 100_000})
    client = jar.connect()
    ask(jar, ApiKey.FETCH, 12, a_fetch(), client)
    partition = FetchPartition(0, fetch_offset=1, partition_max_bytes=10_000_000)
    opening = FetchRequest(session_epoch=0, topics=[FetchTopic(topic="t", partitions=[partition])])
    session = ask(jar, ApiKey.FETCH, 12, opening, client)
    assert session.session_id
    back = FetchRequest(
        session_id=session.session_id,
        session_epoch=1,
        topics=[FetchTopic(topic="t", partitions=[FetchPartition(0, partition_max_bytes=10_000_000)])],
    )
    throttled = ask(jar, ApiKey.FETCH, 12, back, client)
    assert throttled.throttle_time_ms > 0
    assert (throttled.session_id, list(throttled.responses)) == (session.session_id, [])
    jar.pass_ms(15_000)
    on = FetchRequest(session_id=session.session_id, session_epoch=2)
    answer = ask(jar, ApiKey.FETCH, 12, on, client)
    assert (answer.error_code, len(answer.responses)) == (0, 1)


# --- time of the event loop -----------------------------------------------------------------------------


class BusyClock(ManualClock):
    """Between two looks at it a fortieth of a second has passed, if somebody looks that closely."""

    looks = 0

    def now_s(self) -> float:
        self.looks += 1
        return self.looks / 40


@pytest.fixture
def busy_jar() -> Iterator[Jar]:
    jar = Jar(clock=BusyClock())
    yield jar
    jar.close()


def throttle_of(jar: Jar, client: JarClient, api_key: ApiKey, version: int, request: Any) -> int:
    return int(ask(jar, api_key, version, request, client).throttle_time_ms)


def test_a_client_whose_requests_take_too_much_time_waits_a_second_at_most(busy_jar: Jar) -> None:
    assert alter(busy_jar, {"client-id": "busy"}, {"request_percentage": 0.6}) == (0, None)
    client = busy_jar.connect(client_id="busy")
    # 25 ms to decide and 25 ms to encode; 60 ms are free
    waits = [throttle_of(busy_jar, client, ApiKey.LIST_GROUPS, 4, ListGroupsRequest()) for _ in range(2)]
    assert waits == [0, 1000]
    client.send(ApiKey.LIST_GROUPS, 4, ListGroupsRequest())
    busy_jar.pass_ms(900)
    assert not client.new_answers()
    busy_jar.pass_ms(200)
    assert len(client.new_answers()) == 1
    other = busy_jar.connect(client_id="other")
    assert throttle_of(busy_jar, other, ApiKey.LIST_GROUPS, 4, ListGroupsRequest()) == 0


def test_a_handler_that_waits_is_counted_while_it_runs(busy_jar: Jar) -> None:
    client = busy_jar.connect(client_id="busy")
    alter(busy_jar, {"client-id": "busy"}, {"request_percentage": 0.6})
    request = CreateTopicsRequest([CreatableTopic("a", 1, 1)], 5000)
    assert throttle_of(busy_jar, client, ApiKey.CREATE_TOPICS, 7, request) > 0


def test_a_fetch_of_a_client_that_takes_too_much_time_has_no_data(busy_jar: Jar) -> None:
    busy_jar.create_topic("t")
    produced(busy_jar, busy_jar.connect(), 1000)
    alter(busy_jar, {"client-id": "busy"}, {"request_percentage": 0.4})
    client = busy_jar.connect(client_id="busy")
    first = ask(busy_jar, ApiKey.FETCH, 12, a_fetch(), client)
    assert (first.throttle_time_ms, len(first.responses)) == (0, 1)
    second = ask(busy_jar, ApiKey.FETCH, 12, a_fetch(), client)
    assert (second.throttle_time_ms, list(second.responses)) == (1000, [])


# --- precedence ------------------------------------------------------------------------------------------

LEVELS: list[dict[str, str | None]] = [
    {"user": "ANONYMOUS", "client-id": "c"},
    {"user": "ANONYMOUS", "client-id": None},
    {"user": "ANONYMOUS"},
    {"user": None, "client-id": "c"},
    {"user": None, "client-id": None},
    {"user": None},
    {"client-id": "c"},
    {"client-id": None},
]


def test_the_first_of_eight_levels_that_is_set_decides(jar: Jar) -> None:
    for number, entity in enumerate(LEVELS):
        assert alter(jar, entity, {PRODUCER: number + 1}) == (0, None)
    for number, entity in enumerate(LEVELS):
        quotas = jar.services.quotas
        assert isinstance(quotas, QuotaManager)
        found = quotas.table.find(PRODUCER, "ANONYMOUS", "c")
        assert found is not None
        assert found.limit == number + 1
        assert quotas.table.find(CONSUMER, "ANONYMOUS", "c") is None
        alter(jar, entity, {PRODUCER: None})
    assert jar.services.quotas is None  # without quotas nothing is in the way of a request


def test_clients_without_a_quota_leave_nothing_behind(jar: Jar, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buckets, "MOST_BUCKETS", 3)
    alter(jar, {"user": None, "client-id": None}, {PRODUCER: 1e9})
    quotas = jar.services.quotas
    assert isinstance(quotas, QuotaManager)
    for number in range(10):
        produced(jar, jar.connect(client_id=f"c{number}"), 10)
    assert len(quotas._rates) == 3


# --- changes of partitions -------------------------------------------------------------------------------


def test_partitions_above_the_quota_are_not_created_and_not_deleted(jar: Jar) -> None:
    alter(jar, ANONYMOUS, {MUTATIONS: 1})

    def create(name: str, count: int, version: int) -> tuple[int, int]:
        request = CreateTopicsRequest([CreatableTopic(name, count, 1)], 5000)
        answer = ask(jar, ApiKey.CREATE_TOPICS, version, request)
        return answer.topics[0].error_code, answer.throttle_time_ms

    assert create("a", 30, 7) == (0, 0)
    code, throttle_ms = create("b", 1, 7)
    assert code == 89
    assert 18_000 <= throttle_ms <= 19_000
    assert "b" not in jar.services.image.topics
    code, throttle_ms = create("c", 30, 5)  # an older client is served, and slowed down
    assert code == 0
    assert 48_000 <= throttle_ms <= 49_000
    growing = CreatePartitionsRequest([CreatePartitionsTopic("a", 31, None)], 5000)
    grown = ask(jar, ApiKey.CREATE_PARTITIONS, 3, growing)
    assert grown.results[0].error_code == 89
    assert grown.throttle_time_ms > 0
    deleting = DeleteTopicsRequest([DeleteTopicState("a")], timeout_ms=5000)
    deleted = ask(jar, ApiKey.DELETE_TOPICS, 6, deleting)
    assert deleted.responses[0].error_code == 89
    assert len(jar.services.image.topics["a"].partitions) == 30
    jar.pass_ms(60_000)
    assert ask(jar, ApiKey.DELETE_TOPICS, 6, deleting).responses[0].error_code == 0


# --- the APIs --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("entity", "quotas", "message"),
    [
        (ANONYMOUS, {PRODUCER: -1.0}, "Quota producer_byte_rate must be greater than 0"),
        (ANONYMOUS, {PRODUCER: 0.5}, "producer_byte_rate cannot be a fractional value."),
        (ANONYMOUS, {"no_such_rate": 1.0}, "Invalid configuration key no_such_rate"),
        (ANONYMOUS, {"connection_creation_rate": 1.0}, "Invalid configuration key"),
        ({"ip": "127.0.0.1"}, {PRODUCER: 1.0}, "Invalid configuration key producer_byte_rate"),
        ({}, {PRODUCER: 1.0}, "Invalid empty client quota entity"),
        ({"group": "g"}, {PRODUCER: 1.0}, "Unhandled client quota entity type: group"),
        ({"user": ""}, {PRODUCER: 1.0}, "Empty user not supported"),
        ({"ip": "127.0.0.1", "user": "u"}, {PRODUCER: 1.0}, "Invalid quota entity combination"),
        ({"ip": "no.such.host"}, {"connection_creation_rate": 1.0}, "no.such.host is not a valid IP"),
    ],
)
def test_what_cannot_be_set_is_refused(
    jar: Jar, entity: dict[str, str | None], quotas: dict[str, float], message: str
) -> None:
    code, text = alter(jar, entity, quotas)
    assert code == 42
    assert text is not None
    assert text.startswith(message)
    assert jar.services.quotas is None


def test_a_dry_run_checks_and_changes_nothing(jar: Jar) -> None:
    assert alter(jar, ANONYMOUS, {PRODUCER: 5}, validate_only=True) == (0, None)
    assert alter(jar, ANONYMOUS, {PRODUCER: -5}, validate_only=True)[0] == 42
    assert jar.services.quotas is None
    assert alter(jar, ANONYMOUS, {PRODUCER: None}) == (0, None)  # absent already


def test_an_entity_in_two_entries_is_changed_by_neither(jar: Jar) -> None:
    entries = [EntryData([EntityData("user", "a")], [OpData(PRODUCER, 1.0, False)]) for _ in range(2)]
    answer = ask(jar, ApiKey.ALTER_CLIENT_QUOTAS, 1, AlterClientQuotasRequest(entries))
    assert [each.error_code for each in answer.entries] == [42, 42]
    assert jar.services.quotas is None


@pytest.mark.parametrize(
    ("components", "strict", "found"),
    [
        ([], False, 4),
        ([], True, 0),
        ([ComponentData("user", 0, "a")], False, 2),
        ([ComponentData("user", 0, "a")], True, 1),
        ([ComponentData("user", 1, None)], False, 1),
        ([ComponentData("user", 2, None)], False, 3),
        ([ComponentData("user", 2, None)], True, 2),
        ([ComponentData("user", 2, None), ComponentData("client-id", 0, "c")], False, 1),
        ([ComponentData("client-id", 1, None)], False, 1),
    ],
)
def test_quotas_are_described_by_entity(
    jar: Jar, components: list[ComponentData], strict: bool, found: int
) -> None:
    entities: list[dict[str, str | None]] = [
        {"user": "a"},
        {"user": "a", "client-id": "c"},
        {"user": None},
        {"client-id": None},
    ]
    for entity in entities:
        alter(jar, entity, {PRODUCER: 100})
    answer = ask(jar, ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, DescribeClientQuotasRequest(components, strict))
    assert answer.error_code == 0
    assert len(answer.entries) == found
    assert all([(v.key, v.value) for v in e.quota_values] == [(PRODUCER, 100.0)] for e in answer.entries)


@pytest.mark.parametrize(
    ("components", "code"),
    [
        ([ComponentData("user", 2, None), ComponentData("user", 2, None)], 42),
        ([ComponentData("user", 3, None)], 42),
        ([ComponentData("user", 0, None)], 42),
        ([ComponentData("user", 1, "a")], 42),
        ([ComponentData("", 2, None)], 42),
        ([ComponentData("ip", 2, None), ComponentData("user", 2, None)], 42),
        ([ComponentData("foo", 2, None)], 35),
    ],
)
def test_a_filter_that_makes_no_sense_is_refused(
    jar: Jar, components: list[ComponentData], code: int
) -> None:
    answer = ask(jar, ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, DescribeClientQuotasRequest(components))
    assert (answer.error_code, answer.entries) == (code, None)
