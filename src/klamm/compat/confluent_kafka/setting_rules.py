"""What becomes of each of librdkafka's settings."""

from __future__ import annotations

from typing import Final

from klamm.compat.settings import NOT_OF_SECURITY, ClientKind, Rules

_CALLBACKS: Final = frozenset({"error_cb", "stats_cb", "statistics.interval.ms", "oauth_cb"})
_BY_CALL: Final = "it cannot be set from Python; confluent-kafka refuses it, too"
_DEPRECATED: Final = "librdkafka has not used it for a long time"
_PREFETCH: Final = "klamm fetches ahead within fetch.max.bytes and max.partition.fetch.bytes"
_SOCKETS: Final = "klamm leaves this to the operating system"
_VERSIONS: Final = "klamm asks every broker for its versions"
_LOGGING: Final = "klamm logs with Python's logging: set the level of the logger named klamm"
_STORE: Final = "offsets are stored in the group; for files use klamm.Consumer(offset_store=...)"
_REFRESH: Final = "klamm asks again for metadata with retry.backoff.ms while something is missing"

RULES: Final = Rules(
    library="confluent-kafka",
    renamed={
        "auto.commit.enable": "enable.auto.commit",
        "compression.codec": "compression.type",
        "delivery.timeout.ms": "message.timeout.ms",
        "fetch.message.max.bytes": "max.partition.fetch.bytes",
        "fetch.wait.max.ms": "fetch.max.wait.ms",
        "max.in.flight": "max.in.flight.requests.per.connection",
        "message.max.bytes": "max.request.size",
        "message.send.max.retries": "retries",
        "metadata.broker.list": "bootstrap.servers",
        "partitioner": "partitioner.class",
        "queue.buffering.max.kbytes": "buffer.kbytes",
        "queue.buffering.max.ms": "linger.ms",
        "request.required.acks": "acks",
        "socket.timeout.ms": "request.timeout.ms",
        "topic.metadata.refresh.interval.ms": "metadata.max.age.ms",
    },
    own={
        ClientKind.CONSUMER: frozenset({"enable.partition.eof", "on_commit", *_CALLBACKS}),
        ClientKind.PRODUCER: frozenset(
            {
                "compression.level",
                "delivery.report.only.error",
                "on_delivery",
                "partitioner",
                "queue.buffering.max.kbytes",
                "queue.buffering.max.messages",
                "topic.metadata.propagation.max.ms",
                *_CALLBACKS,
            }
        ),
        ClientKind.ADMIN: _CALLBACKS,
    },
    refused={
        "background_event_cb": _BY_CALL,
        "broker.address.family": "klamm tries the addresses that the resolver gives; name one of that family",
        "builtin.features": "it tells what a build of librdkafka can do, and cannot be set",
        "client.dns.lookup": "klamm uses all addresses of a name; write the canonical names of the servers",
        "closesocket_cb": _BY_CALL,
        "connect_cb": _BY_CALL,
        "consume_cb": _BY_CALL,
        "default_topic_conf": _BY_CALL,
        "dr_cb": "give on_delivery",
        "dr_msg_cb": "give on_delivery",
        "enable.gapless.guarantee": "use a transactional producer: a record that fails ends its transaction",
        "enabled_events": _BY_CALL,
        "group.protocol.type": "klamm's consumers are of the type consumer",
        "interceptors": _BY_CALL,
        "internal.termination.signal": "klamm's client needs no signal to end; leave it out",
        "log_cb": _BY_CALL,
        "metadata.recovery.strategy": "klamm goes back to the bootstrap servers when no broker is left",
        "msg_order_cmp": _BY_CALL,
        "offset.store.method": _STORE,
        "offset.store.path": _STORE,
        "offset_commit_cb": "give on_commit",
        "opaque": _BY_CALL,
        "open_cb": _BY_CALL,
        "partitioner_cb": "name a partitioner, as partitioner=murmur2, or use klamm.Producer",
        "plugin.library.paths": "klamm loads no plugins of librdkafka",
        "queuing.strategy": "klamm sends records in the order of produce()",
        "rebalance_cb": "give on_assign and on_revoke to subscribe()",
        "resolve_cb": _BY_CALL,
        "share.acknowledgement.mode": "klamm has no share consumer",
        "socket_cb": _BY_CALL,
        "throttle_cb": "klamm's client obeys throttling without reporting it; read the broker's metrics",
        "topic.blacklist": "subscribe to names, or to a pattern that leaves these topics out",
    },
    refused_prefixes=dict.fromkeys(
        ("ssl", "sasl", "https.", "enable.ssl", "enable.sasl", "oauth"), NOT_OF_SECURITY
    ),
    without_meaning={
        "api.version.fallback.ms": _VERSIONS,
        "api.version.request": _VERSIONS,
        "api.version.request.timeout.ms": _VERSIONS,
        "batch.num.messages": "klamm limits a batch by batch.size",
        "broker.address.ttl": "klamm resolves an address anew for each connection",
        "broker.version.fallback": _VERSIONS,
        "consume.callback.max.messages": "there is no such callback in Python",
        "coordinator.query.interval.ms": "klamm looks for the coordinator when it has lost it",
        "debug": _LOGGING,
        "enable.metrics.push": "klamm's client does not send its metrics to the cluster",
        "enable.random.seed": "klamm uses Python's random numbers",
        "fetch.error.backoff.ms": "klamm waits for retry.backoff.ms after an error",
        "fetch.queue.backoff.ms": _PREFETCH,
        "log.connection.close": _LOGGING,
        "log.queue": _LOGGING,
        "log.thread.name": _LOGGING,
        "log_level": _LOGGING,
        "logger": _LOGGING,
        "message.copy.max.bytes": "klamm copies no records that are bytes",
        "metadata.recovery.rebootstrap.trigger.ms": "klamm tries them when no broker is left",
        "offset.store.sync.interval.ms": _DEPRECATED,
        "produce.offset.report": _DEPRECATED,
        "queue.buffering.backpressure.threshold": "klamm sends a batch when it is full or old enough",
        "queued.max.messages.kbytes": _PREFETCH,
        "queued.min.messages": _PREFETCH,
        "receive.message.max.bytes": "klamm accepts answers of up to 256 MiB",
        "reconnect.backoff.jitter.ms": _DEPRECATED,
        "socket.blocking.max.ms": _DEPRECATED,
        "socket.connection.setup.timeout.ms": "klamm gives up a connection after socket.timeout.ms",
        "socket.keepalive.enable": _SOCKETS,
        "socket.max.fails": "klamm closes a connection whose request has timed out",
        "socket.nagle.disable": "klamm always disables it",
        "socket.receive.buffer.bytes": _SOCKETS,
        "socket.send.buffer.bytes": _SOCKETS,
        "sticky.partitioning.linger.ms": "klamm changes the partition of records without a key by batch.size",
        "topic.metadata.refresh.fast.cnt": _DEPRECATED,
        "topic.metadata.refresh.fast.interval.ms": _REFRESH,
        "topic.metadata.refresh.sparse": "klamm asks only for the topics that it uses",
    },
    defaults={
        "broker.address.family": "any",
        "client.dns.lookup": "use_all_dns_ips",
        "enable.gapless.guarantee": "false",
        "enable.sasl.oauthbearer.unsecure.jwt": "false",
        "group.protocol.type": "consumer",
        "internal.termination.signal": 0,
        "metadata.recovery.strategy": "rebootstrap",
        "offset.store.method": "broker",
        "offset.store.path": ".",
        "queuing.strategy": "fifo",
        "share.acknowledgement.mode": "implicit",
    },
)
