"""Interceptors and the statistics callback."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

import klamm
from klamm.client.consumer.settings import parse as parse_consumer
from klamm.client.interceptors import ConsumerInterceptor, ProducerInterceptor, ProducerRecord
from klamm.client.producer.settings import parse as parse_producer
from klamm.client.statistics import Statistics
from klamm.config import ConfigError
from unit.client.consumer.fake_cluster import partitions
from unit.client.consumer.world import World

PLACE = {"bootstrap.servers": "127.0.0.1:1"}


@pytest.fixture
def broker() -> Iterator[klamm.Broker]:
    with klamm.Broker() as broker:
        yield broker


class Stamps(ProducerInterceptor):
    def __init__(self) -> None:
        self.acknowledged: list[tuple[Any, Exception | None]] = []

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        return record._replace(value=b"stamped " + record.value, headers={"by": "me"})

    def on_acknowledgement(self, metadata: Any, error: Exception | None) -> None:
        self.acknowledged.append((metadata, error))


class Fails(ProducerInterceptor):
    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        raise ValueError("mine")


def test_a_producer_interceptor_changes_records_and_hears_of_them(
    broker: klamm.Broker, caplog: pytest.LogCaptureFixture
) -> None:
    stamps = Stamps()
    with klamm.Producer(bootstrap_servers=broker.bootstrap, interceptors=[Fails(), stamps]) as producer:
        place = producer.send("t", b"x").result(10)
        producer.flush(10)
    assert stamps.acknowledged == [(place, None)]
    assert "failed in on_send" in caplog.text
    with klamm.Consumer(bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([klamm.TopicPartition("t", 0)])
        (record,) = consumer.consume(1, 10)
    assert (record.value, record.headers) == (b"stamped x", (("by", b"me"),))


class Watches(ConsumerInterceptor):
    def __init__(self) -> None:
        self.consumed = 0
        self.committed: list[Any] = []

    def on_consume(self, records: Any) -> Any:
        self.consumed += len(records)
        return records

    def on_commit(self, offsets: Mapping[Any, Any]) -> None:
        self.committed.append(dict(offsets))


def test_a_consumer_interceptor_sees_records_and_commits() -> None:
    world = World()
    world.cluster.create("t")
    (partition,) = partitions("t", [0])
    world.cluster.produce(partition, b"0", b"1")
    watches = Watches()
    consumer = world.consumer("t", group_id="g", enable_auto_commit=False, interceptors=watches)
    assert len(consumer.poll(1)) == 2
    consumer.commit({partition: 1})
    consumer.poll(0)
    assert watches.consumed == 2
    assert [{key: item.offset for key, item in each.items()} for each in watches.committed] == [
        {partition: 1}
    ]


@pytest.mark.parametrize("given", [3, Stamps, [object()]])
def test_an_interceptor_without_its_methods_is_refused(given: Any) -> None:
    with pytest.raises(ConfigError, match="on_send and on_acknowledgement"):
        parse_producer(PLACE, {"interceptors": given})
    with pytest.raises(ConfigError, match="on_consume and on_commit"):
        parse_consumer(PLACE, {"interceptors": given}, 1)


def test_statistics_are_called_at_intervals_and_survive_an_error(caplog: pytest.LogCaptureFixture) -> None:
    heard: list[int] = []

    def callback(statistics: Mapping[str, int]) -> None:
        heard.append(statistics["n"])
        if len(heard) == 1:
            raise ValueError("mine")

    ticking = Statistics(callback, 1_000, lambda: {"n": len(heard)}, now_ms=0)
    assert ticking.tick(999) == 1_000
    assert ticking.tick(1_000) == 2_000
    assert ticking.tick(2_500) == 3_500
    assert heard == [0, 1]
    assert "callback raised" in caplog.text


def test_clients_call_their_statistics_callback(broker: klamm.Broker) -> None:
    called = {"records_delivered": threading.Event(), "records_consumed": threading.Event()}

    def heard(statistics: Mapping[str, Any]) -> None:
        for name, event in called.items():
            if statistics.get(name):
                event.set()

    settings: dict[str, Any] = {
        "bootstrap_servers": broker.bootstrap,
        "stats_callback": heard,
        "statistics_interval_ms": 10,
    }
    with klamm.Producer(**settings) as producer:
        producer.send("t", b"x").result(10)
        assert called["records_delivered"].wait(10)
    with klamm.Consumer(**settings, auto_offset_reset="earliest") as consumer:
        consumer.assign([klamm.TopicPartition("t", 0)])
        assert len(consumer.consume(1, 10)) == 1
        assert called["records_consumed"].wait(10)


@pytest.mark.parametrize(
    "given",
    [
        {"statistics_interval_ms": 5},
        {"stats_callback": print},
        {"stats_callback": 3, "statistics_interval_ms": 5},
        {"stats_callback": lambda: None, "statistics_interval_ms": 5},
    ],
)
def test_statistics_need_a_callback_and_an_interval(given: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        parse_producer(PLACE, given)
    with pytest.raises(ConfigError):
        parse_consumer(PLACE, given, 1)
