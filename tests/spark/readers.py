"""Reading with another client, as a consumer of the output would."""

from __future__ import annotations

from collections import Counter

import confluent_kafka


def committed_values(bootstrap: str, topic: str, partitions: int) -> Counter[bytes]:
    """What a reader of committed records sees now, by librdkafka."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "nobody",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
        }
    )
    found: Counter[bytes] = Counter()
    consumer.assign([confluent_kafka.TopicPartition(topic, number, 0) for number in range(partitions)])
    ended: set[int] = set()
    while len(ended) < partitions:
        message = consumer.poll(30)
        assert message is not None, "no answer"
        if message.error() is not None:
            assert message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF
            ended.add(message.partition())
        else:
            found[message.value()] += 1
    consumer.close()
    return found
