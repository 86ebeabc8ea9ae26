"""Partitioners by name put every key where librdkafka puts it."""

from __future__ import annotations

from typing import Any

import confluent_kafka
import pytest

from interop.own import PATIENCE_S, Own
from klamm import Producer

pytestmark = [pytest.mark.timeout(120)]

PARTITIONS = 7
KEYS = [b"", b"a", b"key", b"user-42", "订单".encode(), b"\x00\x01\xff", *(b"%d" % n for n in range(40))]


@pytest.mark.parametrize(
    "name", ["consistent", "consistent_random", "murmur2", "murmur2_random", "fnv1a", "fnv1a_random"]
)
def test_a_key_goes_where_librdkafka_puts_it(klamm_broker: Any, topic: str, name: str) -> None:
    with Own(klamm_broker.bootstrap) as own:
        own.create_topic(topic, PARTITIONS)
    theirs: dict[bytes | None, int] = {}
    keys: list[bytes | None] = [key for key in KEYS if key or name != "consistent_random"]
    if not name.endswith("_random"):
        keys.append(None)  # hashed like an empty key
    producer = confluent_kafka.Producer({"bootstrap.servers": klamm_broker.bootstrap, "partitioner": name})
    for key in keys:
        producer.produce(
            topic, b"x", key, on_delivery=lambda _, msg, key=key: theirs.__setitem__(key, msg.partition())
        )
    assert producer.flush(PATIENCE_S) == 0
    with Producer(bootstrap_servers=klamm_broker.bootstrap, partitioner_class=name) as own_producer:
        sent = {key: own_producer.send(topic, b"x", key) for key in keys}
        ours = {key: delivery.result(PATIENCE_S).partition for key, delivery in sent.items()}
    assert ours == theirs
    assert len(set(ours.values())) > 1
