"""Requests for several things at once, of which a client may do some, some are denied and some are absent."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Protocol

from internals.acl_requests import ABSENT, GROUP, TOPIC, TXN_ID, a_batch
from klamm.access.acls import CLUSTER_NAME, ResourceType
from klamm.protocol.api import ApiKey
from klamm.protocol.messages import (
    add_partitions_to_txn,
    alter_partition_reassignments,
    consumer_group_describe,
    consumer_group_heartbeat,
    create_partitions,
    create_topics,
    delete_groups,
    delete_records,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_producers,
    describe_topic_partitions,
    describe_transactions,
    elect_leaders,
    fetch,
    find_coordinator,
    incremental_alter_configs,
    init_producer_id,
    list_groups,
    list_offsets,
    list_transactions,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    txn_offset_commit,
    write_txn_markers,
)
from klamm.testing import wait_until

OTHER, PREFIXED, OFFSETS, MEMBERS, OPEN = "u", "pre-1", "og", "cg", "open"
# What ACLs are about: one thing of each kind that there is.
NAMES: Final[Mapping[ResourceType, str]] = {
    ResourceType.TOPIC: TOPIC,
    ResourceType.GROUP: OFFSETS,
    ResourceType.CLUSTER: CLUSTER_NAME,
    ResourceType.TRANSACTIONAL_ID: OPEN,
}
TopicIds = Mapping[str, bytes]
Mixed = tuple[str, ApiKey, int, Any]  # a title, the API, its version, and the request or what makes it of ids
_TOPICS: Final = (TOPIC, OTHER, ABSENT)


class Preparing(Protocol):
    """A broker to be prepared."""

    admin: Any
    topic_ids: dict[str, bytes]

    def coordinates(self, key_type: int, key: str) -> bool: ...


def prepare(side: Preparing) -> None:
    """Two more topics, committed offsets, a transaction that is open, a group with a member."""
    ask = side.admin.ask
    new = [create_topics.CreatableTopic(name, 1, 1) for name in (OTHER, PREFIXED)]
    ask(ApiKey.CREATE_TOPICS, 7, create_topics.CreateTopicsRequest(new, 10_000))

    def has_topics() -> bool:
        answer = ask(ApiKey.METADATA, 12, _named(TOPIC, OTHER, PREFIXED))
        side.topic_ids = {each.name: bytes(each.topic_id) for each in answer.topics}
        return all(each.error_code == 0 for each in answer.topics)

    wait_until(has_topics)
    for key_type, key in ((0, OFFSETS), (0, MEMBERS), (1, OPEN)):
        wait_until(partial(side.coordinates, key_type, key))
    commit = _commit(OFFSETS, [(name, bytes(16)) for name in (TOPIC, OTHER)])
    wait_until(lambda: ask(ApiKey.OFFSET_COMMIT, 8, commit).topics[0].partitions[0].error_code, equals=0)
    producers: list[Any] = []

    def opened() -> int:
        producers[:] = [
            ask(ApiKey.INIT_PRODUCER_ID, 4, init_producer_id.InitProducerIdRequest(OPEN, 600_000))
        ]
        return int(producers[0].error_code)

    wait_until(opened, equals=0)
    added = add_partitions_to_txn.AddPartitionsToTxnRequest(
        (),
        OPEN,
        producers[0].producer_id,
        producers[0].producer_epoch,
        [add_partitions_to_txn.AddPartitionsToTxnTopic(name, [0]) for name in (TOPIC, OTHER)],
    )

    def is_added() -> int:
        (first, *_) = ask(ApiKey.ADD_PARTITIONS_TO_TXN, 3, added).results_by_topic_v3_and_below
        return int(first.results_by_partition[0].partition_error_code)

    wait_until(is_added, equals=0)
    joining = consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
        MEMBERS,
        "member",
        member_epoch=0,
        rebalance_timeout_ms=600_000,
        subscribed_topic_names=[TOPIC, OTHER],
        topic_partitions=[],
    )
    wait_until(lambda: ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, joining).error_code, equals=0)


def _named(*names: str, **flags: bool) -> Any:
    topics = [metadata.MetadataRequestTopic(name=name) for name in names]
    return metadata.MetadataRequest(topics, False, **flags)


def _by_ids(make: Callable[[list[tuple[str, bytes]]], Any], *names: str) -> Callable[[TopicIds], Any]:
    """A request that names topics by ids; that of an absent one is made up."""
    return lambda ids: make([("", ids.get(name, b"9" * 16)) for name in names])


def _commit(group_id: str, topics: Sequence[tuple[str, bytes]], *, by_ids: bool = False) -> Any:
    partition = offset_commit.OffsetCommitRequestPartition(0, 1)
    return offset_commit.OffsetCommitRequest(
        group_id,
        -1,
        "",
        None,
        -1,
        [
            offset_commit.OffsetCommitRequestTopic(name=name, topic_id=topic_id, partitions=[partition])
            for name, topic_id in topics
        ],
        uses_topic_ids=by_ids,
    )


def _fetched(topics: Sequence[tuple[str, bytes]], *, by_ids: bool = False, replica_id: int = -1) -> Any:
    partition = fetch.FetchPartition(0, partition_max_bytes=1000)
    return fetch.FetchRequest(
        replica_state=fetch.ReplicaState(replica_id, 1) if replica_id >= 0 else None,
        topics=[
            fetch.FetchTopic(topic=name, topic_id=topic_id, partitions=[partition])
            for name, topic_id in topics
        ],
        uses_topic_ids=by_ids,
    )


def _offsets(topics: Sequence[tuple[str, bytes]] | None, *, by_ids: bool = False) -> Any:
    asked = None
    if topics is not None:
        asked = [
            offset_fetch.OffsetFetchRequestTopics(name=name, topic_id=topic_id, partition_indexes=[0])
            for name, topic_id in topics
        ]
    group = offset_fetch.OffsetFetchRequestGroup(OFFSETS, topics=asked)
    return offset_fetch.OffsetFetchRequest([group], uses_topic_ids=by_ids)


def _forgotten(group_id: str, *names: str) -> Any:
    partition = offset_delete.OffsetDeleteRequestPartition(0)
    topics = [offset_delete.OffsetDeleteRequestTopic(name, [partition]) for name in names]
    return offset_delete.OffsetDeleteRequest(group_id, topics)


def _altered(*settings: tuple[int, str, str, str]) -> Any:
    module = incremental_alter_configs
    resources = [
        module.AlterConfigsResource(kind, name, [module.AlterableConfig(key, 0, value)])
        for kind, name, key, value in settings
    ]
    return module.IncrementalAlterConfigsRequest(resources, validate_only=True)


def _configs(*resources: tuple[int, str]) -> Any:
    keys = ["retention.ms", "consumer.session.timeout.ms"]
    return describe_configs.DescribeConfigsRequest(
        [describe_configs.DescribeConfigsResource(kind, name, keys) for kind, name in resources]
    )


def _heartbeat(**fields: Any) -> Any:
    request = consumer_group_heartbeat.ConsumerGroupHeartbeatRequest
    return request(MEMBERS, "gone", **{"member_epoch": 5, **fields})


def _produced(names: Sequence[tuple[str, bytes]]) -> Any:
    data = [produce.PartitionProduceData(0, a_batch())]
    topics = [
        produce.TopicProduceData(name=name, topic_id=topic_id, partition_data=data)
        for name, topic_id in names
    ]
    return produce.ProduceRequest(None, -1, 5000, topics)


_BY_NAME: Final = [(name, bytes(16)) for name in _TOPICS]
MIXED: Final[Sequence[Mixed]] = (
    ("all topics 9", ApiKey.METADATA, 9, metadata.MetadataRequest(None, False)),
    ("all topics 12", ApiKey.METADATA, 12, metadata.MetadataRequest(None, False)),
    ("no topics", ApiKey.METADATA, 9, metadata.MetadataRequest([], False)),
    (
        "some topics and operations",
        ApiKey.METADATA,
        10,
        _named(
            *_TOPICS,
            PREFIXED,
            "_not valid",
            include_cluster_authorized_operations=True,
            include_topic_authorized_operations=True,
        ),
    ),
    (
        "topics by id",
        ApiKey.METADATA,
        12,
        _by_ids(
            lambda topics: metadata.MetadataRequest(
                [metadata.MetadataRequestTopic(topic_id=topic_id) for _, topic_id in topics],
                False,
                may_ask_by_id=True,
            ),
            *_TOPICS,
        ),
    ),
    ("the cluster", ApiKey.DESCRIBE_CLUSTER, 1, describe_cluster.DescribeClusterRequest(True)),
    (
        "pages of all",
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        0,
        describe_topic_partitions.DescribeTopicPartitionsRequest([]),
    ),
    (
        "pages of some",
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        0,
        describe_topic_partitions.DescribeTopicPartitionsRequest(
            [describe_topic_partitions.TopicRequest(name) for name in _TOPICS]
        ),
    ),
    ("fetch of some", ApiKey.FETCH, 12, _fetched(_BY_NAME)),
    ("fetch by id", ApiKey.FETCH, 16, _by_ids(partial(_fetched, by_ids=True), *_TOPICS)),
    ("replica by id", ApiKey.FETCH, 16, _by_ids(partial(_fetched, by_ids=True, replica_id=5), TOPIC, OTHER)),
    (
        "offsets of some logs",
        ApiKey.LIST_OFFSETS,
        7,
        list_offsets.ListOffsetsRequest(
            -1,
            0,
            [
                list_offsets.ListOffsetsTopic(name, [list_offsets.ListOffsetsPartition(0, timestamp=-2)])
                for name in _TOPICS
            ],
        ),
    ),
    (
        "epochs of some",
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        4,
        offset_for_leader_epoch.OffsetForLeaderEpochRequest(
            -1,
            [
                offset_for_leader_epoch.OffsetForLeaderTopic(
                    name, [offset_for_leader_epoch.OffsetForLeaderPartition(0, leader_epoch=0)]
                )
                for name in _TOPICS
            ],
        ),
    ),
    (
        "producers of some",
        ApiKey.DESCRIBE_PRODUCERS,
        0,
        describe_producers.DescribeProducersRequest(
            [describe_producers.TopicRequest(name, [0]) for name in (PREFIXED, ABSENT)]
        ),
    ),
    ("produce to an absent topic", ApiKey.PRODUCE, 9, _produced([(ABSENT, bytes(16))])),
    ("produce to an absent id", ApiKey.PRODUCE, 13, _by_ids(_produced, ABSENT)),
    ("groups", ApiKey.LIST_GROUPS, 5, list_groups.ListGroupsRequest()),
    ("groups 0", ApiKey.LIST_GROUPS, 0, list_groups.ListGroupsRequest()),
    ("transactions", ApiKey.LIST_TRANSACTIONS, 1, list_transactions.ListTransactionsRequest()),
    (
        "some transactions",
        ApiKey.DESCRIBE_TRANSACTIONS,
        0,
        describe_transactions.DescribeTransactionsRequest([OPEN, TXN_ID, ABSENT]),
    ),
    (
        "some groups of both kinds",
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        1,
        consumer_group_describe.ConsumerGroupDescribeRequest([MEMBERS, GROUP, OFFSETS], True),
    ),
    (
        "some classic groups",
        ApiKey.DESCRIBE_GROUPS,
        5,
        describe_groups.DescribeGroupsRequest([MEMBERS, GROUP, OFFSETS, ABSENT], True),
    ),
    (
        "deleting some groups",
        ApiKey.DELETE_GROUPS,
        2,
        delete_groups.DeleteGroupsRequest([MEMBERS, ABSENT, GROUP]),
    ),
    ("all offsets of a group 8", ApiKey.OFFSET_FETCH, 8, _offsets(None)),
    ("all offsets of a group 10", ApiKey.OFFSET_FETCH, 10, lambda _: _offsets(None, by_ids=True)),
    (
        "all offsets of a group 7",
        ApiKey.OFFSET_FETCH,
        7,
        offset_fetch.OffsetFetchRequest(group_id=OFFSETS, topics=None),
    ),
    ("some offsets", ApiKey.OFFSET_FETCH, 9, _offsets(_BY_NAME)),
    ("some offsets by id", ApiKey.OFFSET_FETCH, 10, _by_ids(partial(_offsets, by_ids=True), *_TOPICS)),
    ("committing some", ApiKey.OFFSET_COMMIT, 8, _commit("og2", _BY_NAME)),
    ("committing by id", ApiKey.OFFSET_COMMIT, 10, _by_ids(partial(_commit, "og2", by_ids=True), *_TOPICS)),
    ("forgetting some", ApiKey.OFFSET_DELETE, 0, _forgotten("og2", TOPIC, ABSENT)),
    ("forgetting of an absent group", ApiKey.OFFSET_DELETE, 0, _forgotten("nope", TOPIC, ABSENT)),
    ("forgetting nothing", ApiKey.OFFSET_DELETE, 0, _forgotten("nope")),
    (
        "two phases",
        ApiKey.INIT_PRODUCER_ID,
        6,
        init_producer_id.InitProducerIdRequest(TXN_ID, 0, enable2_pc=True, knows_two_phase_commit=True),
    ),
    (
        "two phases without an id",
        ApiKey.INIT_PRODUCER_ID,
        6,
        init_producer_id.InitProducerIdRequest(None, 0, enable2_pc=True, knows_two_phase_commit=True),
    ),
    ("an empty id", ApiKey.INIT_PRODUCER_ID, 4, init_producer_id.InitProducerIdRequest("", 1000)),
    (
        "adding some partitions",
        ApiKey.ADD_PARTITIONS_TO_TXN,
        3,
        add_partitions_to_txn.AddPartitionsToTxnRequest(
            (),
            "nope",
            1,
            0,
            [add_partitions_to_txn.AddPartitionsToTxnTopic(name, [0, 7]) for name in _TOPICS],
        ),
    ),
    *(
        (
            f"committing some in a transaction {version}",
            ApiKey.TXN_OFFSET_COMMIT,
            version,
            txn_offset_commit.TxnOffsetCommitRequest(
                "nope",
                OFFSETS,
                1,
                0,
                topics=[
                    txn_offset_commit.TxnOffsetCommitRequestTopic(
                        name, [txn_offset_commit.TxnOffsetCommitRequestPartition(0, 0)]
                    )
                    for name in _TOPICS
                ],
            ),
        )
        for version in (3, 5)
    ),
    (
        "markers",
        ApiKey.WRITE_TXN_MARKERS,
        1,
        write_txn_markers.WriteTxnMarkersRequest(
            [
                write_txn_markers.WritableTxnMarker(
                    1, 0, True, [write_txn_markers.WritableTxnMarkerTopic(ABSENT, [0])], 0
                ),
                write_txn_markers.WritableTxnMarker(2, 0, True, [], 0),
            ]
        ),
    ),
    ("a pattern", ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, _heartbeat(subscribed_topic_regex="t.*")),
    ("some names", ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, _heartbeat(subscribed_topic_names=list(_TOPICS))),
    ("leaving", ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, _heartbeat(member_epoch=-1)),
    (
        "coordinators",
        ApiKey.FIND_COORDINATOR,
        4,
        find_coordinator.FindCoordinatorRequest(key_type=0, coordinator_keys=[GROUP, OFFSETS, ""]),
    ),
    ("electing all", ApiKey.ELECT_LEADERS, 2, elect_leaders.ElectLeadersRequest(0, None, 1000)),
    (
        "electing some",
        ApiKey.ELECT_LEADERS,
        1,
        elect_leaders.ElectLeadersRequest(
            0, [elect_leaders.TopicPartitions(name, [0]) for name in (TOPIC, ABSENT)], 1000
        ),
    ),
    (
        "reassigning some",
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        0,
        alter_partition_reassignments.AlterPartitionReassignmentsRequest(
            1000,
            topics=[
                alter_partition_reassignments.ReassignableTopic(
                    name, [alter_partition_reassignments.ReassignablePartition(0, None)]
                )
                for name in (TOPIC, ABSENT)
            ],
        ),
    ),
    (
        "configs of some",
        ApiKey.DESCRIBE_CONFIGS,
        4,
        _configs((2, TOPIC), (2, ABSENT), (4, "1"), (32, GROUP), (2, OTHER)),
    ),
    ("configs of a logger", ApiKey.DESCRIBE_CONFIGS, 4, _configs((8, "1"))),
    ("configs of something else", ApiKey.DESCRIBE_CONFIGS, 4, _configs((77, "m"))),
    (
        "setting some",
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        1,
        _altered(
            (2, TOPIC, "retention.ms", "5"),
            (2, ABSENT, "retention.ms", "5"),
            (32, GROUP, "consumer.session.timeout.ms", "50000"),
            (4, "", "log.cleaner.threads", "1"),
        ),
    ),
    (
        "setting a logger",
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        1,
        _altered((8, "1", "kafka.server", "INFO")),
    ),
    *(
        (
            f"creating some {version}",
            ApiKey.CREATE_TOPICS,
            version,
            create_topics.CreateTopicsRequest(
                [create_topics.CreatableTopic(name, 1, 1) for name in (TOPIC, "newer", "pre-2", "bad name")],
                5000,
                True,
            ),
        )
        for version in (4, 7)
    ),
    (
        "more partitions of some",
        ApiKey.CREATE_PARTITIONS,
        3,
        create_partitions.CreatePartitionsRequest(
            [create_partitions.CreatePartitionsTopic(name, 1, None) for name in _TOPICS], 1000, True
        ),
    ),
    (
        "deleting records of some",
        ApiKey.DELETE_RECORDS,
        2,
        delete_records.DeleteRecordsRequest(
            [
                delete_records.DeleteRecordsTopic(name, [delete_records.DeleteRecordsPartition(0, 0)])
                for name in (PREFIXED, ABSENT)
            ],
            1000,
        ),
    ),
    (
        "deleting absent topics",
        ApiKey.DELETE_TOPICS,
        6,
        delete_topics.DeleteTopicsRequest(
            [delete_topics.DeleteTopicState(name) for name in (ABSENT, "absent-too")], timeout_ms=1000
        ),
    ),
    (
        "deleting an absent id",
        ApiKey.DELETE_TOPICS,
        6,
        _by_ids(
            lambda topics: delete_topics.DeleteTopicsRequest(
                [delete_topics.DeleteTopicState(None, topic_id) for _, topic_id in topics], timeout_ms=1000
            ),
            ABSENT,
        ),
    ),
)
