"""One record there and back over SASL_SSL: `python -m interop.clients.secured LIBRARY JSON`.

Prints the record's value, or the errors of the client.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import sys
import time
from typing import Any, Final

WAIT_S: Final = 30.0


def librdkafka(given: dict[str, str]) -> str:
    import confluent_kafka

    errors: list[str] = []
    settings: dict[str, Any] = {
        "bootstrap.servers": given["address"],
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": given["ca"],
        "sasl.mechanisms": given["mechanism"],
        "error_cb": lambda error: errors.append(str(error)),
    }
    if given["mechanism"] == "OAUTHBEARER":
        settings["oauth_cb"] = lambda _: (given["token"], time.time() + 60)
    else:
        settings |= {"sasl.username": given["user"], "sasl.password": given["secret"]}
    producer = confluent_kafka.Producer(settings)
    producer.produce(given["topic"], b"hello")
    due_at = time.monotonic() + WAIT_S
    while len(producer) and not errors and time.monotonic() < due_at:
        producer.poll(0.1)
    if errors:
        producer.purge()
        return " ".join(errors)
    consumer = confluent_kafka.Consumer(
        {**settings, "group.id": f"g-{given['topic']}", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([given["topic"]])
    message = None
    while message is None and time.monotonic() < due_at:
        message = consumer.poll(1)
    consumer.close()
    assert message is not None
    return str(message.value().decode())


def kafka_python(given: dict[str, str]) -> str:
    import kafka
    from kafka.net.sasl.oauth import AbstractTokenProvider

    class Tokens(AbstractTokenProvider):  # type: ignore[misc]
        def token(self) -> str:
            return given["token"]

    settings: dict[str, Any] = {
        "bootstrap_servers": given["address"],
        "security_protocol": "SASL_SSL",
        "ssl_cafile": given["ca"],
        "sasl_mechanism": given["mechanism"],
    }
    if given["mechanism"] == "OAUTHBEARER":
        settings["sasl_oauth_token_provider"] = Tokens()
    else:
        settings |= {"sasl_plain_username": given["user"], "sasl_plain_password": given["secret"]}
    producer = kafka.KafkaProducer(**settings)
    producer.send(given["topic"], b"hello").get(WAIT_S)
    producer.close()
    consumer = kafka.KafkaConsumer(
        given["topic"], group_id=f"g-{given['topic']}", auto_offset_reset="earliest", **settings
    )
    value = next(iter(consumer)).value
    consumer.close()
    return str(value.decode())


def aiokafka(given: dict[str, str]) -> str:
    import aiokafka
    from aiokafka.abc import AbstractTokenProvider

    class Tokens(AbstractTokenProvider):  # type: ignore[misc]
        async def token(self) -> str:
            return given["token"]

    async def there_and_back() -> str:
        settings: dict[str, Any] = {
            "bootstrap_servers": given["address"],
            "security_protocol": "SASL_SSL",
            "ssl_context": ssl.create_default_context(cafile=given["ca"]),
            "sasl_mechanism": given["mechanism"],
        }
        if given["mechanism"] == "OAUTHBEARER":
            settings["sasl_oauth_token_provider"] = Tokens()
        else:
            settings |= {"sasl_plain_username": given["user"], "sasl_plain_password": given["secret"]}
        async with aiokafka.AIOKafkaProducer(**settings) as producer:
            await producer.send_and_wait(given["topic"], b"hello")
        consumer = aiokafka.AIOKafkaConsumer(
            given["topic"], group_id=f"g-{given['topic']}", auto_offset_reset="earliest", **settings
        )
        async with consumer:
            record = await asyncio.wait_for(consumer.getone(), WAIT_S)
        return str(record.value.decode())

    return asyncio.run(there_and_back())


PROGRAMS: Final = {"librdkafka": librdkafka, "kafka-python": kafka_python, "aiokafka": aiokafka}

if __name__ == "__main__":
    sys.stdout.write(PROGRAMS[sys.argv[1]](json.loads(sys.argv[2])) + "\n")
