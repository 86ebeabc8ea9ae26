"""One request for each row of the table of rights: what it needs, and the error of who has not got it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from klamm.access.acls import CLUSTER_NAME, AclOperation, ResourceType
from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.message import Message
from klamm.protocol.messages import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    alter_client_quotas,
    alter_configs,
    alter_partition_reassignments,
    alter_user_scram_credentials,
    consumer_group_describe,
    consumer_group_heartbeat,
    create_acls,
    create_partitions,
    create_topics,
    delete_acls,
    delete_groups,
    delete_records,
    delete_topics,
    describe_acls,
    describe_client_quotas,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_topic_partitions,
    describe_transactions,
    describe_user_scram_credentials,
    elect_leaders,
    end_txn,
    fetch,
    find_coordinator,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    inspect_groups,
    inspect_transactions,
    join_group,
    leave_group,
    list_config_resources,
    list_offsets,
    list_partition_reassignments,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    sync_group,
    trace_groups,
    txn_offset_commit,
    update_features,
    write_txn_markers,
)
from klamm.records.batch import TRANSACTIONAL_BIT
from klamm.records.record import Record, encode_batch

TOPIC, ABSENT, GROUP, TXN_ID = "t", "absent", "g", "x"
T, G, C, X = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER, ResourceType.TRANSACTIONAL_ID
Op = AclOperation
REFUSED: Final = {
    T: ErrorCode.topic_authorization_failed,
    G: ErrorCode.group_authorization_failed,
    C: ErrorCode.cluster_authorization_failed,
    X: ErrorCode.transactional_id_authorization_failed,
}
TIMESTAMP_MS: Final = 1_600_000_000_000


@dataclass(frozen=True, slots=True)
class Right:
    """A right that a request needs."""

    resource_type: ResourceType
    operation: AclOperation
    name: str
    refused_as: ErrorCode | None = None  # where that is not the error of its resource type

    @property
    def refusal(self) -> int:
        return int(REFUSED[self.resource_type] if self.refused_as is None else self.refused_as)


@dataclass(frozen=True, slots=True)
class Case:
    """A request, and the rights that it needs in the order in which they are checked."""

    title: str
    api_key: ApiKey
    version: int
    request: Any
    rights: tuple[Right, ...]
    changes: bool = False  # what it does when it is allowed is not asked twice of the same broker

    def __str__(self) -> str:
        return self.title


def topic(operation: AclOperation, name: str = TOPIC) -> Right:
    return Right(T, operation, name)


def group(operation: AclOperation) -> Right:
    return Right(G, operation, GROUP)


def cluster(operation: AclOperation, refused_as: ErrorCode | None = None) -> Right:
    return Right(C, operation, CLUSTER_NAME, refused_as)


def transactional_id(operation: AclOperation) -> Right:
    return Right(X, operation, TXN_ID)


def a_batch(*, transactional: bool = False) -> bytes:
    batch = encode_batch([Record(0, TIMESTAMP_MS, None, b"v", ())])
    return batch if not transactional else _as_transactional(batch)


def _as_transactional(batch: bytes) -> bytes:
    """With the bit set: what is checked before the checksum."""
    return batch[:22] + bytes([batch[22] | TRANSACTIONAL_BIT]) + batch[23:]


def producing(name: str, *, transactional: bool = False) -> produce.ProduceRequest:
    data = produce.PartitionProduceData(0, a_batch(transactional=transactional))
    return produce.ProduceRequest(
        TXN_ID if transactional else None,
        -1,
        5000,
        [produce.TopicProduceData(name=name, partition_data=[data])],
    )


def fetching(name: str, *, replica_id: int = -1) -> fetch.FetchRequest:
    partition = fetch.FetchPartition(0, partition_max_bytes=1000)
    return fetch.FetchRequest(
        replica_id=replica_id, topics=[fetch.FetchTopic(topic=name, partitions=[partition])]
    )


def configs_of(kind: int, name: str) -> describe_configs.DescribeConfigsRequest:
    return describe_configs.DescribeConfigsRequest(
        [
            describe_configs.DescribeConfigsResource(
                kind, name, ["retention.ms", "consumer.session.timeout.ms"]
            )
        ]
    )


def setting(kind: int, name: str, key: str, value: str) -> Any:
    config = incremental_alter_configs.AlterableConfig(key, 0, value)
    resource = incremental_alter_configs.AlterConfigsResource(kind, name, [config])
    return incremental_alter_configs.IncrementalAlterConfigsRequest([resource], validate_only=True)


def replacing(kind: int, name: str, key: str, value: str) -> Any:
    resource = alter_configs.AlterConfigsResource(kind, name, [alter_configs.AlterableConfig(key, value)])
    return alter_configs.AlterConfigsRequest([resource], validate_only=True)


def _by_topic(name: str) -> Iterator[Case]:
    """What names a topic, which may be absent."""
    of = f" of {name}"
    read, write, describe = topic(Op.READ, name), topic(Op.WRITE, name), topic(Op.DESCRIBE, name)
    yield Case("produce" + of, ApiKey.PRODUCE, 9, producing(name), (write,), changes=True)
    yield Case("fetch" + of, ApiKey.FETCH, 12, fetching(name), (read,))
    offset = list_offsets.ListOffsetsTopic(name, [list_offsets.ListOffsetsPartition(0, timestamp=-1)])
    yield Case(
        "offsets" + of, ApiKey.LIST_OFFSETS, 6, list_offsets.ListOffsetsRequest(-1, 0, [offset]), (describe,)
    )
    named = metadata.MetadataRequestTopic(name=name)
    for version in (4, 10, 12):
        yield Case(
            f"metadata {version}" + of,
            ApiKey.METADATA,
            version,
            metadata.MetadataRequest([named], False, version == 10, version >= 10),
            (describe,),
        )
    yield Case(
        "pages" + of,
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        0,
        describe_topic_partitions.DescribeTopicPartitionsRequest(
            [describe_topic_partitions.TopicRequest(name)]
        ),
        (describe,),
    )
    epoch = offset_for_leader_epoch.OffsetForLeaderPartition(0, leader_epoch=0)
    yield Case(
        "epochs" + of,
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        4,
        offset_for_leader_epoch.OffsetForLeaderEpochRequest(
            -1, [offset_for_leader_epoch.OffsetForLeaderTopic(name, [epoch])]
        ),
        (describe,),
    )
    yield Case(
        "producers" + of,
        ApiKey.DESCRIBE_PRODUCERS,
        0,
        describe_producers.DescribeProducersRequest([describe_producers.TopicRequest(name, [0])]),
        (read,),
    )
    records = delete_records.DeleteRecordsTopic(name, [delete_records.DeleteRecordsPartition(0, 0)])
    yield Case(
        "deleting records" + of,
        ApiKey.DELETE_RECORDS,
        2,
        delete_records.DeleteRecordsRequest([records], 1000),
        (topic(Op.DELETE, name),),
    )
    yield Case(
        "more partitions" + of,
        ApiKey.CREATE_PARTITIONS,
        3,
        create_partitions.CreatePartitionsRequest(
            [create_partitions.CreatePartitionsTopic(name, 1, None)], 1000, True
        ),
        (topic(Op.ALTER, name),),
    )
    yield Case(
        "configs" + of, ApiKey.DESCRIBE_CONFIGS, 4, configs_of(2, name), (topic(Op.DESCRIBE_CONFIGS, name),)
    )
    alter = topic(Op.ALTER_CONFIGS, name)
    yield Case(
        "setting" + of, ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, setting(2, name, "retention.ms", "7"), (alter,)
    )
    yield Case("replacing" + of, ApiKey.ALTER_CONFIGS, 2, replacing(2, name, "retention.ms", "7"), (alter,))


def _of_topics() -> Iterator[Case]:
    """The others about topics."""
    yield Case(
        "transactional produce",
        ApiKey.PRODUCE,
        9,
        producing(TOPIC, transactional=True),
        (transactional_id(Op.WRITE), topic(Op.WRITE)),
    )
    yield Case(
        "replicating",
        ApiKey.FETCH,
        12,
        fetching(TOPIC, replica_id=1),
        (cluster(Op.CLUSTER_ACTION, REFUSED[T]),),
    )
    created = create_topics.CreatableTopic("new", 1, 1)
    yield Case(
        "creating",
        ApiKey.CREATE_TOPICS,
        7,
        create_topics.CreateTopicsRequest([created], 5000, True),
        (topic(Op.CREATE, "new"), topic(Op.DESCRIBE_CONFIGS, "new")),
    )
    yield Case(
        "creating by the cluster's right",
        ApiKey.CREATE_TOPICS,
        5,
        create_topics.CreateTopicsRequest([created], 5000, True),
        (cluster(Op.CREATE, REFUSED[T]), topic(Op.DESCRIBE_CONFIGS, "new")),
    )
    for version in (3, 5):
        yield Case(
            f"deleting {version}",
            ApiKey.DELETE_TOPICS,
            version,
            delete_topics.DeleteTopicsRequest(topic_names=[ABSENT], timeout_ms=1000),
            (topic(Op.DESCRIBE, ABSENT),),
        )
    yield Case(
        "deleting by the cluster's right",
        ApiKey.DELETE_TOPICS,
        5,
        delete_topics.DeleteTopicsRequest(topic_names=[ABSENT], timeout_ms=1000),
        (cluster(Op.DELETE, REFUSED[T]),),
    )
    by_name = delete_topics.DeleteTopicState(ABSENT)
    yield Case(
        "deleting 6",
        ApiKey.DELETE_TOPICS,
        6,
        delete_topics.DeleteTopicsRequest([by_name], timeout_ms=1000),
        (topic(Op.DESCRIBE, ABSENT),),
    )
    yield Case(
        "deleting what is there",
        ApiKey.DELETE_TOPICS,
        6,
        delete_topics.DeleteTopicsRequest([delete_topics.DeleteTopicState("doomed")], timeout_ms=5000),
        (topic(Op.DESCRIBE, "doomed"), topic(Op.DELETE, "doomed")),
        changes=True,
    )


def _of_groups() -> Iterator[Case]:
    """About the group."""
    read, describe, delete = group(Op.READ), group(Op.DESCRIBE), group(Op.DELETE)
    for version in (2, 3, 4):
        yield Case(
            f"coordinator {version}",
            ApiKey.FIND_COORDINATOR,
            version,
            find_coordinator.FindCoordinatorRequest(
                GROUP if version < 4 else "", 0, [GROUP] if version >= 4 else []
            ),
            (describe,),
        )
    yield Case(
        "coordinator of a transactional id",
        ApiKey.FIND_COORDINATOR,
        4,
        find_coordinator.FindCoordinatorRequest(key_type=1, coordinator_keys=[TXN_ID]),
        (transactional_id(Op.DESCRIBE),),
    )
    yield Case(
        "joining",
        ApiKey.JOIN_GROUP,
        9,
        join_group.JoinGroupRequest(
            GROUP,
            10_000,
            10_000,
            "gone",
            None,
            "consumer",
            [join_group.JoinGroupRequestProtocol("range", b"")],
        ),
        (read,),
    )
    yield Case(
        "syncing",
        ApiKey.SYNC_GROUP,
        5,
        sync_group.SyncGroupRequest(GROUP, 1, "gone", None, "consumer", "range"),
        (read,),
    )
    yield Case(
        "syncing without protocol", ApiKey.SYNC_GROUP, 5, sync_group.SyncGroupRequest(GROUP, 1, "gone"), ()
    )
    for version in (0, 4):
        yield Case(
            f"heartbeat {version}",
            ApiKey.HEARTBEAT,
            version,
            heartbeat.HeartbeatRequest(GROUP, 1, "gone"),
            (read,),
        )
    yield Case(
        "leaving",
        ApiKey.LEAVE_GROUP,
        5,
        leave_group.LeaveGroupRequest(GROUP, [leave_group.MemberIdentity("gone")]),
        (read,),
    )
    partition = offset_commit.OffsetCommitRequestPartition(0, 0)
    yield Case(
        "committing",
        ApiKey.OFFSET_COMMIT,
        9,
        offset_commit.OffsetCommitRequest(
            GROUP,
            1,
            "gone",
            None,
            -1,
            [offset_commit.OffsetCommitRequestTopic(name=TOPIC, partitions=[partition])],
        ),
        (read, topic(Op.READ)),
    )
    plain = offset_fetch.OffsetFetchRequestTopic(TOPIC, [0])
    for version in (1, 7):
        yield Case(
            f"offsets of the group {version}",
            ApiKey.OFFSET_FETCH,
            version,
            offset_fetch.OffsetFetchRequest(group_id=GROUP, topics=[plain]),
            (describe, topic(Op.DESCRIBE)),
        )
    asked = offset_fetch.OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[0])
    yield Case(
        "offsets of groups",
        ApiKey.OFFSET_FETCH,
        9,
        offset_fetch.OffsetFetchRequest([offset_fetch.OffsetFetchRequestGroup(GROUP, topics=[asked])]),
        (describe, topic(Op.DESCRIBE)),
    )
    yield Case(
        "all offsets of the group",
        ApiKey.OFFSET_FETCH,
        8,
        offset_fetch.OffsetFetchRequest([offset_fetch.OffsetFetchRequestGroup(GROUP, topics=None)]),
        (describe,),
    )
    partition_to_forget = offset_delete.OffsetDeleteRequestPartition(0)
    yield Case(
        "forgetting offsets",
        ApiKey.OFFSET_DELETE,
        0,
        offset_delete.OffsetDeleteRequest(
            GROUP, [offset_delete.OffsetDeleteRequestTopic(TOPIC, [partition_to_forget])]
        ),
        (delete,),
    )
    yield Case(
        "joining the consumer group",
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        1,
        consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
            GROUP, "gone", member_epoch=5, subscribed_topic_names=[TOPIC]
        ),
        (read, topic(Op.DESCRIBE)),
    )
    yield Case(
        "describing the consumer group",
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        1,
        consumer_group_describe.ConsumerGroupDescribeRequest([GROUP]),
        (describe,),
    )
    for version in (5, 6):
        yield Case(
            f"describing the group {version}",
            ApiKey.DESCRIBE_GROUPS,
            version,
            describe_groups.DescribeGroupsRequest([GROUP], True),
            (describe,),
        )
    yield Case(
        "inspecting the group",
        ApiKey.INSPECT_GROUPS,
        0,
        inspect_groups.InspectGroupsRequest([GROUP]),
        (describe,),
    )
    yield Case(
        "tracing the group",
        ApiKey.TRACE_GROUPS,
        0,
        trace_groups.TraceGroupsRequest([GROUP]),
        (describe,),
    )
    yield Case(
        "deleting the group", ApiKey.DELETE_GROUPS, 2, delete_groups.DeleteGroupsRequest([GROUP]), (delete,)
    )
    yield Case(
        "configs of the group",
        ApiKey.DESCRIBE_CONFIGS,
        4,
        configs_of(32, GROUP),
        (group(Op.DESCRIBE_CONFIGS),),
    )
    yield Case(
        "setting of the group",
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        1,
        setting(32, GROUP, "consumer.session.timeout.ms", "50000"),
        (group(Op.ALTER_CONFIGS),),
    )


def _of_transactions() -> Iterator[Case]:
    write, describe = transactional_id(Op.WRITE), transactional_id(Op.DESCRIBE)
    yield Case(
        "producer id of a transactional id",
        ApiKey.INIT_PRODUCER_ID,
        4,
        init_producer_id.InitProducerIdRequest(TXN_ID, 0),
        (write,),
    )
    yield Case(
        "producer id",
        ApiKey.INIT_PRODUCER_ID,
        4,
        init_producer_id.InitProducerIdRequest(None, 1000),
        (cluster(Op.IDEMPOTENT_WRITE),),
        changes=True,
    )
    yield Case(
        "adding partitions",
        ApiKey.ADD_PARTITIONS_TO_TXN,
        3,
        add_partitions_to_txn.AddPartitionsToTxnRequest(
            (), TXN_ID, 1, 0, [add_partitions_to_txn.AddPartitionsToTxnTopic(TOPIC, [0])]
        ),
        (write, topic(Op.WRITE)),
    )
    part = add_partitions_to_txn.AddPartitionsToTxnTransaction(
        TXN_ID, 1, 0, True, [add_partitions_to_txn.AddPartitionsToTxnTopic(TOPIC, [0])]
    )
    yield Case(
        "verifying partitions",
        ApiKey.ADD_PARTITIONS_TO_TXN,
        4,
        add_partitions_to_txn.AddPartitionsToTxnRequest([part]),
        (cluster(Op.CLUSTER_ACTION),),
    )
    yield Case(
        "adding offsets",
        ApiKey.ADD_OFFSETS_TO_TXN,
        3,
        add_offsets_to_txn.AddOffsetsToTxnRequest(TXN_ID, 1, 0, GROUP),
        (write, group(Op.READ)),
    )
    yield Case("ending", ApiKey.END_TXN, 3, end_txn.EndTxnRequest(TXN_ID, 1, 0, True), (write,))
    offset = txn_offset_commit.TxnOffsetCommitRequestPartition(0, 0)
    yield Case(
        "committing in a transaction",
        ApiKey.TXN_OFFSET_COMMIT,
        3,
        txn_offset_commit.TxnOffsetCommitRequest(
            TXN_ID, GROUP, 1, 0, topics=[txn_offset_commit.TxnOffsetCommitRequestTopic(TOPIC, [offset])]
        ),
        (write, group(Op.READ), topic(Op.READ)),
    )
    marker = write_txn_markers.WritableTxnMarker(
        1, 0, True, [write_txn_markers.WritableTxnMarkerTopic(ABSENT, [0])], 0
    )
    for operation in (Op.ALTER, Op.CLUSTER_ACTION):
        yield Case(
            f"markers by {operation.name}",
            ApiKey.WRITE_TXN_MARKERS,
            1,
            write_txn_markers.WriteTxnMarkersRequest([marker]),
            (cluster(operation),),
        )
    yield Case(
        "describing transactions",
        ApiKey.DESCRIBE_TRANSACTIONS,
        0,
        describe_transactions.DescribeTransactionsRequest([TXN_ID]),
        (describe,),
    )
    yield Case(
        "inspecting transactions",
        ApiKey.INSPECT_TRANSACTIONS,
        0,
        inspect_transactions.InspectTransactionsRequest([TXN_ID]),
        (describe,),
    )


def _of_the_cluster() -> Iterator[Case]:
    describe, alter = cluster(Op.DESCRIBE), cluster(Op.ALTER)
    yield Case(
        "quotas",
        ApiKey.DESCRIBE_CLIENT_QUOTAS,
        1,
        describe_client_quotas.DescribeClientQuotasRequest(),
        (cluster(Op.DESCRIBE_CONFIGS),),
    )
    of_nobody = alter_client_quotas.EntityData("user", "nobody")
    removal = alter_client_quotas.OpData("producer_byte_rate", 0.0, True)
    yield Case(
        "altering quotas",
        ApiKey.ALTER_CLIENT_QUOTAS,
        1,
        alter_client_quotas.AlterClientQuotasRequest([alter_client_quotas.EntryData([of_nobody], [removal])]),
        (cluster(Op.ALTER_CONFIGS),),
    )
    nobody = describe_user_scram_credentials.UserName("nobody")
    yield Case(
        "SCRAM users",
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
        0,
        describe_user_scram_credentials.DescribeUserScramCredentialsRequest([nobody]),
        (describe,),
    )
    deletion = alter_user_scram_credentials.ScramCredentialDeletion("nobody", 1)
    yield Case(
        "altering SCRAM users",
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        0,
        alter_user_scram_credentials.AlterUserScramCredentialsRequest([deletion]),
        (alter,),
    )
    no_acl = describe_acls.DescribeAclsRequest(3, "no such group", 3, None, None, 1, 1)
    yield Case("ACLs", ApiKey.DESCRIBE_ACLS, 3, no_acl, (describe,))
    yield Case(
        "creating ACLs",
        ApiKey.CREATE_ACLS,
        2,
        create_acls.CreateAclsRequest([create_acls.AclCreation(2, "", 3, "User:bob", "*", 3, 3)]),
        (alter,),
    )
    no_acls = delete_acls.DeleteAclsFilter(3, "no such group", 3, None, None, 1, 1)
    yield Case("deleting ACLs", ApiKey.DELETE_ACLS, 2, delete_acls.DeleteAclsRequest([no_acls]), (alter,))
    yield Case(
        "log dirs", ApiKey.DESCRIBE_LOG_DIRS, 4, describe_log_dirs.DescribeLogDirsRequest([]), (describe,)
    )
    yield Case(
        "reassignments",
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        0,
        list_partition_reassignments.ListPartitionReassignmentsRequest(1000, None),
        (describe,),
    )
    yield Case(
        "reassignments of one partition",
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        0,
        list_partition_reassignments.ListPartitionReassignmentsRequest(
            1000, [list_partition_reassignments.ListPartitionReassignmentsTopics(ABSENT, [0])]
        ),
        (describe,),
    )
    partition = alter_partition_reassignments.ReassignablePartition(0, None)
    yield Case(
        "reassigning",
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        0,
        alter_partition_reassignments.AlterPartitionReassignmentsRequest(
            1000, topics=[alter_partition_reassignments.ReassignableTopic(TOPIC, [partition])]
        ),
        (alter,),
    )
    yield Case(
        "electing",
        ApiKey.ELECT_LEADERS,
        2,
        elect_leaders.ElectLeadersRequest(0, [elect_leaders.TopicPartitions(TOPIC, [0])], 1000),
        (alter,),
    )
    yield Case(
        "features",
        ApiKey.UPDATE_FEATURES,
        1,
        update_features.UpdateFeaturesRequest(
            1000, [update_features.FeatureUpdateKey("no.such.feature", 1, 1)], True
        ),
        (alter,),
    )
    yield Case(
        "resources",
        ApiKey.LIST_CONFIG_RESOURCES,
        0,
        list_config_resources.ListConfigResourcesRequest(),
        (cluster(Op.DESCRIBE_CONFIGS),),
    )
    yield Case(
        "configs of all brokers",
        ApiKey.DESCRIBE_CONFIGS,
        4,
        configs_of(4, ""),
        (cluster(Op.DESCRIBE_CONFIGS),),
    )
    yield Case(
        "setting of all brokers",
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        1,
        setting(4, "", "log.cleaner.threads", "1"),
        (cluster(Op.ALTER_CONFIGS),),
    )


CASES: Final[Sequence[Case]] = (
    *_by_topic(TOPIC),
    *_by_topic(ABSENT),
    *_of_topics(),
    *_of_groups(),
    *_of_transactions(),
    *_of_the_cluster(),
)


def error_codes(message: Any) -> set[int]:
    """Every error code in a response."""
    found: set[int] = set()
    if isinstance(message, Message):
        for name, value in message.values().items():
            if name.endswith("error_code"):
                found.add(int(value))
            elif isinstance(value, list | tuple):
                for each in value:
                    found |= error_codes(each)
    return found
