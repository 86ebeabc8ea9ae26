"""Names of the other libraries that klamm does not have, and what to use instead."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

_SHARE: Final = "klamm's client has no share consumer yet"
_REGISTRY: Final = (
    "use klamm.schemas, or confluent_kafka.schema_registry itself: its serializers are functions that "
    "SerializingProducer and DeserializingConsumer of klamm.compat.confluent_kafka call"
)
_NETWORK: Final = "klamm has a network client of its own; use the consumer, the producer or the admin"
_METRICS: Final = "read metrics() of a client, or the broker's (docs/metrics.md)"
_PARTITIONER: Final = "klamm's default hashes keys in the same way; give a function for another one"
_ACCESS: Final = "klamm.Admin has SCRAM users"
_STATES: Final = "klamm.Admin has transactions and producers"

REFUSED: Final[Mapping[str, Mapping[str, str]]] = {
    "confluent_kafka": {
        "AcknowledgeType": _SHARE,
        "DeserializingShareConsumer": _SHARE,
        "ShareConsumer": _SHARE,
        "aio": "use klamm.aio, or klamm.compat.aiokafka",
        "avro": _REGISTRY,
        "consistent": "the partitioner is a setting: partitioner=consistent",
        "fnv1a": "the partitioner is a setting: partitioner=fnv1a",
        "kafkatest": "these are programs of Apache Kafka's own system tests",
        "libversion": "klamm has no librdkafka: see klamm.__version__",
        "murmur2": "the partitioner is a setting: partitioner=murmur2",
        "schema_registry": _REGISTRY,
        "serialization.DeserializerBuilder": "give the deserializer, not what builds it",
        "serialization.SerializerBuilder": "give the serializer, not what builds it",
        "version": "see klamm.__version__",
    },
    "kafka": {
        **dict.fromkeys(
            (
                "admin.ScramMechanism",
                "admin.UserScramCredentialDeletion",
                "admin.UserScramCredentialUpsertion",
            ),
            _ACCESS,
        ),
        **dict.fromkeys(
            (
                "admin.AbortTransactionSpec",
                "admin.PartitionProducerState",
                "admin.ProducerState",
                "admin.TransactionDescription",
                "admin.TransactionListing",
                "admin.TransactionState",
            ),
            _STATES,
        ),
        "admin.ConfigType": "describe_configs does not have the types of settings",
        "admin.UpdateFeatureType": "klamm.Admin.update_features has allow_downgrade",
        "cluster": _NETWORK,
        "metrics": _METRICS,
        "net": _NETWORK,
        "partitioner": _PARTITIONER,
    },
    "aiokafka": {
        "AIOKafkaClient": _NETWORK,
        "client": _NETWORK,
        "cluster": _NETWORK,
    },
}


def refuses(library: str, module: str = "") -> Callable[[str], object]:
    """The `__getattr__` of a library's module: an import of a name that is refused says what to use."""
    path = f"klamm.compat.{library}.{module}".rstrip(".")

    def missing(name: str) -> object:
        advice = REFUSED[library].get(f"{module}.{name}" if module else name)
        if advice is not None:
            raise ImportError(f"{path} has no {name}: {advice}")
        raise AttributeError(f"module {path!r} has no attribute {name!r}")

    return missing
