"""confluent-kafka's classes on klamm's client: change the import to `klamm.compat.confluent_kafka`."""

from __future__ import annotations

from klamm.client.message import (
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    TIMESTAMP_NOT_AVAILABLE,
)
from klamm.compat.confluent_kafka.consumer import Consumer
from klamm.compat.confluent_kafka.deserializing_consumer import DeserializingConsumer
from klamm.compat.confluent_kafka.error import (
    ConcurrentModificationException,
    IllegalStateException,
    KafkaError,
    KafkaException,
)
from klamm.compat.confluent_kafka.message import Message, Messages
from klamm.compat.confluent_kafka.model import (
    ConsumerGroupState,
    ConsumerGroupType,
    ElectionType,
    IsolationLevel,
    Node,
    TopicCollection,
    TopicPartitionInfo,
    Uuid,
)
from klamm.compat.confluent_kafka.partitions import (
    OFFSET_BEGINNING,
    OFFSET_END,
    OFFSET_INVALID,
    OFFSET_STORED,
    ConsumerGroupTopicPartitions,
    TopicPartition,
)
from klamm.compat.confluent_kafka.producer import Producer
from klamm.compat.confluent_kafka.serializing_producer import SerializingProducer
from klamm.compat.refusals import refuses

__getattr__ = refuses("confluent_kafka")

__all__ = [
    "OFFSET_BEGINNING",
    "OFFSET_END",
    "OFFSET_INVALID",
    "OFFSET_STORED",
    "TIMESTAMP_CREATE_TIME",
    "TIMESTAMP_LOG_APPEND_TIME",
    "TIMESTAMP_NOT_AVAILABLE",
    "ConcurrentModificationException",
    "Consumer",
    "ConsumerGroupState",
    "ConsumerGroupTopicPartitions",
    "ConsumerGroupType",
    "DeserializingConsumer",
    "ElectionType",
    "IllegalStateException",
    "IsolationLevel",
    "KafkaError",
    "KafkaException",
    "Message",
    "Messages",
    "Node",
    "Producer",
    "SerializingProducer",
    "TopicCollection",
    "TopicPartition",
    "TopicPartitionInfo",
    "Uuid",
]
