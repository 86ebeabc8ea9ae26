"""Every option of the data source, by its name in lower case: options are case-insensitive."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Mapping
from typing import Final

from klamm.config import ConfigError

log = logging.getLogger(__name__)

CLIENT_PREFIX: Final = "kafka."
BOOTSTRAP: Final = "kafka.bootstrap.servers"
GROUP_ID: Final = "kafka.group.id"
STRATEGIES: Final = ("assign", "subscribe", "subscribePattern")

# Of a schema registry, whose further settings have names that begin with `schemaRegistry.`.
REGISTRY: Final = "schemaRegistry"
_SCHEMAS: Final = (REGISTRY, "valueSchema", "keySchema")
SOURCE: Final = (
    *STRATEGIES,
    "startingOffsets",
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "endingOffsets",
    "endingTimestamp",
    "endingOffsetsByTimestamp",
    "failOnDataLoss",
    "includeHeaders",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "minPartitions",
    "maxRecordsPerPartition",
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "groupIdPrefix",
    "partition.metadata.cache.ttl.ms",
    "commitOffsets",
    "commitOffsets.onError",
    "groupMissing",
    "latestOffset.maxWaitMs",
    "filterPushdown",
    "decode",
    "table",
    *_SCHEMAS,
    "valueColumns",
    "badValues",
)
SINK: Final = (
    "topic",
    "delivery",
    "transactionalId",
    "txn.mode",
    "commitGroup",
    "batchToken",
    "createTopics",
    *_SCHEMAS,
)
# What Spark itself adds to the options of a source or a sink.
_SPARKS_OWN: Final = frozenset({"checkpointlocation", "queryname", "outputmode", "path"})
_SPELLING: Final = {name.lower(): name for name in (*SOURCE, *SINK, BOOTSTRAP, GROUP_ID)}
_NOT_FOR_SOURCE: Final[Mapping[str, str]] = {
    "kafka.auto.offset.reset": "write startingOffsets=earliest or startingOffsets=latest instead",
    "kafka.enable.auto.commit": (
        "Spark's checkpoint keeps the progress; write commitOffsets=progress to show it as a group's"
    ),
    "kafka.interceptor.classes": "an interceptor could change what is read; leave it out",
    "kafka.key.deserializer": "keys are binary; cast them in the query, as in CAST(key AS STRING)",
    "kafka.value.deserializer": "values are binary; cast them in the query, as in CAST(value AS STRING)",
}
_NOT_FOR_SINK: Final[Mapping[str, str]] = {
    "kafka.key.serializer": "column key is written as it is: make it a STRING or BINARY in the query",
    "kafka.value.serializer": "column value is written as it is: make it a STRING or BINARY in the query",
    "kafka.interceptor.classes": "an interceptor could change what is written; leave it out",
    "kafka.transactional.id": "write delivery=exactly-once and transactionalId=NAME",
}


class Given:
    """The options of one query as text, found by name in any case."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._texts = {name.lower(): str(value) for name, value in options.items()}

    def get(self, name: str) -> str | None:
        text = self._texts.get(name.lower())
        return None if text is None else text.strip()

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._texts

    def client_settings(self) -> dict[str, str]:
        """Kafka's own settings, without their prefix."""
        return self.starting_with(CLIENT_PREFIX)

    def starting_with(self, prefix: str) -> dict[str, str]:
        """The options whose names begin so, without that."""
        prefix = prefix.lower()
        return {
            name.removeprefix(prefix): value.strip()
            for name, value in self._texts.items()
            if name.startswith(prefix)
        }

    def check_source_names(self) -> None:
        """The options of a source; those of the sink are logged and ignored."""
        self._check(SOURCE, SINK, "source", _NOT_FOR_SOURCE)

    def check_sink_names(self) -> None:
        """The options of a sink; those of the source are logged and ignored."""
        self._check(SINK, SOURCE, "sink", _NOT_FOR_SINK)

    def _check(
        self, own: tuple[str, ...], others: tuple[str, ...], side: str, refused: Mapping[str, str]
    ) -> None:
        known = {name.lower() for name in own}
        elsewhere = {name.lower() for name in others}
        for name in self._texts:
            if name in refused:
                raise ConfigError(name, f"option {name} is not supported: {refused[name]}")
            if name.startswith((CLIENT_PREFIX, f"{REGISTRY.lower()}.")):
                continue  # checked by the clients
            if name in known or name in _SPARKS_OWN:
                continue
            if name in elsewhere:
                # Spark's own connector ignores it too; a query must not fail because of it.
                log.warning("option %s has no effect on a %s", _SPELLING[name], side)
                continue
            near = difflib.get_close_matches(name, _SPELLING, n=1, cutoff=0.6)
            hint = f": did you mean {_SPELLING[near[0]]}?" if near else ""
            raise ConfigError(name, f"unknown option {name}{hint}")
        if BOOTSTRAP not in self:
            raise ConfigError(
                BOOTSTRAP, f"option {BOOTSTRAP} is missing: expected host:port, as in localhost:9092"
            )
