"""Groups in trouble: of librdkafka and of klamm's client, on klamm and on Apache Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any, Self

import pytest
from confluent_kafka import Consumer, TopicPartition

import klamm
from internals.troubled_groups import MakeConsumer, Scene, TroubledGroups

pytestmark = [pytest.mark.groups, pytest.mark.timeout(180)]

_numbers = count(1)


class Librdkafka:
    """A consumer of confluent-kafka with the calls that the tests make."""

    def __init__(self, topic: str, settings: dict[str, Any]) -> None:
        self._consumer = Consumer(settings)
        self._consumer.subscribe([topic])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def poll(self, timeout: float) -> list[Any]:
        found = self._consumer.poll(timeout)
        return [] if found is None or found.error() is not None else [found]

    def assignment(self) -> list[Any]:
        return list(self._consumer.assignment())

    def commit_sync(self, offsets: dict[klamm.TopicPartition, int] | None = None) -> None:
        if offsets is None:
            self._consumer.commit(asynchronous=False)
            return
        wanted = [TopicPartition(key.topic, key.partition, offset) for key, offset in offsets.items()]
        self._consumer.commit(offsets=wanted, asynchronous=False)

    def close(self) -> None:
        self._consumer.close()


def klamms(topic: str, settings: dict[str, Any]) -> klamm.Consumer:
    return klamm.Consumer(topic, settings)


class _OnBoth(TroubledGroups):
    make: MakeConsumer

    @pytest.fixture
    def scene(self, cluster: str, request: pytest.FixtureRequest) -> Iterator[Scene]:
        is_klamm = "klamm" in request.node.callspec.id
        scene = Scene(cluster, next(_numbers), type(self).make, is_klamm=is_klamm)
        yield scene
        scene.close()


class TestLibrdkafka(_OnBoth):
    make = Librdkafka


class TestKlammsClient(_OnBoth):
    make = staticmethod(klamms)
