"""kafka-python's producer on klamm's."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from klamm.client.producer.producer import Producer
from klamm.compat.bootstrap import wait_for_cluster
from klamm.compat.callers import committable, own_partitioner
from klamm.compat.kafka.consumer import BOOTSTRAP_TIMEOUT_MS
from klamm.compat.kafka.rates import Meter, of_producer, refuse_raw, window_of
from klamm.compat.kafka.serializer import own_serializer
from klamm.compat.kafka.structs import ConsumerGroupMetadata
from klamm.compat.python_settings import KAFKA_PYTHON, own_settings
from klamm.compat.settings import ClientKind
from klamm.config import ConfigError
from klamm.net.cluster import TopicInfo
from klamm.protocol.types import TopicPartition


class KafkaProducer(Producer[Any, Any]):
    """kafka-python's producer: futures have `get`, `add_callback` and `add_errback`."""

    def __init__(self, **configs: Any) -> None:
        made = own_settings(KAFKA_PYTHON, configs, ClientKind.PRODUCER)
        if made.pop("allow_auto_create_topics", True) is False:
            raise ConfigError(
                "allow_auto_create_topics",
                "allow_auto_create_topics=False is not supported: set auto.create.topics.enable=false on "
                "the broker",
            )
        if made.get("retries") == math.inf:
            del made["retries"]
        partitioner = made.pop("partitioner", None)
        if partitioner is not None:
            made["partitioner_class"] = own_partitioner(partitioner)
        for name in ("key_serializer", "value_serializer"):
            made[name] = own_serializer(made.get(name), "serialize")
        bootstrap_ms = made.pop("bootstrap_timeout_ms", BOOTSTRAP_TIMEOUT_MS)
        window_ms = window_of(made)
        super().__init__(**made)
        self._meter = Meter(self._clock, window_ms, super().metrics)
        try:
            wait_for_cluster(self, bootstrap_ms)
        except BaseException:
            self.close(0)
            raise

    def _not_known(
        self, topic: str, partition: int | None, *, block: bool
    ) -> tuple[TopicInfo | None, int | None]:
        known = self._metadata.cluster.topics.get(topic)
        if known is not None and partition is not None and partition not in known.partitions:
            # Theirs does not wait until there are more.
            raise ValueError(f"Unrecognized partition {partition} for topic {topic}")
        return super()._not_known(topic, partition, block=block)

    def send_offsets_to_transaction(
        self, offsets: Mapping[TopicPartition, Any], group_metadata: Any, timeout: float | None = None
    ) -> None:
        """Commit offsets with the transaction, for `consumer.group_metadata()` or a group id."""
        if isinstance(group_metadata, ConsumerGroupMetadata):
            group_metadata = group_metadata.own()
        super().send_offsets_to_transaction(committable(offsets) or {}, group_metadata, timeout)

    def partitions_for(self, topic: str) -> set[int]:  # type: ignore[override]  # theirs are numbers
        return {partition for _, partition in super().partitions_for(topic)}

    def bootstrap_connected(self) -> bool:
        """Whether the cluster can be reached."""
        return self.health().is_healthy

    def close(self, timeout: float | None = None, null_logger: bool = False) -> None:
        """Deliver what is left, for at most `timeout` seconds (None: for ever), and stop.

        Records that fail are reported by their futures alone.
        """
        self.finish(timeout)

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def metrics(self, raw: bool = False) -> dict[str, dict[str, float]]:  # type: ignore[override]  # nested there
        """klamm's counters, and the rates and averages of kafka-python; NaN where one is not known."""
        refuse_raw(raw)
        return of_producer(*self._meter.look())
