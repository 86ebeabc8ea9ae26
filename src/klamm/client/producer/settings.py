"""The producer's settings, checked together."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from klamm.client.callables import takes
from klamm.client.config import PRODUCER, ClientConfig
from klamm.client.interceptors import checked
from klamm.client.producer.named_partitioners import IGNORES_KEYS, MAKERS, names, partitioner_name
from klamm.client.producer.partitioner import Partitioner
from klamm.client.serializers import WithTopic, serde_of, warn_of_unused
from klamm.client.statistics import checked_callback
from klamm.config import INT_MAX, ConfigError
from klamm.records.compression import Codec

log = logging.getLogger(__name__)

Serializer = Callable[[Any], bytes | None] | WithTopic
OBJECTS: Final = frozenset(
    {"key.serializer", "value.serializer", "partitioner.class", "interceptors", "stats.callback"}
)
PARTITIONER_ARGUMENTS: Final = 4
MAX_IN_FLIGHT: Final = 5  # the number of batches that a broker keeps per producer


@dataclass(frozen=True, slots=True)
class ProducerSettings:
    """What the producer goes by."""

    acks: int
    is_idempotent: bool
    retries: int
    max_in_flight: int
    delivery_timeout_ms: int
    linger_ms: int
    batch_size: int
    buffer_memory: int
    max_request_size: int
    max_block_ms: int
    request_timeout_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    codec: Codec
    level: int | None
    ignores_keys: bool
    is_adaptive: bool
    metadata_max_idle_ms: int
    transactional_id: str | None
    transaction_timeout_ms: int
    is_two_phase: bool
    key_serializer: Serializer | None
    value_serializer: Serializer | None
    partitioner: Partitioner | None
    partitioner_name: str | None  # one of named_partitioners.MAKERS
    interceptors: tuple[Any, ...]
    statistics_interval_ms: int
    statistics_callback: Any


def parse(config: Any, keywords: Mapping[str, Any]) -> tuple[ClientConfig, ProducerSettings]:
    """Read and check settings; raises ConfigError."""
    parsed = ClientConfig.parse(PRODUCER, config, keywords, object_names=OBJECTS, has_serializers=True)
    warn_of_unused(parsed.objects, ("key.serializer", "value.serializer"))
    values = parsed.values
    acks = {"all": -1, "-1": -1, "0": 0, "1": 1}[values.text("acks")]
    linger_ms = values.integer("linger.ms")
    request_timeout_ms = values.integer("request.timeout.ms")
    compression = values.text("compression.type")
    level_name = f"compression.{compression}.level"
    level = values.integer(level_name) if level_name in values else None
    is_idempotent = _is_idempotent(parsed, acks)
    partitioner, named = _partitioner(parsed.objects.get("partitioner.class"))
    return parsed, ProducerSettings(
        acks=acks,
        is_idempotent=is_idempotent,
        retries=values.integer("retries"),
        max_in_flight=values.integer("max.in.flight.requests.per.connection"),
        delivery_timeout_ms=_delivery_timeout_ms(parsed, linger_ms + request_timeout_ms),
        linger_ms=linger_ms,
        batch_size=values.integer("batch.size"),
        buffer_memory=values.integer("buffer.memory"),
        max_request_size=values.integer("max.request.size"),
        max_block_ms=values.integer("max.block.ms"),
        request_timeout_ms=request_timeout_ms,
        retry_backoff_ms=values.integer("retry.backoff.ms"),
        retry_backoff_max_ms=values.integer("retry.backoff.max.ms"),
        codec=Codec[compression.upper()],
        level=None if level == -1 else level,
        ignores_keys=values.boolean("partitioner.ignore.keys") or named in IGNORES_KEYS,
        is_adaptive=values.boolean("partitioner.adaptive.partitioning.enable"),
        metadata_max_idle_ms=values.integer("metadata.max.idle.ms"),
        transactional_id=_transactional_id(parsed, is_idempotent),
        transaction_timeout_ms=values.integer("transaction.timeout.ms"),
        is_two_phase=_is_two_phase(parsed),
        key_serializer=_serializer("key.serializer", parsed),
        value_serializer=_serializer("value.serializer", parsed),
        partitioner=partitioner,
        partitioner_name=named if named in MAKERS else None,
        interceptors=checked(parsed.objects.get("interceptors"), ("on_send", "on_acknowledgement")),
        statistics_interval_ms=values.integer("statistics.interval.ms"),
        statistics_callback=checked_callback(
            parsed.objects.get("stats.callback"), values.integer("statistics.interval.ms")
        ),
    )


def _serializer(name: str, parsed: ClientConfig) -> Serializer | None:
    given = parsed.objects.get(name)
    if given is None:
        return None
    serde = serde_of(name, given, parsed.objects)
    if serde is not None:
        return WithTopic(serde.serialize)
    if not callable(given) or not takes(given, 1):
        raise ConfigError(
            name, f"{name}={given!r}: give a function of one value, a name as 'json', or a Serde"
        )
    return given  # type: ignore[no-any-return]  # checked as far as it can be


def _partitioner(given: Any) -> tuple[Partitioner | None, str | None]:
    """A partitioner of the caller's own, or the name of one that is known."""
    if isinstance(given, str):
        name = partitioner_name(given)
        if name is None:
            raise ConfigError(
                "partitioner.class",
                f"partitioner.class={given}: write one of {', '.join(names())}, or give a function",
            )
        return None, name
    if given is not None and not (callable(given) and takes(given, PARTITIONER_ARGUMENTS)):
        raise ConfigError(
            "partitioner.class",
            f"partitioner.class={given!r}: give a function of (topic, key, value, number of partitions), "
            "or a name",
        )
    return given, None


def _is_idempotent(parsed: ClientConfig, acks: int) -> bool:
    """Idempotence needs acks=all, retries and at most five in flight; if set, others are rejected."""
    values = parsed.values
    in_flight = values.integer("max.in.flight.requests.per.connection")
    if not values.boolean("enable.idempotence"):
        return False
    conflicts = []
    if values.integer("retries") == 0:
        conflicts.append(("retries", "0", "retries above 0"))
    if acks != -1:
        conflicts.append(("acks", values.text("acks"), "acks=all"))
    is_asked = "enable.idempotence" in parsed.given
    if in_flight > MAX_IN_FLIGHT and (is_asked or not conflicts):
        conflicts.insert(
            0, ("max.in.flight.requests.per.connection", str(in_flight), f"at most {MAX_IN_FLIGHT}")
        )
        is_asked = True  # more than five would break idempotence silently: always an error
    if not conflicts:
        return True
    name, value, needed = conflicts[0]
    if is_asked:
        raise ConfigError(
            name,
            f"{name}={value} and idempotence cannot be combined: set {needed}, or enable.idempotence=false",
        )
    log.info("idempotence is disabled by %s=%s: it requires %s", name, value, needed)
    return False


def _transactional_id(parsed: ClientConfig, is_idempotent: bool) -> str | None:
    transactional_id = parsed.values.optional_text("transactional.id")
    if transactional_id is None:
        return None
    if not transactional_id:
        raise ConfigError("transactional.id", "transactional.id is empty: expected a name, or remove it")
    if not is_idempotent:
        name = next(
            (name for name in ("enable.idempotence", "acks", "retries") if name in parsed.given),
            "enable.idempotence",
        )
        raise ConfigError(
            name,
            f"transactional.id={transactional_id} needs idempotence, and {name}={parsed.values[name]} "
            "turns it off: leave out enable.idempotence, acks and retries, or write true, all and above 0",
        )
    return transactional_id


def _is_two_phase(parsed: ClientConfig) -> bool:
    if not parsed.values.boolean("transaction.two.phase.commit.enable"):
        return False
    if "transaction.timeout.ms" in parsed.given:
        raise ConfigError(
            "transaction.timeout.ms",
            "transaction.timeout.ms cannot be set with transaction.two.phase.commit.enable=true: a prepared "
            "transaction does not time out",
        )
    if parsed.values.optional_text("transactional.id") is None:
        raise ConfigError(
            "transactional.id", "transaction.two.phase.commit.enable=true requires transactional.id: set it"
        )
    return True


def _delivery_timeout_ms(parsed: ClientConfig, least_ms: int) -> int:
    if "message.timeout.ms" in parsed.given:
        return parsed.values.integer("message.timeout.ms") or INT_MAX
    given_ms = parsed.values.integer("delivery.timeout.ms")
    if given_ms >= least_ms:
        return given_ms
    if "delivery.timeout.ms" in parsed.given:
        raise ConfigError(
            "delivery.timeout.ms",
            f"delivery.timeout.ms={given_ms} is less than linger.ms + request.timeout.ms: "
            f"write at least {least_ms}",
        )
    return least_ms
