"""Every setting of a topic, and the broker settings that give its default."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from klamm.config import (
    INT_MAX,
    LONG_MAX,
    Check,
    Definition,
    Kind,
    Setting,
    Value,
    at_least,
    between,
    each_of,
    one_of,
)

MINUTE_MS: Final = 60_000
HOUR_MS: Final = 3_600_000
# Kafka requires 1 MiB; small segments make small tests possible.
SMALLEST_SEGMENT_BYTES: Final = 1024


def _topic(name: str, kind: Kind, default: Value, check: Check | None = None, doc: str = "") -> Setting:
    return Setting(name=name, kind=kind, default=default, check=check, doc=doc, dynamic=True)


def _idle(name: str, kind: Kind, default: Value, check: Check | None = None) -> Setting:
    doc = "Accepted for compatibility with Kafka's tools and files; has no effect."
    return _topic(name, kind, default, check, doc)._replace(has_effect=False)


def _gzip_level(value: Value) -> bool:
    return isinstance(value, int) and (value == -1 or 1 <= value <= 9)


_REPLICA: Final = r"[0-9]+:[0-9]+"  # compiled when it is used first


def _throttled_replicas(value: Value) -> bool:
    return isinstance(value, tuple) and (
        value in ((), ("*",)) or all(re.fullmatch(_REPLICA, replica) for replica in value)
    )


_THROTTLED: Final = Check(_throttled_replicas, "* or partition:broker pairs")
_DELETE_DOC: Final = "How long a tombstone or transaction marker stays readable after its first compaction."

TOPIC_SETTINGS: Final = Definition(
    [
        _topic("cleanup.policy", Kind.LIST, ("delete",), each_of("compact", "delete"),
               "delete removes old segments, compact keeps the last value of each key; both may be set."),
        _topic("compression.type", Kind.STRING, "producer",
               one_of("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"),
               "The codec for stored batches; producer keeps the producer's codec."),
        _topic("compression.gzip.level", Kind.INT, -1, Check(_gzip_level, "-1 or from 1 to 9"),
               "The gzip level when the broker compresses; -1 is gzip's default."),
        _topic("compression.lz4.level", Kind.INT, 9, between(1, 17),
               "The lz4 level when the broker compresses."),
        _topic("compression.zstd.level", Kind.INT, 3, between(-131072, 22),
               "The zstd level when the broker compresses."),
        _topic("delete.retention.ms", Kind.LONG, 86400000, at_least(0), _DELETE_DOC),
        _topic("file.delete.delay.ms", Kind.LONG, 60000, at_least(0),
               "How long a deleted segment's files stay on disk."),
        _topic("flush.messages", Kind.LONG, LONG_MAX, at_least(1),
               "With klamm.flush=os: flush after this many records."),
        _topic("flush.ms", Kind.LONG, LONG_MAX, at_least(0),
               "With klamm.flush=os: flush after this many milliseconds."),
        _topic("index.interval.bytes", Kind.INT, 4096, at_least(0),
               "The number of bytes between index entries."),
        _topic("max.compaction.lag.ms", Kind.LONG, LONG_MAX, at_least(1),
               "The maximal time before a record is compacted, whatever the dirty ratio."),
        _topic("max.message.bytes", Kind.INT, 1048588, at_least(0), "The largest batch that is accepted."),
        _topic("message.timestamp.after.max.ms", Kind.LONG, HOUR_MS, at_least(0),
               "How far in the future a record's timestamp may be."),
        _topic("message.timestamp.before.max.ms", Kind.LONG, LONG_MAX, at_least(0),
               "How far in the past a record's timestamp may be."),
        _topic("message.timestamp.type", Kind.STRING, "CreateTime", one_of("CreateTime", "LogAppendTime"),
               "Whether a record's timestamp is the producer's or the time of the append."),
        _topic("min.cleanable.dirty.ratio", Kind.DOUBLE, 0.5, between(0, 1),
               "The dirty ratio of a log from which it is compacted."),
        _topic("min.compaction.lag.ms", Kind.LONG, 0, at_least(0), "How long a record is not compacted."),
        _idle("min.insync.replicas", Kind.INT, 1, at_least(1)),
        _topic("retention.bytes", Kind.LONG, -1, None,
               "The size from which old segments are deleted; -1: unlimited."),
        _topic("retention.ms", Kind.LONG, 604800000, at_least(-1), "Older segments are deleted; -1: never."),
        _topic("segment.bytes", Kind.INT, 1073741824, at_least(SMALLEST_SEGMENT_BYTES),
               "The maximal size of a segment file; at least 1024 bytes (Kafka: 1 MiB)."),
        _topic("segment.index.bytes", Kind.INT, 10485760, at_least(4), "The maximal size of an index file."),
        _topic("segment.jitter.ms", Kind.LONG, 0, at_least(0), "At most this is taken off segment.ms."),
        _topic("segment.ms", Kind.LONG, 604800000, at_least(1),
               "The time after which a segment is rolled, by record timestamps."),
        _idle("follower.replication.throttled.replicas", Kind.LIST, (), _THROTTLED),
        _idle("leader.replication.throttled.replicas", Kind.LIST, (), _THROTTLED),
        _idle("local.retention.bytes", Kind.LONG, -2, at_least(-2)),
        _idle("local.retention.ms", Kind.LONG, -2, at_least(-2)),
        _idle("preallocate", Kind.BOOLEAN, False),
        _idle("remote.log.copy.disable", Kind.BOOLEAN, False),
        _idle("remote.log.delete.on.disable", Kind.BOOLEAN, False),
        _idle("remote.storage.enable", Kind.BOOLEAN, False,
              Check(lambda value: value is False, "false: klamm has no remote storage")),
        _idle("unclean.leader.election.enable", Kind.BOOLEAN, False),
    ]
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class BrokerName:
    """A broker setting that is the default of a topic's; `unit` converts its number."""

    name: str
    unit: int = 1


def _log(name: str) -> tuple[BrokerName, ...]:
    return (BrokerName(f"log.{name}"),)


def _cleaner(name: str) -> tuple[BrokerName, ...]:
    return (BrokerName(f"log.cleaner.{name}"),)


# The first one that is set applies; only the first can change while the broker runs.
BROKER_NAMES: Final[Mapping[str, tuple[BrokerName, ...]]] = {
    **{
        name: _log(name)
        for name in (
            "cleanup.policy",
            "index.interval.bytes",
            "local.retention.bytes",
            "local.retention.ms",
            "message.timestamp.after.max.ms",
            "message.timestamp.before.max.ms",
            "message.timestamp.type",
            "preallocate",
            "retention.bytes",
            "segment.bytes",
        )
    },
    **{
        name: (BrokerName(name),)
        for name in (
            "compression.type",
            "compression.gzip.level",
            "compression.lz4.level",
            "compression.zstd.level",
            "min.insync.replicas",
            "unclean.leader.election.enable",
        )
    },
    "delete.retention.ms": _cleaner("delete.retention.ms"),
    "min.compaction.lag.ms": _cleaner("min.compaction.lag.ms"),
    "max.compaction.lag.ms": _cleaner("max.compaction.lag.ms"),
    "min.cleanable.dirty.ratio": _cleaner("min.cleanable.ratio"),
    "file.delete.delay.ms": _log("segment.delete.delay.ms"),
    "flush.messages": _log("flush.interval.messages"),
    "flush.ms": (BrokerName("log.flush.interval.ms"), BrokerName("log.flush.scheduler.interval.ms")),
    "max.message.bytes": (BrokerName("message.max.bytes"),),
    "retention.ms": (
        BrokerName("log.retention.ms"),
        BrokerName("log.retention.minutes", MINUTE_MS),
        BrokerName("log.retention.hours", HOUR_MS),
    ),
    "segment.index.bytes": _log("index.size.max.bytes"),
    "segment.jitter.ms": (BrokerName("log.roll.jitter.ms"), BrokerName("log.roll.jitter.hours", HOUR_MS)),
    "segment.ms": (BrokerName("log.roll.ms"), BrokerName("log.roll.hours", HOUR_MS)),
}

_FOR_EVER_OR_SOME: Final = Check(
    lambda value: isinstance(value, int) and value != 0, "at least 1, or -1 for unlimited"
)


def _coarse(name: str, default: Value, check: Check) -> Setting:
    """A broker setting in hours or minutes: fixed at start, as in Kafka."""
    return Setting(
        name=name,
        kind=Kind.INT,
        default=default,
        check=check,
        doc="As the setting in ms, which takes precedence.",
    )


def _several_units() -> dict[str, Setting]:
    """The broker settings that differ from their topic's in more than the name."""
    hours = between(1, INT_MAX)
    changed = [
        _topic("log.retention.ms", Kind.LONG, None, _FOR_EVER_OR_SOME, TOPIC_SETTINGS["retention.ms"].doc),
        _coarse("log.retention.minutes", None, _FOR_EVER_OR_SOME),
        _coarse("log.retention.hours", 168, _FOR_EVER_OR_SOME),
        _topic("log.roll.ms", Kind.LONG, None, at_least(1), TOPIC_SETTINGS["segment.ms"].doc),
        _coarse("log.roll.hours", 168, hours),
        _topic("log.roll.jitter.ms", Kind.LONG, None, at_least(0), TOPIC_SETTINGS["segment.jitter.ms"].doc),
        _coarse("log.roll.jitter.hours", 0, at_least(0)),
        _topic("log.flush.interval.ms", Kind.LONG, None, at_least(0), TOPIC_SETTINGS["flush.ms"].doc),
        Setting(name="log.flush.scheduler.interval.ms", kind=Kind.LONG, default=LONG_MAX, check=at_least(0),
                doc="The default of log.flush.interval.ms."),
    ]  # fmt: skip
    return {setting.name: setting for setting in changed}


def _broker_defaults() -> list[Setting]:
    different = _several_units()
    return [
        different.get(broker.name, TOPIC_SETTINGS[topic_name]._replace(name=broker.name))
        for topic_name, brokers in BROKER_NAMES.items()
        for broker in brokers
    ]


# The broker settings that are defaults of topics.
BROKER_DEFAULT_SETTINGS: Final = Definition(_broker_defaults())
