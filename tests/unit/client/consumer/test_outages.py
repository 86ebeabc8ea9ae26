"""Typos and outages are reported: one warning each, and a health that knows."""

from __future__ import annotations

import logging

import pytest

from klamm.client.consumer.consumer import Consumer
from klamm.client.consumer.report import ConsumerHealth
from klamm.errors import InvalidTopicError, TopicAuthorizationError
from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic
from klamm.protocol.types import TopicPartition
from unit.client.consumer.world import World


@pytest.fixture
def world() -> World:
    world = World()
    world.cluster.create("orders")
    return world


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.message for record in caplog.records if record.levelno == logging.WARNING]


def test_a_topic_that_does_not_exist_is_one_warning_until_it_does(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    consumer = world.consumer("ordres", group_id="g", client_id="me", enable_auto_commit=False)
    for _ in range(5):
        consumer.poll(2)
    assert warnings(caplog) == ["client me: topic ordres does not exist; waiting for it"]
    assert consumer.health().problems == ("topic ordres does not exist",)
    assert not consumer.health().is_healthy
    world.cluster.create("ordres")
    world.settle(consumer, rounds=20)
    assert consumer.health().is_healthy
    world.cluster.delete("ordres")
    world.hosts[0].core.metadata.request_update()
    world.settle(consumer, rounds=30)
    assert warnings(caplog) == ["client me: topic ordres does not exist; waiting for it"] * 2


class Looking(logging.Handler):
    """Notes a consumer's health with each message, as another thread might see it then."""

    def __init__(self, consumer: Consumer) -> None:
        super().__init__()
        self._consumer = consumer
        self.seen: dict[str, ConsumerHealth] = {}

    def emit(self, record: logging.LogRecord) -> None:
        self.seen[record.getMessage()] = self._consumer.health()


def test_a_consumer_is_healthy_again_when_it_has_partitions_of_a_topic_that_was_missing(world: World) -> None:
    consumer = world.consumer("ordres", group_id="g", client_id="me", enable_auto_commit=False)
    for _ in range(5):
        consumer.poll(2)
    looking = Looking(consumer)
    log = logging.getLogger("klamm")
    level = log.level
    log.addHandler(looking)
    log.setLevel(logging.INFO)
    try:
        world.cluster.create("ordres")
        world.pass_time(5_000)  # the metadata is updated, and no poll allows a join
        assert [problem.partition(":")[0] for problem in consumer.health().problems] == ["rejoining"]
        assert not looking.seen["client me: topic ordres: no longer missing"].is_healthy
        for _ in range(200):
            consumer.poll(0)
            world._round()
            health = consumer.health()
            assert health.is_healthy == bool(health.assignment), health
        assert health.is_healthy
    finally:
        log.removeHandler(looking)
        log.setLevel(level)


def test_a_topic_that_is_created_on_demand_is_no_warning(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    consumer = world.consumer("new", group_id="g")
    world.settle(consumer, rounds=5)
    world.cluster.create("new")
    world.settle(consumer, rounds=20)
    assert warnings(caplog) == []
    assert consumer.assignment() == {TopicPartition("new", 0)}


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (ErrorCode.invalid_topic_exception, InvalidTopicError),
        (ErrorCode.topic_authorization_failed, TopicAuthorizationError),
    ],
)
def test_a_topic_that_the_broker_refuses_is_raised_once(
    world: World, code: ErrorCode, error: type[Exception]
) -> None:
    def answer(request: MetadataRequest) -> MetadataResponse:
        response = world.cluster._metadata(request)
        return MetadataResponse(
            brokers=response.brokers,
            controller_id=1,
            topics=[MetadataResponseTopic(error_code=code, name=topic.name) for topic in response.topics],
        )

    world.cluster.answer_always(ApiKey.METADATA, answer)
    consumer = world.consumer("orders", group_id="g")
    with pytest.raises(error, match="orders"):
        world.settle(consumer, rounds=20)
    world.settle(consumer, rounds=20)
