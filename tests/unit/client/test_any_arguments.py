"""Whatever is passed to a consumer or a producer, an error says why, and the client works afterwards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

import klamm
from internals.any_arguments import PLACE, arguments_of, calls_of
from klamm import Committed, Consumer, KlammError, Producer


@pytest.fixture(scope="module")
def broker() -> Iterator[klamm.Broker]:
    with klamm.Broker() as broker, klamm.Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.create_topics({"t": 1})
        yield broker


def call_with_anything(client: Any, name: str) -> None:
    """Call a method again and again; the client's thread must survive each of the calls."""

    @settings(
        max_examples=80,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        derandomize=True,
    )
    @given(arguments_of(getattr(client, name)))
    def survives(arguments: Mapping[str, Any]) -> None:
        with suppress(KlammError, TypeError, ValueError):  # they say why
            getattr(client, name)(**arguments)
        ended = [each for each in client.health().problems if "thread" in each]
        assert not ended, (name, arguments)

    survives()


def commit(consumer: Consumer) -> None:
    """Callbacks of earlier calls run here, too: each that cannot be called with a result raises once."""
    for _ in range(100):
        with suppress(TypeError):
            return consumer.commit({PLACE: 0})


@pytest.mark.parametrize("name", calls_of(Consumer))
def test_a_consumer_survives_any_argument(broker: klamm.Broker, name: str) -> None:
    consumer = Consumer(bootstrap_servers=broker.bootstrap, group_id="g")
    call_with_anything(consumer, name)
    consumer.unsubscribe()
    consumer.assign([PLACE])
    consumer.seek_to_end(PLACE)
    commit(consumer)
    assert consumer.committed([PLACE]) == {PLACE: Committed(0)}
    consumer.close()


def test_an_infinite_timeout_is_a_long_one(broker: klamm.Broker) -> None:
    with Consumer(bootstrap_servers=broker.bootstrap) as consumer:
        assert consumer.end_offsets([PLACE], timeout=float("inf")).keys() == {PLACE}


@pytest.mark.parametrize("name", calls_of(Producer))
@pytest.mark.parametrize("is_transactional", [False, True], ids=["plain", "transactional"])
def test_a_producer_survives_any_argument(broker: klamm.Broker, name: str, is_transactional: bool) -> None:
    more: dict[str, Any] = {"transactional.id": f"any-{name}"}
    if not is_transactional:
        more = {"max.block.ms": 100, "delivery.timeout.ms": 300, "request.timeout.ms": 200}
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0, **more})
    if is_transactional:
        producer.init_transactions()
        producer.begin_transaction()
    call_with_anything(producer, name)
    assert producer.list_topics("t", timeout=10).keys() == {"t"}
    try:
        producer.close()
    except KlammError:
        assert name in ("send", "produce", "purge")  # what could not be delivered, at the latest now
