"""Where klamm answers otherwise than Kafka on purpose: one table for comparison and documentation.

`docs/differences.md` is made from it (`python -m interop.differential.deliberate > docs/differences.md`, with
`tests` on the path), so every difference that the comparison excuses is one that users can read about.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from interop.differential.sides import CLOSED
from interop.differential.world import Question
from klamm.protocol.api import ApiKey

Shows = Callable[[Question, str, Any, Any], bool]

JOINED_AGAIN: Final = "A member of a consumer group joins again with epoch 0"
ANOTHER_LEADER: Final = "The leader leaves, or the vote for an assignor is a tie"

AT_A_FOLLOWER: Final = "Fetch, ListOffsets, OffsetForLeaderEpoch at a follower"
FEWER_REPLICAS: Final = "AlterPartitionReassignments that removes a replica and keeps the leader"
DELETED_AND_MOVED: Final = "Producers of a partition that moves after DeleteRecords"
MIXED_FACTORS: Final = "CreatePartitions for a topic whose partitions have different numbers of replicas"

GROUPS: Final = "Consumer groups"
OFFSETS: Final = "Committed offsets"
TRANSACTIONS: Final = "Transactions"
TOPICS: Final = "Topics and records"
CONFIG: Final = "Configuration"
SEVERAL: Final = "Several brokers"
WIRE: Final = "Wire protocol"


@dataclass(frozen=True, slots=True, kw_only=True)
class Deliberate:
    """One difference that is meant.

    Random traffic either sees it (`shows`), or is kept from it by a function that is named here, because
    both brokers would go on differently afterwards (`kept_out_by`), or does not reach it.
    """

    area: str
    case: str
    klamm: str
    kafka: str
    why: str
    shows: Shows | None = None
    kept_out_by: str | None = None  # module.function of this package


def reason(step: Question, path: str, ours: Any, kafkas: Any) -> str | None:
    """The case under which a difference is documented; None if it is not meant."""
    for row in DELIBERATE:
        if row.shows is not None and row.shows(step, path, ours, kafkas):
            return row.case
    return None


def _at(api_key: ApiKey, path: str, ours: Sequence[Any], kafkas: Sequence[Any] | None = None) -> Shows:
    """At a field of an answer: one of our values, where Kafka has one of its own, or any but nothing."""

    def shows(step: Question, at: str, our: Any, their: Any) -> bool:
        is_theirs = bool(their) if kafkas is None else their in kafkas
        return step.api_key == api_key and at.endswith(path) and our in ours and is_theirs

    return shows


def _explains_more(step: Question, path: str, ours: Any, kafkas: Any) -> bool:
    return path.endswith("error_message") and ours == "something" and kafkas in ("null", "empty")


def _closes(step: Question, path: str, ours: Any, kafkas: Any) -> bool:
    return step.frame_change is not None and ours == CLOSED and step.says in ("flipped", "client id")


def _bad_session_timeout(step: Question, path: str, ours: Any, kafkas: Any) -> bool:
    if step.api_key is not ApiKey.JOIN_GROUP or 100 <= step.request.session_timeout_ms <= 1_800_000:
        return False
    # Only an answer of the coordinator repeats the member id.
    return (path == "error_code" and ours in (14, 16) and kafkas == 26) or (path == "member_id" and not ours)


def _target_of_nobody(step: Question, path: str, ours: Any, kafkas: Any) -> bool:
    return (
        step.api_key is ApiKey.CONSUMER_GROUP_DESCRIBE
        and path.endswith("assignment_epoch")
        and bool(ours > kafkas)
    )


def _another_controller(step: Question, path: str, ours: Any, kafkas: Any) -> bool:
    return path == "controller_id" and min(ours, kafkas) > 0


DELIBERATE: Final[tuple[Deliberate, ...]] = (
    Deliberate(
        area=GROUPS,
        case=ANOTHER_LEADER,
        klamm="the member that joined first leads; the leader's first choice wins",
        kafka="either is decided by hash order",
        why="The same history gives the same result.",
        kept_out_by="group_runner.GroupHistory._disputed_leaders",
    ),
    Deliberate(
        area=GROUPS,
        case="A member is removed while its SyncGroup waits",
        klamm="the SyncGroup is answered with UNKNOWN_MEMBER_ID",
        kafka="the SyncGroup is never answered",
        why="Every request gets an answer.",
        kept_out_by="group_steps.leave",
    ),
    Deliberate(
        area=GROUPS,
        case="A member sends JoinGroup or SyncGroup again while its first one waits",
        klamm="the first one is answered with REBALANCE_IN_PROGRESS",
        kafka="the first one is never answered",
        why="Every request gets an answer.",
    ),
    Deliberate(
        area=GROUPS,
        case="SyncGroup while the coordinator loads",
        klamm="REBALANCE_IN_PROGRESS",
        kafka="COORDINATOR_LOAD_IN_PROGRESS",
        why="The Java client treats the latter as fatal here; with the former it joins again.",
    ),
    Deliberate(
        area=GROUPS,
        case="SyncGroup in a stable group",
        klamm="renews the member's session",
        kafka="does not",
        why="A member that asks is alive.",
    ),
    Deliberate(
        area=GROUPS,
        case="The last missing member expires during the initial rebalance delay",
        klamm="the delay runs to its end",
        kafka="the join phase ends at once",
        why="More members may still arrive, which is what the delay is for.",
    ),
    Deliberate(
        area=GROUPS,
        case="The initial rebalance delay is below 10 ms, and clients that got a member id have not joined "
        "with it yet",
        klamm="the first join phase ends when they have, after 10 ms without a new member at the latest",
        kafka="it ends after the delay",
        why="A client joins again as soon as it has its id. Otherwise members that start together rebalance "
        "twice.",
    ),
    Deliberate(
        area=GROUPS,
        case="A group that no member has joined completely yet",
        klamm="writes no record when it is created, and no tombstone when it goes",
        kafka="writes both",
        why="Clients that only ask for a member id leave nothing in the log.",
    ),
    Deliberate(
        area=GROUPS,
        case="JoinGroup with a bad session timeout while the coordinator loads, or is another broker",
        klamm="COORDINATOR_LOAD_IN_PROGRESS or NOT_COORDINATOR",
        kafka="INVALID_SESSION_TIMEOUT",
        why="The coordinator's own limits decide.",
        shows=_bad_session_timeout,
    ),
    Deliberate(
        area=GROUPS,
        case="The first epoch of a consumer group",
        klamm="is 1, with the target of its first member",
        kafka="is 2: 1 is an empty target",
        why="The first answer has the assignment in either case, and one record less is written.",
    ),
    Deliberate(
        area=GROUPS,
        case="The last member of a consumer group leaves",
        klamm="the target has the epoch of the group",
        kafka="the target is one epoch behind until a member joins (Kafka 4.4 does as klamm)",
        why="Nothing is left to assign, and the record tells since when the group is empty.",
        shows=_target_of_nobody,
    ),
    Deliberate(
        area=GROUPS,
        case="A static member returns to a consumer group that is full",
        klamm="replaces its former id",
        kafka="GROUP_MAX_SIZE_REACHED",
        why="The group gets no larger.",
    ),
    Deliberate(
        area=GROUPS,
        case=JOINED_AGAIN,
        klamm="is accepted whatever its epoch was, static members with the same id too",
        kafka="FENCED_MEMBER_EPOCH or UNRELEASED_INSTANCE_ID, until its session is over",
        why="Who joins again with the same id is the same member.",
        kept_out_by="consumer_runner._is_fenced_by_kafka_alone",
    ),
    Deliberate(
        area=GROUPS,
        case="A member of a consumer group joins again with an instance id that it did not have",
        klamm="keeps its target",
        kafka="has none until the epoch of the group rises",
        why="Its partitions would have no reader.",
        kept_out_by="consumer_runner.ConsumerHistory.run",
    ),
    Deliberate(
        area=GROUPS,
        case="A member of a consumer group joins again in the place of a static member that has left",
        klamm="the epoch rises, and the member has at once what it gives up of its former place",
        kafka="the epoch rises for another subscription only",
        why="The partitions of its former place would have no reader.",
        kept_out_by="consumer_steps.use_id_twice",
    ),
    Deliberate(
        area=GROUPS,
        case="How often a consumer group is assigned anew",
        klamm="at once: `group.consumer.assignment.interval.ms` is 0",
        kafka="once a second",
        why="A second member gets its partitions with its first heartbeat, not with a later one.",
    ),
    Deliberate(
        area=GROUPS,
        case="A consumer joins a classic group that has assigned a partition twice",
        klamm="GROUP_ID_NOT_FOUND, with the reason",
        kafka="UNKNOWN_SERVER_ERROR",
        why="A consumer group gives each partition to one member.",
    ),
    Deliberate(
        area=GROUPS,
        case="A consumer joins a classic group while a cooperative member gives a partition up",
        klamm="the partition is free when that member has joined again",
        kafka="the partition is free at once",
        why="Two members would read it for a moment.",
    ),
    Deliberate(
        area=GROUPS,
        case="A classic member joins a consumer group again that has removed it, and has partitions",
        klamm="UNKNOWN_MEMBER_ID: it gives them up, and joins as a new member",
        kafka="is a member again, and may commit for them",
        why="Others have these partitions meanwhile.",
    ),
    Deliberate(
        area=GROUPS,
        case="A consumer joins a group that has just become classic, before its members have joined again",
        klamm="COORDINATOR_LOAD_IN_PROGRESS: it tries again",
        kafka="the group is a consumer group at once",
        why="Members have what they had, and the record has what they should have.",
    ),
    Deliberate(
        area=GROUPS,
        case="A static member of a classic group returns as a consumer",
        klamm="the epoch rises",
        kafka="the assignment of the classic leader stays",
        why="The leader may have left partitions for the next rebalance.",
    ),
    Deliberate(
        area=GROUPS,
        case="The coordinator stops when a consumer group has just become classic",
        klamm="the members join again",
        kafka="the group goes on, though members were not told what they have been assigned",
        why="A partition would have no reader.",
    ),
    Deliberate(
        area=OFFSETS,
        case="A member of a consumer group commits or fetches with an earlier epoch",
        klamm="partitions that it has held since then are accepted, others get STALE_MEMBER_EPOCH one by one",
        kafka="one such partition fails the commit, and every such fetch fails",
        why="Nobody else can have committed for these partitions.",
    ),
    Deliberate(
        area=OFFSETS,
        case="OffsetFetch from a consumer group with a member epoch and no member id",
        klamm="UNKNOWN_MEMBER_ID",
        kafka="UNKNOWN_SERVER_ERROR",
        why="The client learns what is wrong with its request.",
        shows=_at(ApiKey.OFFSET_FETCH, "error_code", (25,), (-1,)),
    ),
    Deliberate(
        area=OFFSETS,
        case="Offsets of a consumer group that has become empty",
        klamm="are kept for the retention time from then on",
        kafka="expire by their commit alone, perhaps as soon as the last member leaves",
        why="A group that commits rarely is not forgotten when its consumers restart.",
    ),
    Deliberate(
        area=OFFSETS,
        case="The first commit of a group is refused whole",
        klamm="there is no group",
        kafka="there is an empty one, which appears with the next write to its partition",
        why="A commit of which nothing was accepted changes nothing.",
        kept_out_by="offset_steps.commit",
    ),
    Deliberate(
        area=OFFSETS,
        case="OffsetFetch with require_stable while a plain commit is being written",
        klamm="UNSTABLE_OFFSET_COMMIT",
        kafka="waits for the write",
        why="The client repeats the request, and nothing has to be held for it.",
    ),
    Deliberate(
        area=OFFSETS,
        case="A commit that is too large for the log",
        klamm="INVALID_COMMIT_OFFSET_SIZE",
        kafka="UNKNOWN_SERVER_ERROR",
        why="The client learns that its own request is at fault.",
    ),
    Deliberate(
        area=OFFSETS,
        case="Offset records under a key of version 0 that have a later value version",
        klamm="are read",
        kafka="stop the partition from loading",
        why="Their meaning is clear.",
    ),
    Deliberate(
        area=TRANSACTIONS,
        case="First batches of one transaction, sent at once over several connections",
        klamm="all are verified",
        kafka="answers all but one with NOT_ENOUGH_REPLICAS, and the client sends them again",
        why="The coordinator is asked for each request; no queue holds one request per transactional id.",
    ),
    Deliberate(
        area=TRANSACTIONS,
        case=(
            "Produce 12, TxnOffsetCommit 5, AddPartitionsToTxn 4 that adds, or EndTxn 5 while "
            "`transaction.version` is 0"
        ),
        klamm="UNSUPPORTED_VERSION, and the transactional id can be used as before",
        kafka=(
            "an error of the producer or its transaction, or UNSUPPORTED_VERSION and then "
            "CONCURRENT_TRANSACTIONS for all that the id asks later"
        ),
        why="A refused request leaves nothing pending.",
    ),
    Deliberate(
        area=TRANSACTIONS,
        case="The last stable offset after DeleteRecords inside a batch of an open transaction",
        klamm="is the log start offset",
        kafka="is the base offset of the batch, below the log start offset",
        why="No reader is sent to an offset that does not exist.",
    ),
    Deliberate(
        area=TRANSACTIONS,
        case="WriteTxnMarkers that names a partition twice for one producer",
        klamm="writes one marker",
        kafka="does not answer",
        why="Every request gets an answer.",
    ),
    Deliberate(
        area=TRANSACTIONS,
        case="Produce 12 in a transaction to an internal topic",
        klamm="INVALID_TOPIC_EXCEPTION",
        kafka=(
            "INVALID_PRODUCER_ID_MAPPING or INVALID_PRODUCER_EPOCH for a producer that it does not know; "
            "otherwise INVALID_TOPIC_EXCEPTION, and the partition is in the transaction"
        ),
        why="A client may not write to these topics, so that no marker is needed there.",
    ),
    Deliberate(
        area=TOPICS,
        case="A partition whose `partition.metadata` is damaged, at a start",
        klamm="is repaired if its checkpoint has the topic id, and offline otherwise",
        kafka="is renamed to `-stray` and replaced with an empty one, or keeps the broker from starting",
        why="No acknowledged record is hidden, and no other partition is affected.",
    ),
    Deliberate(
        area=TOPICS,
        case="Produce with acks=all whose timeout ends before its flush",
        klamm="REQUEST_TIMED_OUT; the records stay, and a retry of an idempotent producer gets their offset",
        kafka="success: a partition with one replica waits for nothing",
        why="What is acknowledged is on disk. A timeout of 0 or less does not limit the wait for the disk.",
    ),
    Deliberate(
        area=TOPICS,
        case="Metadata for a topic whose name collides with another (`a.b` and `a_b`)",
        klamm="INVALID_TOPIC_EXCEPTION",
        kafka="UNKNOWN_TOPIC_OR_PARTITION, for as long as the client asks",
        why="The topic will never be created, so waiting for it is of no use.",
        shows=_at(ApiKey.METADATA, "error_code", (17,), (3,)),
    ),
    Deliberate(
        area=TOPICS,
        case="CreateTopics with two names that collide",
        klamm="refuses the second",
        kafka="creates both",
        why="Their metrics would have the same names.",
        kept_out_by="admin_steps.create_topics",
    ),
    Deliberate(
        area=TOPICS,
        case="Produce with an unknown compression codec",
        klamm="UNSUPPORTED_COMPRESSION_TYPE",
        kafka="UNKNOWN_SERVER_ERROR",
        why="The client learns what is wrong with its batch.",
        shows=_at(ApiKey.PRODUCE, "error_code", (76,), (-1,)),
    ),
    Deliberate(
        area=TOPICS,
        case="Produce with records that cannot be decoded",
        klamm="INVALID_RECORD; of compressed records only the header of their batch is checked, unless "
        "`klamm.record.validation=records`",
        kafka="UNKNOWN_SERVER_ERROR, for some faults INVALID_RECORD",
        why="The client learns what is wrong with its batch. Decompressing takes longer than all the rest.",
        shows=_at(ApiKey.PRODUCE, "error_code", (87,), (-1,)),
        kept_out_by="batches._garbled",
    ),
    Deliberate(
        area=TOPICS,
        case="Produce with null in place of records",
        klamm="INVALID_RECORD; closes the connection with acks=0",
        kafka="does not answer",
        why="Every request gets an answer.",
    ),
    Deliberate(
        area=TOPICS,
        case="Metadata that creates a topic",
        klamm="the response has the new topic",
        kafka="UNKNOWN_TOPIC_OR_PARTITION, and the client asks again",
        why="The topic is there at once.",
    ),
    Deliberate(
        area=TOPICS,
        case="Fetch that waits at an offset that DeleteRecords removes meanwhile",
        klamm="OFFSET_OUT_OF_RANGE at once",
        kafka="OFFSET_OUT_OF_RANGE when the wait is over",
        why="Nothing that it waits for can come.",
    ),
    Deliberate(
        area=TOPICS,
        case="Fetch whose size limit falls inside a batch",
        klamm="ends before that batch",
        kafka="sends the beginning of that batch",
        why="No client can read a part of a batch. Both send the same whole batches, to every partition.",
    ),
    Deliberate(
        area=TOPICS,
        case="DeleteTopics for `__consumer_offsets` and `__transaction_state`",
        klamm="INVALID_TOPIC_EXCEPTION",
        kafka="deletes them",
        why="All committed offsets, or all transactional ids, would be lost.",
    ),
    Deliberate(
        area=TOPICS,
        case="ListOffsets of the latest timestamp (-3) after DeleteRecords",
        klamm="is that of the records that are left",
        kafka="may be that of a deleted record, with its offset",
        why="No reader is sent to an offset that does not exist.",
        kept_out_by="data_steps._any_timestamp",
    ),
    Deliberate(
        area=TOPICS,
        case="Produce that names a partition twice",
        klamm="refuses it",
        kafka="stores the last batch and drops the others",
        why="No acknowledged record is dropped.",
        kept_out_by="data_steps.produce",
    ),
    Deliberate(
        area=CONFIG,
        case="DescribeConfigs of a broker",
        klamm="leaves out settings of what klamm does not have: Kerberos, delegation tokens, engines and "
        "callbacks of TLS and SASL in Java, tiered storage (`remote.`), share and streams groups "
        "(`group.share.`, `group.streams.`, `share.`), plug-in classes",
        kafka="lists 340 names",
        why="A setting that would protect nothing must not look as if it did.",
        kept_out_by="config_steps.describe_configs",
    ),
    Deliberate(
        area=CONFIG,
        case="Configurations of groups, client metrics and loggers",
        klamm="those of consumer groups have an effect; those of share groups, streams groups and client "
        "metrics are kept and shown, without effect; loggers are klamm's own",
        kafka="all have an effect; loggers are Kafka's classes",
        why="klamm has no share and streams groups, and receives no metrics of clients.",
        kept_out_by="rare_steps.loggers",
    ),
    Deliberate(
        area=CONFIG,
        case="AlterConfigs of a broker with an unknown name",
        klamm="INVALID_CONFIG that names the nearest known one",
        kafka="accepts it",
        why="A misspelt setting has no effect, and nothing else says so.",
        kept_out_by="config_steps.any_resource_setting",
    ),
    Deliberate(
        area=CONFIG,
        case="`listeners` and `listener.security.protocol.map` of a running broker",
        klamm="are read-only",
        kafka="can be changed",
        why="klamm opens its listeners when it starts.",
    ),
    Deliberate(
        area=CONFIG,
        case="Defaults of a broker",
        klamm="internal topics have at most as many replicas as brokers run; `node.id` is 1, `log.dir` is "
        "`klamm-data`",
        kafka="fewer than 3 brokers cannot create them with the default factor; no default; "
        "`/tmp/kafka-logs`",
        why="A broker without a configuration file works, and keeps its data over a reboot.",
    ),
    Deliberate(
        area=CONFIG,
        case="`queued.max.request.bytes`",
        klamm="may be below `socket.request.max.bytes`",
        kafka="not below `socket.request.max.bytes`",
        why="A request of any size is admitted while there is room for one byte.",
    ),
    Deliberate(
        area=CONFIG,
        case="Flushing",
        klamm="what was acknowledged with acks=all, a commit and a transaction step are on disk "
        "(`klamm.flush=commit`)",
        kafka="relies on replicas, and lets the operating system write (`klamm.flush=os`)",
        why="One broker has no replicas.",
    ),
    Deliberate(
        area=CONFIG,
        case="Features in ApiVersions and UpdateFeatures",
        klamm="`transaction.version` and `group.version`",
        kafka="also `metadata.version`, `kraft.version`, `share.version`, `streams.version` and others",
        why="The others describe Kafka's metadata log and groups of kinds that klamm does not serve.",
    ),
    Deliberate(
        area=SEVERAL,
        case=AT_A_FOLLOWER,
        klamm="NOT_LEADER_OR_FOLLOWER; DescribeLogDirs lists what a broker leads",
        kafka="a follower serves some reads, checks the leader epoch, and lists its replicas",
        why="Logs are in a store that all brokers share: a partition has a leader, and no followers.",
        kept_out_by="cluster_runner.choose_broker",
    ),
    Deliberate(
        area=SEVERAL,
        case="Fetch with the id of a broker that is a replica",
        klamm="NOT_LEADER_OR_FOLLOWER, or UNKNOWN_LEADER_EPOCH if it names the epoch",
        kafka="reads to the end of the log, beyond the high watermark",
        why="No broker follows another, and no client reads what a crash can lose.",
        kept_out_by="data_steps.fetch",
    ),
    Deliberate(
        area=SEVERAL,
        case="`controller_id` in Metadata and DescribeCluster",
        klamm="is the broker that was asked",
        kafka="is any broker, another one in each response",
        why="Every broker serves administrative requests.",
        shows=_another_controller,
    ),
    Deliberate(
        area=SEVERAL,
        case="Requests to a coordinator that loads",
        klamm="wait until it has loaded, for up to 1 s, and then get COORDINATOR_LOAD_IN_PROGRESS",
        kafka="COORDINATOR_LOAD_IN_PROGRESS at once",
        why="librdkafka reports a commit as failed after three such answers within 300 ms.",
    ),
    Deliberate(
        area=SEVERAL,
        case="A broker that stops, in Metadata and DescribeCluster",
        klamm="is absent as soon as others lead its partitions, and answers clients for up to 2 s more",
        kafka="is absent when it closes its connections, some 2 s after others lead its partitions",
        why="No client looks for its coordinator at a broker that is about to close.",
    ),
    Deliberate(
        area=SEVERAL,
        case="ListOffsets of the latest offset at a new leader",
        klamm="the offset",
        kafka="OFFSET_NOT_AVAILABLE until the followers have fetched",
        why="All that a leader finds in the log is durable.",
        kept_out_by="cluster_sides.SeveralBrokers.wait_for_ends",
    ),
    Deliberate(
        area=SEVERAL,
        case="InitProducerId without a transactional id at a broker that has used up its producer ids",
        klamm="waits for the next block",
        kafka="COORDINATOR_LOAD_IN_PROGRESS, and the client asks again",
        why="The next block is there in a millisecond.",
        kept_out_by="cluster_sides.SeveralBrokers._has_producer_ids",
    ),
    Deliberate(
        area=SEVERAL,
        case="`auto.leader.rebalance.enable`, when some brokers lead more partitions than others",
        klamm="partitions move until the numbers differ by at most one; a partition that moved lists its new "
        "leader first, also if its replicas were given by hand",
        kafka="leaders return to the first replica; replicas stay as they were given",
        why="A move copies nothing. With `false` nothing moves by itself.",
    ),
    Deliberate(
        area=SEVERAL,
        case="Restart of a broker that is the only one, after SIGTERM or SIGKILL",
        klamm="leader epochs rise by one",
        kafka="leader epochs rise by two",
        why="Kafka counts the time without a leader, too. In klamm a partition keeps the name of its leader "
        "until it is led again.",
    ),
    Deliberate(
        area=SEVERAL,
        case=FEWER_REPLICAS,
        klamm="the leader epoch stays",
        kafka="the leader epoch rises by one",
        why="Replicas hold no data: nothing has to be fenced, no client has to look for the leader again.",
        kept_out_by="cluster_sides.SeveralBrokers.removes_followers",
    ),
    Deliberate(
        area=SEVERAL,
        case=DELETED_AND_MOVED,
        klamm="the new leader knows all of them",
        kafka="a new replica knows those whose records are left",
        why="The new leader opens the log that the old one has closed.",
        kept_out_by="cluster_runner.ClusterHistory._kept_out",
    ),
    Deliberate(
        area=SEVERAL,
        case=MIXED_FACTORS,
        klamm="new partitions have as many as the first one",
        kafka="new partitions have as many as any of them",
        why="The same request gives the same result.",
        kept_out_by="cluster_runner.ClusterHistory._kept_out",
    ),
    Deliberate(
        area=SEVERAL,
        case="CreateTopics for `__consumer_offsets` and `__transaction_state`",
        klamm="INVALID_TOPIC_EXCEPTION",
        kafka="creates them",
        why="The broker creates them when they are first needed, as they must be.",
    ),
    Deliberate(
        area=WIRE,
        case="Error messages",
        klamm="are there more often",
        kafka="are null or empty for some errors",
        why="They say what to do next.",
        shows=_explains_more,
    ),
    Deliberate(
        area=WIRE,
        case="Bytes that no client means: a length below -1, a boolean of 7, invalid UTF-8",
        klamm="closes the connection",
        kafka="takes them for -1, true and U+FFFD",
        why="What was meant cannot be known.",
        shows=_closes,
    ),
    Deliberate(
        area=WIRE,
        case="AlterConfigs that names a resource twice, IncrementalAlterConfigs with an unknown operation",
        klamm="INVALID_REQUEST",
        kafka="does not answer; UNKNOWN_SERVER_ERROR",
        why="The client learns what is wrong with its request.",
        kept_out_by="config_steps.alter_configs",
    ),
    Deliberate(
        area=WIRE,
        case="ApiVersions version 3",
        klamm="names no supported features",
        kafka="names those with a minimum above 0",
        why="klamm has none of those.",
        shows=_at(ApiKey.API_VERSIONS, "supported_features", ("an empty list",), ("a list",)),
    ),
    Deliberate(
        area=WIRE,
        case="SaslHandshake at a broker without SASL",
        klamm="is not in ApiVersions, and closes the connection",
        kafka="ILLEGAL_SASL_STATE",
        why="A client sees in ApiVersions that there is no login.",
    ),
)


@dataclass(frozen=True, slots=True)
class Absent:
    """What klamm does not have."""

    what: str
    seen: str  # by a client that asks for it
    instead: str


ABSENT: Final = (
    Absent(
        "Share groups: `KafkaShareConsumer`, `kafka-share-groups`",
        "UnsupportedVersionException at the first heartbeat: `The cluster does not support the share group "
        "protocol`",
        "a consumer group",
    ),
    Absent(
        "Groups of Kafka Streams' own protocol: `group.protocol=streams`, `kafka-streams-groups`",
        "the application ends with UnsupportedVersionException: `The cluster does not support the STREAMS "
        "group protocol`",
        "`group.protocol=classic` of Kafka Streams",
    ),
    Absent(
        "Metrics that clients push",
        "nothing: a client that finds no GetTelemetrySubscriptions does not push",
        "metrics of the broker and of the client's own process",
    ),
    Absent(
        "Delegation tokens, Kerberos (GSSAPI)",
        "UnsupportedVersionException; UnsupportedSaslMechanismException",
        "SCRAM, OAUTHBEARER",
    ),
    Absent(
        "The controllers' quorum: DescribeQuorum, AddRaftVoter, RemoveRaftVoter, UnregisterBroker",
        "UnsupportedVersionException, as from `kafka-metadata-quorum`",
        "`klamm cluster describe`: every broker serves administrative requests",
    ),
    Absent(
        "Moving a partition to another folder of `log.dirs`: AlterReplicaLogDirs",
        "UnsupportedVersionException",
        "`klamm move`",
    ),
    Absent("Tiered storage", "`remote.storage.enable=true` is refused with INVALID_CONFIG", "–"),
)


def page() -> str:
    """`docs/differences.md`."""
    lines = [
        "# Where klamm differs from Apache Kafka",
        "",
        "klamm is compared with Apache Kafka 4.3.1 by random traffic that goes to both. These are the",
        "differences that are chosen; every other one is a fault, please report it.",
        "",
        "<!-- Made from tests/interop/differential/deliberate.py; do not edit. -->",
    ]
    for area in dict.fromkeys(row.area for row in DELIBERATE):
        lines += ["", f"## {area}", "", "| case | klamm | Apache Kafka | why |", "|--|--|--|--|"]
        lines += [
            f"| {row.case} | {row.klamm} | {row.kafka} | {row.why} |"
            for row in DELIBERATE
            if row.area == area
        ]
    lines += [
        "",
        "## What klamm does not have",
        "",
        "`ApiVersions` tells clients which APIs a broker serves; those of this table are not among them.",
        "",
        "| what | what a client sees | instead |",
        "|--|--|--|",
        *(f"| {row.what} | {row.seen} | {row.instead} |" for row in ABSENT),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(page())
