"""The client's settings: Kafka's names, as a dictionary or as keywords (`group_id` is `group.id`)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from klamm.client.setting_docs import DOCS
from klamm.clock import Clock, clock_at
from klamm.config import (
    INT_MAX,
    Check,
    ConfigError,
    Definition,
    Kind,
    Setting,
    Values,
    at_least,
    between,
    one_of,
    unknown_name,
)
from klamm.net.metadata import MetadataConfig
from klamm.net.network import Address, NetworkConfig
from klamm.net.security.settings import OBJECTS as SECURITY_OBJECTS
from klamm.net.security.settings import SETTINGS as SECURITY
from klamm.net.security.settings import security_of
from klamm.references import PROVIDERS, resolved


def _definition(settings: Iterable[Setting]) -> Definition:
    return Definition(setting._replace(doc=DOCS.get(setting.name, setting.doc)) for setting in settings)


_COMMON: Final = (
    Setting(name="bootstrap.servers", kind=Kind.LIST, default=None, required=True, doc="host:port, ..."),
    Setting(name="client.id", kind=Kind.STRING, default=""),
    Setting(name="client.rack", kind=Kind.STRING, default=""),
    Setting(name="request.timeout.ms", kind=Kind.INT, default=30_000, check=at_least(0)),
    Setting(name="retry.backoff.ms", kind=Kind.LONG, default=100, check=at_least(0)),
    Setting(name="retry.backoff.max.ms", kind=Kind.LONG, default=1_000, check=at_least(0)),
    Setting(name="reconnect.backoff.ms", kind=Kind.LONG, default=50, check=at_least(0)),
    Setting(name="reconnect.backoff.max.ms", kind=Kind.LONG, default=1_000, check=at_least(0)),
    Setting(name="metadata.max.age.ms", kind=Kind.LONG, default=300_000, check=at_least(0)),
    Setting(name="connections.max.idle.ms", kind=Kind.LONG, default=540_000, check=at_least(0)),
    Setting(
        name="statistics.interval.ms",
        kind=Kind.INT,
        default=0,
        check=at_least(0),
        doc="how often stats.callback is called; 0: never",
    ),
    *SECURITY,
)
_API_TIMEOUT: Final = Setting(name="default.api.timeout.ms", kind=Kind.INT, default=60_000, check=at_least(0))

CONSUMER: Final = _definition(
    (
        *_COMMON,
        _API_TIMEOUT,
        Setting(name="group.id", kind=Kind.STRING, default=None),
        Setting(name="group.instance.id", kind=Kind.STRING, default=None),
        Setting(
            name="group.protocol", kind=Kind.STRING, default="classic", check=one_of("classic", "consumer")
        ),
        Setting(name="group.remote.assignor", kind=Kind.STRING, default=None),
        Setting(name="session.timeout.ms", kind=Kind.INT, default=45_000, check=at_least(0)),
        Setting(name="heartbeat.interval.ms", kind=Kind.INT, default=3_000, check=at_least(1)),
        Setting(name="max.poll.interval.ms", kind=Kind.INT, default=300_000, check=at_least(1)),
        Setting(name="max.poll.records", kind=Kind.INT, default=500, check=at_least(1)),
        Setting(
            name="partition.assignment.strategy", kind=Kind.LIST, default=("range", "cooperative-sticky")
        ),
        Setting(name="enable.auto.commit", kind=Kind.BOOLEAN, default=True),
        Setting(
            name="enable.auto.offset.store",
            kind=Kind.BOOLEAN,
            default=True,
            doc="false: a commit without offsets takes what store_offsets marked",
        ),
        Setting(name="auto.commit.interval.ms", kind=Kind.INT, default=5_000, check=at_least(0)),
        Setting(
            name="auto.offset.reset",
            kind=Kind.STRING,
            default="latest",
            check=one_of("earliest", "latest", "none"),
        ),
        Setting(
            name="isolation.level",
            kind=Kind.STRING,
            default="read_uncommitted",
            check=one_of("read_uncommitted", "read_committed"),
        ),
        Setting(name="fetch.min.bytes", kind=Kind.INT, default=1, check=at_least(0)),
        Setting(name="fetch.max.bytes", kind=Kind.INT, default=52_428_800, check=at_least(0)),
        Setting(name="max.partition.fetch.bytes", kind=Kind.INT, default=1_048_576, check=at_least(0)),
        Setting(name="fetch.max.wait.ms", kind=Kind.INT, default=500, check=at_least(0)),
        Setting(name="check.crcs", kind=Kind.BOOLEAN, default=True),
        Setting(name="exclude.internal.topics", kind=Kind.BOOLEAN, default=True),
        Setting(name="allow.auto.create.topics", kind=Kind.BOOLEAN, default=True),
        Setting(
            name="consumer.timeout.ms",
            kind=Kind.LONG,
            default=-1,
            check=at_least(-1),
            doc="iterating ends when no record came for so long; -1: never",
        ),
        Setting(name="random.seed", kind=Kind.LONG, default=None, doc="makes the random assignor repeatable"),
    )
)

PRODUCER: Final = _definition(
    (
        *_COMMON,
        Setting(name="acks", kind=Kind.STRING, default="all", check=one_of("all", "-1", "0", "1")),
        Setting(name="enable.idempotence", kind=Kind.BOOLEAN, default=True),
        Setting(name="retries", kind=Kind.INT, default=INT_MAX, check=between(0, INT_MAX)),
        Setting(name="max.in.flight.requests.per.connection", kind=Kind.INT, default=5, check=at_least(1)),
        Setting(name="delivery.timeout.ms", kind=Kind.INT, default=120_000, check=at_least(0)),
        Setting(name="message.timeout.ms", kind=Kind.INT, default=None, check=at_least(0)),
        Setting(name="linger.ms", kind=Kind.LONG, default=0, check=at_least(0)),
        Setting(name="batch.size", kind=Kind.INT, default=16_384, check=at_least(0)),
        Setting(name="buffer.memory", kind=Kind.LONG, default=33_554_432, check=at_least(0)),
        Setting(name="max.request.size", kind=Kind.INT, default=1_048_576, check=at_least(0)),
        Setting(name="max.block.ms", kind=Kind.LONG, default=60_000, check=at_least(0)),
        Setting(
            name="compression.type",
            kind=Kind.STRING,
            default="none",
            check=one_of("none", "gzip", "snappy", "lz4", "zstd"),
        ),
        Setting(name="compression.gzip.level", kind=Kind.INT, default=-1, check=between(-1, 9)),
        Setting(name="compression.lz4.level", kind=Kind.INT, default=9, check=between(1, 17)),
        Setting(name="compression.zstd.level", kind=Kind.INT, default=3, check=between(-131_072, 22)),
        Setting(name="partitioner.ignore.keys", kind=Kind.BOOLEAN, default=False),
        Setting(name="partitioner.adaptive.partitioning.enable", kind=Kind.BOOLEAN, default=True),
        Setting(
            name="partitioner.availability.timeout.ms",
            kind=Kind.LONG,
            default=0,
            check=Check(
                lambda value: value == 0, "0, since klamm's producer takes no broker for unavailable"
            ),
        ),
        Setting(name="metadata.max.idle.ms", kind=Kind.LONG, default=300_000, check=at_least(5_000)),
        Setting(name="transactional.id", kind=Kind.STRING, default=None),
        Setting(name="transaction.timeout.ms", kind=Kind.INT, default=60_000, check=at_least(0)),
        Setting(name="transaction.two.phase.commit.enable", kind=Kind.BOOLEAN, default=False),
    )
)

ADMIN: Final = _definition((*_COMMON, _API_TIMEOUT))

# The metadata of a million partitions fits; a consumer has a higher limit, because it receives records.
MAX_RESPONSE_BYTES: Final = 64 * 1024 * 1024
MAX_FETCH_BYTES: Final = 256 * 1024 * 1024

SERIALIZER_PREFIXES: Final = ("schema.registry.", "serializer.")  # for serializers that are named

_ADDRESS: Final = re.compile(r"\[?([0-9A-Za-z._:%-]+?)\]?:([0-9]{1,5})")


class ClientConfig:
    """Settings of one client: typed values, what the caller named, and values that are objects."""

    def __init__(self, values: Values, given: frozenset[str], objects: Mapping[str, Any]) -> None:
        self.values = values
        self.given = given  # a default behaves otherwise than the same value written down, sometimes
        self.objects = objects
        self._security = security_of(values, given, objects)  # reads files: they are checked here, once

    @classmethod
    def parse(
        cls,
        definition: Definition,
        config: Mapping[str, Any] | None,
        keywords: Mapping[str, Any],
        *,
        object_names: frozenset[str] = frozenset(),
        has_serializers: bool = False,
    ) -> ClientConfig:
        """Read settings from a dictionary and keywords; keywords take precedence. Raises ConfigError.

        `object_names` are settings whose value is not text (a partitioner, a deserializer, ...); they may
        be given by name among the other settings.
        """
        object_names = object_names | SECURITY_OBJECTS
        raw: dict[str, Any] = {}
        objects: dict[str, Any] = {}
        for source in map(_without_references, (config or {}, keywords)):
            for key, value in source.items():
                if key.replace("_", ".").startswith(PROVIDERS):  # applied already
                    continue
                if has_serializers and key.replace("_", ".").startswith(SERIALIZER_PREFIXES):
                    objects[key.replace("_", ".")] = value
                    continue
                name = _dotted(key, definition, object_names)
                is_object = name in object_names and not (name in definition and _is_text(value))
                raw.pop(name, None)
                objects.pop(name, None)
                if is_object:
                    objects[name] = value
                elif value is not None or definition[name].default is None:
                    raw[name] = value
        values = definition.parse(raw)
        parsed = cls(values, frozenset(raw) | frozenset(objects), objects)
        parsed.bootstrap()  # reject invalid addresses before anything is opened
        return parsed

    def bootstrap(self) -> tuple[Address, ...]:
        """The bootstrap servers as (host, port)."""
        addresses = []
        for text in self.values.words("bootstrap.servers"):
            match = _ADDRESS.fullmatch(text.strip())
            if match is None or not 0 < int(match[2]) < 65536:
                raise ConfigError(
                    "bootstrap.servers", f"bootstrap.servers={text}: expected host:port, as in localhost:9092"
                )
            addresses.append((match[1], int(match[2])))
        if not addresses:
            raise ConfigError("bootstrap.servers", "bootstrap.servers is empty: expected host:port, ...")
        return tuple(addresses)

    def clock(self) -> Clock:
        """The clock of the broker, if it runs in this process on virtual time; else the system's."""
        return clock_at(self.bootstrap())

    def network(self, client_id: str, max_response_bytes: int = MAX_RESPONSE_BYTES) -> NetworkConfig:
        values = self.values
        return NetworkConfig(
            bootstrap=self.bootstrap(),
            client_id=client_id,
            request_timeout_ms=values.integer("request.timeout.ms"),
            reconnect_backoff_ms=values.integer("reconnect.backoff.ms"),
            reconnect_backoff_max_ms=values.integer("reconnect.backoff.max.ms"),
            connections_max_idle_ms=values.integer("connections.max.idle.ms"),
            max_response_bytes=max_response_bytes,
            security=self._security,
        )

    def metadata(self, *, allow_auto_topic_creation: bool) -> MetadataConfig:
        values = self.values
        return MetadataConfig(
            max_age_ms=values.integer("metadata.max.age.ms"),
            retry_backoff_ms=values.integer("retry.backoff.ms"),
            retry_backoff_max_ms=values.integer("retry.backoff.max.ms"),
            allow_auto_topic_creation=allow_auto_topic_creation,
        )


def with_given(settings: Mapping[str, Any], **named: Any) -> dict[str, Any]:
    """Settings as keywords, and those that have an argument of their own, where that was given."""
    return {**settings, **{name: value for name, value in named.items() if value is not None}}


def _without_references(settings: Mapping[str, Any]) -> dict[str, Any]:
    texts = {name: value for name, value in settings.items() if isinstance(value, str)}
    return {**settings, **resolved(texts, os.environ)}


def _dotted(key: str, definition: Definition, object_names: frozenset[str]) -> str:
    if key in definition or key in object_names:
        return key
    name = key.replace("_", ".")
    if name in definition or name in object_names:
        return name
    raise unknown_name(key, [*definition.settings, *object_names])


def _is_text(value: object) -> bool:
    if isinstance(value, list | tuple):
        return all(isinstance(item, str) for item in value)
    return value is None or isinstance(value, str | bool | int | float)


def check_together(condition: bool, name: str, message: str) -> None:
    """Raise ConfigError unless settings fit together."""
    if not condition:
        raise ConfigError(name, message)
