"""A program that makes clients, forks, and uses each of them in a child: prints what became of each call.

Run by test_forks.py in a process of its own: it has threads, as a preloading server has when it forks.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import warnings
from collections.abc import Callable
from itertools import count
from typing import Any

import klamm
from klamm import aio
from klamm.compat import aiokafka, confluent_kafka, kafka
from klamm.compat.aiokafka.admin import AIOKafkaAdminClient
from klamm.compat.confluent_kafka.admin import AdminClient

ALARM_S = 5  # a call that hangs ends its child
TOPIC = "t"
PLACE = klamm.TopicPartition(TOPIC, 0)
_numbers = count()


def consumer_settings(bootstrap: str) -> dict[str, str]:
    return {"bootstrap.servers": bootstrap, "group.id": f"g{next(_numbers)}", "auto.offset.reset": "earliest"}


def calls(bootstrap: str, loop: asyncio.AbstractEventLoop) -> dict[str, Callable[[], Any]]:
    """Of each client some calls, by name. All have been used; in some producers a record waits."""
    settings: dict[str, Any] = {"bootstrap.servers": bootstrap}
    producer = klamm.Producer(settings, linger_ms=60_000)
    producer.send(TOPIC, b"pending")
    transactional = klamm.Producer(settings, transactional_id="x")
    transactional.init_transactions()
    consumer = klamm.Consumer(TOPIC, consumer_settings(bootstrap))
    consumer.getone(10)
    admin = klamm.Admin(settings)
    admin.list_topics()
    theirs = confluent_kafka.Producer({**settings, "linger.ms": 60_000})
    theirs.produce(TOPIC, b"pending")
    their_consumer = confluent_kafka.Consumer(consumer_settings(bootstrap))
    their_consumer.subscribe([TOPIC])
    their_consumer.poll(10)
    their_admin = AdminClient({"bootstrap.servers": bootstrap})
    python_producer = kafka.KafkaProducer(bootstrap_servers=bootstrap, linger_ms=60_000)
    python_producer.send(TOPIC, b"pending")

    python_consumer = kafka.KafkaConsumer(
        TOPIC, bootstrap_servers=bootstrap, group_id=f"g{next(_numbers)}", auto_offset_reset="earliest"
    )
    python_consumer.poll(10_000)
    python_admin = kafka.KafkaAdminClient(bootstrap_servers=bootstrap)

    async def of_asyncio() -> tuple[aio.Producer, aio.Consumer, aiokafka.AIOKafkaProducer]:
        producer = aio.Producer(bootstrap_servers=bootstrap)
        await producer.send_and_wait(TOPIC, b"1")
        consumer = aio.Consumer(TOPIC, consumer_settings(bootstrap))
        await consumer.getone(10)
        other = aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap)
        await other.start()
        return producer, consumer, other

    awaited, awaited_consumer, other = loop.run_until_complete(of_asyncio())
    wait = loop.run_until_complete

    async def of_aiokafka() -> tuple[aiokafka.AIOKafkaConsumer, AIOKafkaAdminClient, aio.Admin]:
        consumer = aiokafka.AIOKafkaConsumer(
            TOPIC, bootstrap_servers=bootstrap, group_id=f"g{next(_numbers)}", auto_offset_reset="earliest"
        )
        await consumer.start()
        await consumer.getone()
        admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        await admin.start()
        return consumer, admin, aio.Admin(bootstrap_servers=bootstrap)

    other_consumer, other_admin, awaited_admin = wait(of_aiokafka())
    partition = confluent_kafka.TopicPartition(*PLACE)
    made: dict[str, Callable[[], Any]] = {
        "producer.send": lambda: producer.send(TOPIC, b"1"),
        "producer.flush": producer.flush,
        "producer.partitions_for": lambda: producer.partitions_for("other"),
        "producer.health": lambda: producer.health().problems,
        "producer.close": producer.close,
        "transactional.begin": transactional.begin_transaction,
        "transactional.close": transactional.close,
        "consumer.poll": lambda: consumer.poll(1),
        "consumer.getone": lambda: consumer.getone(1),
        "consumer.iter": lambda: next(iter(consumer)),
        "consumer.commit": consumer.commit,
        "consumer.keepalive": consumer.keepalive,
        "consumer.health": lambda: consumer.health().problems,
        "consumer.close": consumer.close,
        "admin.list_topics": admin.list_topics,
        "admin.close": admin.close,
        "confluent.produce": lambda: theirs.produce(TOPIC, b"1"),
        "confluent.poll": lambda: theirs.poll(1),
        "confluent.flush": theirs.flush,
        "confluent.close": theirs.close,
        "confluent consumer.poll": lambda: their_consumer.poll(1),
        "confluent consumer.consume": lambda: their_consumer.consume(1, 1),
        "confluent consumer.commit": lambda: their_consumer.commit(asynchronous=False),
        "confluent consumer.position": lambda: their_consumer.committed([partition], timeout=1),
        "confluent consumer.close": their_consumer.close,
        "confluent admin.list_topics": lambda: their_admin.list_topics(timeout=5),
        "confluent admin.describe_cluster": lambda: their_admin.describe_cluster().result(5),
        "kafka-python consumer.poll": lambda: python_consumer.poll(1000),
        "kafka-python consumer.next": lambda: next(python_consumer),
        "kafka-python consumer.commit": python_consumer.commit,
        "kafka-python consumer.topics": python_consumer.topics,
        "kafka-python consumer.close": python_consumer.close,
        "kafka-python admin.list_topics": python_admin.list_topics,
        "kafka-python admin.close": python_admin.close,
        "kafka-python.send": lambda: python_producer.send(TOPIC, b"1"),
        "kafka-python.flush": python_producer.flush,
        "kafka-python.close": python_producer.close,
        "aio.send": lambda: wait(awaited.send(TOPIC, b"1")),
        "aio.close": lambda: wait(awaited.close()),
        "aio consumer.poll": lambda: wait(awaited_consumer.poll(1)),
        "aio consumer.getone": lambda: wait(awaited_consumer.getone(1)),
        "aio consumer.close": lambda: wait(awaited_consumer.close()),
        "aiokafka.send": lambda: wait(other.send(TOPIC, b"1")),
        "aiokafka.stop": lambda: wait(other.stop()),
        "aiokafka consumer.getone": lambda: wait(other_consumer.getone()),
        "aiokafka consumer.getmany": lambda: wait(other_consumer.getmany(timeout_ms=1000)),
        "aiokafka consumer.iter": lambda: wait(anext(aiter(other_consumer))),
        "aiokafka consumer.commit": lambda: wait(other_consumer.commit()),
        "aiokafka consumer.topics": lambda: wait(other_consumer.topics()),
        "aiokafka consumer.stop": lambda: wait(other_consumer.stop()),
        "aiokafka admin.list_topics": lambda: wait(other_admin.list_topics()),
        "aiokafka admin.close": lambda: wait(other_admin.close()),
        "aio admin.list_topics": lambda: wait(awaited_admin.list_topics()),
        "aio admin.close": lambda: wait(awaited_admin.close()),
        "new.send": lambda: klamm.Producer(settings).send(TOPIC, b"1").result(10).topic,
    }

    def parent() -> None:
        producer.flush()
        consumer.commit()
        theirs.flush()

    made["_parent"] = parent
    return made


def in_a_child(call: Callable[[], Any]) -> str:
    """What a call in a forked child returned or raised."""
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # forking beside threads is what this is about
        child = os.fork()
    if not child:
        signal.alarm(ALARM_S)
        try:
            said = f"returned {call()}"
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        os.write(writer, said.encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    return said or "hung"


def main() -> None:
    with klamm.Broker() as broker:
        with klamm.Producer(bootstrap_servers=broker.bootstrap) as first:
            for number in range(10):
                first.send(TOPIC, b"%d" % number)
        made = calls(broker.bootstrap, asyncio.new_event_loop())
        parent = made.pop("_parent")
        found = {name: in_a_child(call) for name, call in made.items()}
        parent()
        with klamm.Consumer(bootstrap_servers=broker.bootstrap) as reader:
            found["_end"] = str(reader.end_offsets([PLACE])[PLACE])
    print(json.dumps(found), flush=True)  # noqa: T201  # read by the test
    os._exit(0)  # the other clients are not closed


if __name__ == "__main__":
    main()
