"""Every setting of a broker, under Kafka's names; topics' defaults are among them."""

from __future__ import annotations

from typing import Final

from klamm.broker.config.idle_settings import IDLE_SETTINGS
from klamm.broker.config.security_settings import BEFORE_LOGIN, BETWEEN_BROKERS, LISTENER_SETTINGS, PREFIX
from klamm.config import (
    DOUBLE_MAX,
    INT_MAX,
    Check,
    Definition,
    Kind,
    Setting,
    Value,
    at_least,
    between,
    not_empty,
    one_of,
    word_of,
)
from klamm.references import PROVIDERS
from klamm.storage.topic_settings import BROKER_DEFAULT_SETTINGS

MIB: Final = 1024 * 1024
MIN_IN_SYNC: Final = "min.insync.replicas"
_AT_MOST_RUNNING: Final = "Preferred brokers per partition; at most as many as run when the topic is created."


def _broker(name: str, kind: Kind, default: Value, check: Check | None = None, doc: str = "") -> Setting:
    return Setting(name=name, kind=kind, default=default, check=check, doc=doc)


def _dynamic(setting: Setting) -> Setting:
    return setting._replace(dynamic=True)


_SERVER: Final = (
    _broker("node.id", Kind.INT, 1, at_least(0), "This broker's number in the cluster."),
    _broker("broker.id", Kind.INT, -1, at_least(-1), "The older name of node.id; -1 leaves it to node.id."),
    _broker("broker.rack", Kind.STRING, None, not_empty(),
            "The rack of this broker, for clients; with --brokers N racks by turns, as in east,west."),
    _broker("listeners", Kind.LIST, ("PLAINTEXT://localhost:9092",), not_empty(),
            "Where to listen: NAME://host:port, several by commas; no host: all interfaces; port 0: any."),
    _broker("advertised.listeners", Kind.LIST, None, not_empty(),
            "Addresses that clients connect to; the value of listeners when not set."),
    _broker("inter.broker.listener.name", Kind.STRING, None, not_empty(),
            "The listener that other brokers of the cluster connect to; the first one when not set."),
    _broker("listener.security.protocol.map", Kind.STRING,
            "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT", None,
            "What each listener speaks: NAME:PROTOCOL, separated by commas."),
    _broker("controller.listener.names", Kind.LIST, (), None,
            "Listeners of this name are for Kafka's controllers; klamm leaves them out."),
    _broker("log.dirs", Kind.LIST, None, not_empty(), "The data folders; wins over log.dir."),
    _broker("log.dir", Kind.LIST, ("klamm-data",), not_empty(), "The data folder when log.dirs is not set."),
    _broker("num.partitions", Kind.INT, 1, at_least(1),
            "Partitions of a topic that is created without a number of them."),
    _broker("default.replication.factor", Kind.INT, 1, at_least(1),
            "Replicas when the creator named no number."),
    _broker("auto.create.topics.enable", Kind.BOOLEAN, True, None, "Asking for an unknown topic creates it."),
    _broker("delete.topic.enable", Kind.BOOLEAN, True, None, "Topics can be deleted."),
    _broker("socket.request.max.bytes", Kind.INT, 104857600, at_least(1),
            "The largest request that is read."),
    _broker("queued.max.request.bytes", Kind.LONG, -1, None,
            "Bytes of requests that are received and not answered, of all clients; 0 or less: no limit."),
    _broker("connections.max.idle.ms", Kind.LONG, 600000, None,
            "Silence that ends a connection; negative: none."),
    _dynamic(_broker("max.connections.per.ip", Kind.INT, INT_MAX, at_least(0),
                     "Connections of one address; 0 only beside max.connections.per.ip.overrides.")),
    _dynamic(_broker("max.connections.per.ip.overrides", Kind.STRING, "", None,
                     "Connections of some addresses, ADDRESS:NUMBER, separated by commas.")),
    _broker("fetch.max.bytes", Kind.INT, 57671680, at_least(1024),
            "What one Fetch answer may carry, plus a batch."),
    _broker("max.incremental.fetch.session.cache.slots", Kind.INT, 1000, at_least(0), "Fetch sessions kept."),
    _broker("max.request.partition.size.limit", Kind.INT, 2000, at_least(1),
            "Partitions in one DescribeTopicPartitions answer."),
    _broker("transaction.version", Kind.INT, 2, between(0, 2),
            "The transaction.version that a new cluster begins with; later `kafka-features` changes it."),
    _broker("klamm.store", Kind.PASSWORD, None, None,
            "postgresql://user:password@host/database: all data in PostgreSQL, and not in log.dirs."),
    _broker("klamm.flush", Kind.STRING, "commit", one_of("commit", "os"),
            "commit: what acks=all answered is on disk. os: the system writes when it likes, as with Kafka."),
    _broker("klamm.journal.file.bytes", Kind.INT, 16 * MIB, at_least(0),
            "Size at which the journal begins its next file; 0: no journal, every log is flushed by itself."),
    _broker("klamm.journal.round.bytes", Kind.INT, 128 * 1024, at_least(0),
            "Up to how many produced bytes one flush writes to the journal; larger logs are flushed by "
            "themselves."),
    _broker("klamm.disk.reserve.bytes", Kind.LONG, 16 * MIB, at_least(0),
            "Room kept on the disk of each log directory, at most a tenth of it, for deletion, trimming and "
            "a clean stop when it is full; 0: none."),
    _broker("klamm.record.validation", Kind.STRING, "header", one_of("header", "records"),
            "header: accept compressed batches whose header and checksum are valid. records: decode all."),
    _broker("klamm.decompress.max.bytes", Kind.INT, 64 * MIB, at_least(MIB),
            "What one batch may decompress to."),
    _broker("klamm.metrics.listener", Kind.STRING, None, not_empty(),
            "Where Prometheus reads /metrics, HOST:PORT, or https://HOST:PORT with the settings "
            "listener.name.metrics.ssl.*; nowhere when it is not set."),
    _broker("klamm.metrics.token", Kind.PASSWORD, None, None,
            "What Prometheus must send to read /metrics: Authorization: Bearer TOKEN."),
    _broker("klamm.control.listener", Kind.STRING, None, not_empty(),
            "The control port of a broker for tests, HOST:PORT, or https://HOST:PORT with the settings "
            "listener.name.control.ssl.*; set it with `klamm up --control`."),
    _broker("klamm.control.token", Kind.PASSWORD, None, None,
            "What programs must send to the control port: Authorization: Bearer TOKEN. Required where the "
            "broker has logins or an authorizer, or the port can be reached from other machines."),
    _broker("klamm.clock", Kind.STRING, "system", one_of("system", "virtual"),
            "virtual: time that the control port moves; set it with `klamm up --clock virtual`."),
)  # fmt: skip

_CLUSTER: Final = (
    _broker("broker.heartbeat.interval.ms", Kind.INT, 1000, at_least(10),
            "How often this broker renews its lease. Kafka's default is 2000."),
    _broker("broker.session.timeout.ms", Kind.INT, 9000, at_least(100),
            "A broker that has not renewed its lease for so long is dead; at least three serve windows."),
    _broker("klamm.broker.serve.window.ms", Kind.INT, 3000, at_least(30),
            "How long after a renewal a broker may send responses."),
    _broker("klamm.fence", Kind.STRING, "kill", one_of("kill", "wait"),
            "A process on this folder that is stuck longer than broker.session.timeout.ms: end it, or wait."),
    _broker("klamm.shutdown.timeout.ms", Kind.INT, 30000, at_least(0),
            "How long a broker that stops may hand partitions over, and waits for a store it cannot reach."),
    _broker("auto.leader.rebalance.enable", Kind.BOOLEAN, True, None,
            "Move partitions to their preferred brokers, and from the fullest broker to the emptiest."),
    _broker("leader.imbalance.check.interval.seconds", Kind.LONG, 30, at_least(1),
            "How often the balance of leaders is checked. Kafka's default is 300; moves are cheap here."),
)  # fmt: skip

_LOG: Final = (
    _broker("log.retention.check.interval.ms", Kind.LONG, 300000, at_least(1),
            "How often old segments are sought."),
    _broker("log.flush.offset.checkpoint.interval.ms", Kind.INT, 60000, at_least(0),
            "How often recovery points are written."),
    _broker("log.cleaner.enable", Kind.BOOLEAN, True, None, "Compaction runs."),
    _dynamic(_broker("log.cleaner.threads", Kind.INT, 1, at_least(0), "Logs compacted at the same time.")),
    _dynamic(_broker("log.cleaner.backoff.ms", Kind.LONG, 15000, at_least(0),
                     "The pause when nothing is dirty.")),
    _dynamic(_broker("log.cleaner.dedupe.buffer.size", Kind.LONG, 134217728, None,
                     "Bounds the keys of one pass at 24 bytes each; above 1 MiB for each thread.")),
    _dynamic(_broker("log.cleaner.io.buffer.load.factor", Kind.DOUBLE, 0.9, None,
                     "The share of that buffer a pass may fill.")),
    _dynamic(_broker("log.cleaner.io.max.bytes.per.second", Kind.DOUBLE, DOUBLE_MAX, None,
                     "Reading and writing of compaction, at most.")),
)  # fmt: skip

_GROUPS: Final = (
    _broker("group.min.session.timeout.ms", Kind.INT, 6000, None,
            "The shortest session timeout of a member."),
    _broker("group.max.session.timeout.ms", Kind.INT, 1800000, None,
            "The longest session timeout of a member."),
    _broker("group.initial.rebalance.delay.ms", Kind.INT, 3000, None,
            "How long an empty group waits for more members before its first assignment."),
    _broker("group.max.size", Kind.INT, INT_MAX, at_least(1), "Members of one group, at most."),
    _broker("group.consumer.session.timeout.ms", Kind.INT, 45000, at_least(1),
            "How long a member of a consumer group may be silent."),
    _broker("group.consumer.min.session.timeout.ms", Kind.INT, 45000, at_least(1),
            "The shortest session timeout that a consumer group may be given."),
    _broker("group.consumer.max.session.timeout.ms", Kind.INT, 60000, at_least(1),
            "The longest session timeout that a consumer group may be given."),
    _broker("group.consumer.heartbeat.interval.ms", Kind.INT, 5000, at_least(1),
            "How often a member of a consumer group sends a heartbeat."),
    _broker("group.consumer.min.heartbeat.interval.ms", Kind.INT, 5000, at_least(1),
            "The shortest heartbeat interval that a consumer group may be given."),
    _broker("group.consumer.max.heartbeat.interval.ms", Kind.INT, 15000, at_least(1),
            "The longest heartbeat interval that a consumer group may be given."),
    _dynamic(_broker("group.consumer.assignment.interval.ms", Kind.INT, 0, at_least(0),
                     "The shortest time between two assignments of a consumer group.")),
    _broker("group.consumer.min.assignment.interval.ms", Kind.INT, 0, at_least(0),
            "The shortest such time that a consumer group may be given."),
    _broker("group.consumer.max.assignment.interval.ms", Kind.INT, 15000, at_least(0),
            "The longest such time that a consumer group may be given."),
    _broker("group.consumer.max.size", Kind.INT, INT_MAX, at_least(1),
            "Members of one consumer group, at most."),
    _broker("group.consumer.assignors", Kind.LIST, ("uniform", "range"), None,
            "Assignors of consumer groups, the first by default: built-in ones, or package.module:Class."),
    _broker("group.consumer.migration.policy", Kind.STRING, "bidirectional",
            word_of("disabled", "upgrade", "downgrade", "bidirectional"),
            "How a group with members may change its protocol; upgrade: classic to consumer."),
    _broker("group.consumer.regex.refresh.interval.ms", Kind.INT, 600000, at_least(10000),
            "How often subscriptions by regular expression are matched again."),
    _broker("offset.metadata.max.bytes", Kind.INT, 4096, None, "The longest note beside a committed offset."),
    _broker("offsets.topic.num.partitions", Kind.INT, 50, at_least(1), "Partitions of __consumer_offsets."),
    _broker("offsets.topic.replication.factor", Kind.SHORT, 3, at_least(1), _AT_MOST_RUNNING),
    _broker("offsets.topic.segment.bytes", Kind.INT, 104857600, at_least(1),
            "Segment size of __consumer_offsets."),
    _broker("offsets.topic.compression.codec", Kind.INT, 0, between(0, 4),
            "0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd, for the coordinator's own batches."),
    _broker("offsets.retention.minutes", Kind.INT, 10080, at_least(1),
            "How long offsets outlive their group's last member."),
    _broker("offsets.retention.check.interval.ms", Kind.LONG, 600000, at_least(1),
            "How often that is looked at."),
    _broker("offsets.commit.timeout.ms", Kind.INT, 5000, at_least(1),
            "How long a commit waits for its disk."),
)  # fmt: skip

_TRANSACTIONS: Final = (
    _broker("transaction.state.log.num.partitions", Kind.INT, 50, at_least(1),
            "Partitions of __transaction_state; fixed once it exists."),
    _broker("transaction.state.log.replication.factor", Kind.SHORT, 3, at_least(1), _AT_MOST_RUNNING),
    _broker("transaction.state.log.min.isr", Kind.INT, 2, at_least(1),
            "Reported to clients; the store keeps records durable, not replicas."),
    _broker("transaction.state.log.segment.bytes", Kind.INT, 104857600, at_least(1),
            "Segment size of __transaction_state."),
    _broker("transaction.max.timeout.ms", Kind.INT, 900000, at_least(1), "The longest transaction timeout."),
    _broker("transaction.abort.timed.out.transaction.cleanup.interval.ms", Kind.INT, 10000, at_least(1),
            "How often transactions past their timeout are sought."),
    _broker("transactional.id.expiration.ms", Kind.INT, 604800000, at_least(1),
            "How long an unused transactional id is remembered."),
    _broker("transaction.remove.expired.transaction.cleanup.interval.ms", Kind.INT, 3600000, at_least(1),
            "How often forgotten ones are sought."),
    _dynamic(_broker("transaction.partition.verification.enable", Kind.BOOLEAN, True, None,
                     "A partition verifies a transaction with its coordinator before the first batch.")),
    _dynamic(_broker("producer.id.expiration.ms", Kind.INT, 86400000, at_least(1),
                     "How long the sequence of an inactive producer is kept.")),
    _broker("producer.id.expiration.check.interval.ms", Kind.INT, 600000, at_least(1),
            "How often that is looked at."),
    _broker("add.partitions.to.txn.retry.backoff.ms", Kind.INT, 20, at_least(1),
            "Pause between tries to add a partition on behalf of a producer."),
    _broker("add.partitions.to.txn.retry.backoff.max.ms", Kind.INT, 100, at_least(0),
            "After so long it gives up."),
    _broker("transaction.two.phase.commit.enable", Kind.BOOLEAN, False, None,
            "Clients may prepare a transaction, and commit or abort it at any later time (KIP-939)."),
)  # fmt: skip

ACL_AUTHORIZERS: Final = ("acl", "org.apache.kafka.metadata.authorizer.StandardAuthorizer")

_ACCESS: Final = (
    _broker("klamm.authorizer", Kind.STRING, "", one_of("", *ACL_AUTHORIZERS),
            "acl: requests are authorized by access control lists. Empty: everything is allowed."),
    _broker("authorizer.class.name", Kind.STRING, "", one_of("", *ACL_AUTHORIZERS),
            "Kafka's name of klamm.authorizer; takes the class name of Kafka's StandardAuthorizer."),
    _broker("super.users", Kind.PASSWORD, None, None,
            "Principals that may do everything, such as User:admin;User:broker."),
    _broker("allow.everyone.if.no.acl.found", Kind.BOOLEAN, False, None,
            "Whether all clients may use a resource that no access control list is about."),
)  # fmt: skip

# Families of other parts of Kafka: quorum, share groups, the consumer protocol's own groups, replication.
_OTHER_FAMILIES: Final = (
    "controller.",
    "group.share.",
    "group.streams.",
    "replica.fetch.",
    "replica.lag.",
    "replica.socket.",
    "share.coordinator.",
)

BROKER_SETTINGS: Final = Definition(
    (
        *BROKER_DEFAULT_SETTINGS.settings.values(),
        *_SERVER,
        *LISTENER_SETTINGS.values(),
        *BETWEEN_BROKERS,
        *BEFORE_LOGIN,
        *_CLUSTER,
        *_LOG,
        *_GROUPS,
        *_TRANSACTIONS,
        *_ACCESS,
        *IDLE_SETTINGS,
    ),
    # Settings of a listener are read with those of all listeners.
    ignored_prefixes=(*_OTHER_FAMILIES, PREFIX, PROVIDERS),
)
