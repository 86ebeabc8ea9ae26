"""kafka-python's classes on klamm's client: `from klamm.compat.kafka import KafkaConsumer, KafkaProducer`."""

from __future__ import annotations

from klamm.client.producer.delivery import RecordMetadata
from klamm.compat.callers import ConsumerRebalanceListener
from klamm.compat.kafka.admin.client import KafkaAdminClient
from klamm.compat.kafka.consumer import KafkaConsumer
from klamm.compat.kafka.errors import KafkaError, KafkaTimeoutError, NoBrokersAvailable
from klamm.compat.kafka.producer import KafkaProducer
from klamm.compat.kafka.serializer import DefaultSerializer, Deserializer, JsonSerializer, Serializer
from klamm.compat.kafka.structs import (
    ConsumerGroupMetadata,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    TopicPartition,
    TopicPartitionReplica,
)
from klamm.compat.kafka.words import IsolationLevel, OffsetSpec
from klamm.compat.refusals import refuses

AsyncConsumerRebalanceListener = ConsumerRebalanceListener

__getattr__ = refuses("kafka")

__all__ = [
    "AsyncConsumerRebalanceListener",
    "ConsumerGroupMetadata",
    "ConsumerRebalanceListener",
    "DefaultSerializer",
    "Deserializer",
    "IsolationLevel",
    "JsonSerializer",
    "KafkaAdminClient",
    "KafkaConsumer",
    "KafkaError",
    "KafkaProducer",
    "KafkaTimeoutError",
    "NoBrokersAvailable",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "OffsetSpec",
    "RecordMetadata",
    "Serializer",
    "TopicPartition",
    "TopicPartitionReplica",
]
