"""Kafka's settings that a broker accepts and shows, and that have no effect in klamm.

The parts of Kafka that they belong to (replication, the controller quorum, thread pools, quotas) are absent
or work differently here. Settings for security are not among them: klamm must not seem to honour one.
"""

from __future__ import annotations

from typing import Final

from klamm.config import Check, Kind, Setting, Value, at_least, one_of


def _idle(name: str, kind: Kind, default: Value, check: Check | None = None) -> Setting:
    return Setting(
        name=name,
        kind=kind,
        default=default,
        check=check,
        doc="Accepted so that Kafka's files work; has no effect here.",
        has_effect=False,
    )


def _dynamic(setting: Setting) -> Setting:
    return setting._replace(dynamic=True)


# Limits that kafka-reassign-partitions sets for a move and removes after it; shown only while they are set.
REPLICATION_THROTTLES: Final = (
    _dynamic(_idle("leader.replication.throttled.rate", Kind.LONG, None, at_least(0))),
    _dynamic(_idle("follower.replication.throttled.rate", Kind.LONG, None, at_least(0))),
    _dynamic(_idle("replica.alter.log.dirs.io.max.bytes.per.second", Kind.LONG, None, at_least(0))),
)
IDLE_SETTINGS: Final = (
    *REPLICATION_THROTTLES,
    _dynamic(_idle("num.network.threads", Kind.INT, 3, at_least(1))),
    _dynamic(_idle("num.io.threads", Kind.INT, 8, at_least(1))),
    _idle("queued.max.requests", Kind.INT, 500, at_least(1)),
    _dynamic(_idle("background.threads", Kind.INT, 10, at_least(1))),
    _dynamic(_idle("num.recovery.threads.per.data.dir", Kind.INT, 2, at_least(1))),
    _dynamic(_idle("num.replica.fetchers", Kind.INT, 1)),
    _idle("socket.send.buffer.bytes", Kind.INT, 102400),
    _idle("socket.receive.buffer.bytes", Kind.INT, 102400),
    _idle("socket.listen.backlog.size", Kind.INT, 50, at_least(1)),
    _idle("process.roles", Kind.LIST, ()),
    _idle("controlled.shutdown.enable", Kind.BOOLEAN, True),
    _dynamic(_idle("log.cleaner.io.buffer.size", Kind.INT, 524288, at_least(0))),
    _idle("metadata.log.dir", Kind.STRING, None),
    _idle("offsets.commit.required.acks", Kind.SHORT, -1),
    _idle("group.coordinator.threads", Kind.INT, 4, at_least(1)),
    _idle("group.coordinator.append.linger.ms", Kind.INT, -1, at_least(-1)),
    _idle("alter.log.dirs.replication.quota.window.num", Kind.INT, 11),
    _idle("alter.log.dirs.replication.quota.window.size.seconds", Kind.INT, 1),
    _idle("controller.quorum.append.linger.ms", Kind.INT, 25),
    _idle("controller.quorum.auto.join.enable", Kind.BOOLEAN, False),
    _idle("controller.quorum.bootstrap.servers", Kind.LIST, ()),
    _idle("controller.quorum.election.backoff.max.ms", Kind.INT, 1000),
    _idle("controller.quorum.election.timeout.ms", Kind.INT, 1000),
    _idle("controller.quorum.fetch.max.bytes", Kind.INT, 1048576),
    _idle("controller.quorum.fetch.snapshot.max.bytes", Kind.INT, 1048576),
    _idle("controller.quorum.fetch.timeout.ms", Kind.INT, 2000),
    _idle("controller.quorum.request.timeout.ms", Kind.INT, 2000),
    _idle("controller.quorum.retry.backoff.ms", Kind.INT, 20),
    _idle("controller.quorum.voters", Kind.LIST, ()),
    _idle("controller.quota.window.num", Kind.INT, 11),
    _idle("controller.quota.window.size.seconds", Kind.INT, 1),
    _idle("controller.socket.timeout.ms", Kind.INT, 30000),
    _idle("delete.records.purgatory.purge.interval.requests", Kind.INT, 1),
    _idle("fetch.purgatory.purge.interval.requests", Kind.INT, 1000),
    _idle("producer.purgatory.purge.interval.requests", Kind.INT, 1000),
    _idle("group.coordinator.background.threads", Kind.INT, 2),
    _dynamic(_idle("group.coordinator.cached.buffer.max.bytes", Kind.INT, 1048588)),
    _idle("initial.broker.registration.timeout.ms", Kind.INT, 60000),
    _idle("log.flush.start.offset.checkpoint.interval.ms", Kind.INT, 60000, at_least(0)),
    _idle("offsets.load.buffer.size", Kind.INT, 5242880, at_least(1)),
    _idle("replica.high.watermark.checkpoint.interval.ms", Kind.LONG, 5000),
    _idle("transaction.state.log.load.buffer.size", Kind.INT, 5242880, at_least(1)),
    _idle("log.dir.failure.timeout.ms", Kind.LONG, 30000),
    _idle("metadata.log.max.record.bytes.between.snapshots", Kind.LONG, 20971520),
    _idle("metadata.log.max.snapshot.interval.ms", Kind.LONG, 3600000),
    _idle("metadata.log.segment.bytes", Kind.INT, 1073741824),
    _idle("metadata.log.segment.ms", Kind.LONG, 604800000),
    _idle("metadata.max.idle.interval.ms", Kind.INT, 500),
    _idle("metadata.max.retention.bytes", Kind.LONG, 104857600),
    _idle("metadata.max.retention.ms", Kind.LONG, 604800000),
    _idle("metrics.num.samples", Kind.INT, 2),
    _idle("metrics.recording.level", Kind.STRING, "INFO", one_of("INFO", "DEBUG", "TRACE")),
    _idle("metrics.sample.window.ms", Kind.LONG, 30000),
    _idle("num.replica.alter.log.dirs.threads", Kind.INT, None),
    _idle("quota.window.num", Kind.INT, 11),
    _idle("quota.window.size.seconds", Kind.INT, 1),
    _idle("replica.fetch.backoff.ms", Kind.INT, 1000),
    _idle("replica.fetch.max.bytes", Kind.INT, 1048576),
    _idle("replica.fetch.min.bytes", Kind.INT, 1),
    _idle("replica.fetch.response.max.bytes", Kind.INT, 10485760),
    _idle("replica.fetch.wait.max.ms", Kind.INT, 500),
    _idle("replica.lag.time.max.ms", Kind.LONG, 30000),
    _idle("replica.socket.receive.buffer.bytes", Kind.INT, 65536),
    _idle("replica.socket.timeout.ms", Kind.INT, 30000),
    _idle("replication.quota.window.num", Kind.INT, 11),
    _idle("replication.quota.window.size.seconds", Kind.INT, 1),
    _idle("request.timeout.ms", Kind.INT, 30000),
    _idle("socket.connection.setup.timeout.max.ms", Kind.LONG, 30000),
    _idle("socket.connection.setup.timeout.ms", Kind.LONG, 10000),
)
