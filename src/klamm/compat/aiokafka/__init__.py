"""aiokafka's classes on klamm's client: change the import to `klamm.compat.aiokafka`."""

from __future__ import annotations

from klamm.compat.aiokafka.consumer import AIOKafkaConsumer
from klamm.compat.aiokafka.errors import (
    ConsumerStoppedError,
    IllegalOperation,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
)
from klamm.compat.aiokafka.producer import AIOKafkaProducer
from klamm.compat.aiokafka.structs import (
    ConsumerRecord,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    TopicPartition,
)
from klamm.compat.callers import ConsumerRebalanceListener
from klamm.compat.refusals import refuses

__getattr__ = refuses("aiokafka")

__all__ = [
    "AIOKafkaConsumer",
    "AIOKafkaProducer",
    "ConsumerRebalanceListener",
    "ConsumerRecord",
    "ConsumerStoppedError",
    "IllegalOperation",
    "KafkaConnectionError",
    "KafkaError",
    "KafkaTimeoutError",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "TopicPartition",
]
