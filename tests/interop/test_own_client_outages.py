"""What users see when a broker is down or a topic is missing: a warning, health(), and recovery."""

from __future__ import annotations

import logging
import time
from pathlib import Path

import pytest

from interop.conftest import QUICK_GROUPS
from interop.own import PATIENCE_S, Own, poll_until
from interop.processes import KlammProcess
from klamm import Consumer, Producer

pytestmark = [pytest.mark.timeout(120)]


def warnings(caplog: pytest.LogCaptureFixture, client_id: str) -> list[str]:
    return [item.message for item in caplog.records if f"client {client_id}:" in item.message]


def test_a_broker_that_goes_away_is_reported_once_and_its_return_too(
    tmp_path: Path, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    def unhealthy() -> bool:
        return not (consumer.health().is_healthy or producer.health().is_healthy)

    with KlammProcess(tmp_path / "data", stderr_path=tmp_path / "log", settings=QUICK_GROUPS) as broker:
        bootstrap, port = broker.bootstrap, int(broker.bootstrap.rpartition(":")[2])
        with Own(bootstrap) as own:
            own.create_topic(topic)
        consumer = Consumer(topic, bootstrap_servers=bootstrap, group_id="g", client_id="reader")
        producer = Producer(bootstrap_servers=bootstrap, client_id="writer")
        producer.send(topic, b"0").result(PATIENCE_S)
        poll_until(consumer, lambda: consumer.health().is_healthy, "a healthy consumer")
        assert producer.health().is_healthy
    delivery = producer.send(topic, b"1")
    poll_until(consumer, unhealthy, "health() to know")
    assert "refused" in " ".join(consumer.health().problems)
    assert "refused" in " ".join(producer.health().problems)
    until = time.monotonic() + 1
    poll_until(consumer, lambda: time.monotonic() >= until, "repeated attempts")
    assert len(warnings(caplog, "reader")) == 1
    assert len(warnings(caplog, "writer")) == 1
    with (
        caplog.at_level(logging.INFO),
        KlammProcess(tmp_path / "data", stderr_path=tmp_path / "log2", settings=QUICK_GROUPS, port=port),
    ):
        assert delivery.result(PATIENCE_S).offset == 1
        poll_until(consumer, lambda: consumer.health().is_healthy, "recovery")
        assert producer.health().is_healthy
        assert "again" in warnings(caplog, "writer")[-1]
        consumer.close()
        producer.close()


def test_a_topic_that_does_not_exist_is_reported_once(
    own: Own, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    consumer = own.consumer(topic, group_id=f"g-{topic}", client_id="reader", allow_auto_create_topics=False)
    poll_until(consumer, lambda: bool(warnings(caplog, "reader")), "a warning")
    assert warnings(caplog, "reader") == [f"client reader: topic {topic} does not exist; waiting for it"]
    assert f"topic {topic} does not exist" in consumer.health().problems
    own.create_topic(topic)
    poll_until(consumer, lambda: consumer.health().is_healthy, "the topic")
    assert len(consumer.assignment()) == 1
