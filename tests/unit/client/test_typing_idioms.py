"""Common idioms under `mypy --strict`: the type checker reads this file; running it checks little more."""

from __future__ import annotations

import json
from typing import Any, assert_type

import klamm
from klamm import ConsumerRecord, Delivery, Message, RecordMetadata, TopicPartition, aio

SETTINGS: dict[str, Any] = {"bootstrap.servers": "127.0.0.1:1"}


def decode_number(data: bytes | None) -> int:
    return int(data or b"0")


def idioms() -> None:
    plain = klamm.Consumer("t", bootstrap_servers="127.0.0.1:1")
    assert_type(plain, klamm.Consumer[bytes | None, bytes | None])
    assert_type(klamm.Consumer("t", SETTINGS), klamm.Consumer[Any, Any])
    assert_type(klamm.Consumer[str, int](SETTINGS), klamm.Consumer[str, int])
    half = klamm.Consumer("t", bootstrap_servers="127.0.0.1:1", value_deserializer="json")
    assert_type(half, klamm.Consumer[bytes | None, Any])
    assert_type(klamm.Producer(bootstrap_servers="127.0.0.1:1"), klamm.Producer)
    klamm.Producer(bootstrap_servers="127.0.0.1:1", value_serializer=lambda value: json.dumps(value).encode())
    anything = klamm.Consumer(SETTINGS, value_deserializer=json.loads)
    for record in anything.poll(0):
        assert_type(record.value["id"], Any)
    numbers = klamm.Consumer(
        bootstrap_servers="127.0.0.1:1", key_deserializer=bytes.decode, value_deserializer=decode_number
    )
    assert_type(numbers, klamm.Consumer[str, int])
    for one in numbers:
        assert_type(one, ConsumerRecord[str, int])
        assert_type(one.key.upper(), str)
        assert_type(one.value + 1, int)
    named: klamm.Consumer[str, dict[str, int]] = klamm.Consumer(SETTINGS, value_deserializer="json")
    named.subscribe(["t"], on_assign=lambda assigned: print(assigned))  # noqa: T201, PLW0108  # as users write it
    named.commit({TopicPartition("t", 0): 3})
    producer = klamm.Producer(SETTINGS, value_serializer=lambda value: json.dumps(value).encode())
    sent = producer.send("t", {"a": 1}, key="k", headers={"h": "text"})
    assert_type(sent, Delivery)
    assert_type(sent.result(), RecordMetadata)

    def report(error: Any, message: Message) -> None:
        assert_type(message.topic(), str | None)

    producer.produce("t", b"x", on_delivery=report)
    producer.send("t", b"x", on_delivery=lambda delivery: None)


async def async_idioms() -> None:
    async with aio.Consumer(bootstrap_servers="127.0.0.1:1", value_deserializer=decode_number) as consumer:
        async for record in consumer:
            assert_type(record.value, int)
    async with aio.Producer(SETTINGS) as producer:
        assert_type(await producer.send_and_wait("t", b"x"), RecordMetadata)
        assert_type(await (await producer.send("t", b"x")), RecordMetadata)


def test_the_idioms_are_functions_that_the_type_checker_has_read() -> None:
    assert idioms.__annotations__ == {"return": "None"}
    assert async_idioms.__annotations__ == {"return": "None"}
