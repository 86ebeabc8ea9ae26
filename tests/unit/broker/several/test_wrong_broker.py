"""Requests at a broker that does not lead the partition, or does not coordinate the group or transaction."""

from __future__ import annotations

from typing import Any

import pytest

from internals.shared_jar import SharedJar
from klamm.broker.cluster.topic_names import ADMIN_CLIENT_ID
from klamm.protocol.api import ApiKey
from klamm.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from klamm.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from klamm.protocol.messages.delete_groups import DeleteGroupsRequest
from klamm.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from klamm.protocol.messages.describe_groups import DescribeGroupsRequest
from klamm.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from klamm.protocol.messages.describe_transactions import DescribeTransactionsRequest
from klamm.protocol.messages.end_txn import EndTxnRequest
from klamm.protocol.messages.init_producer_id import InitProducerIdRequest
from klamm.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from klamm.protocol.messages.list_groups import ListGroupsRequest
from klamm.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from klamm.protocol.messages.list_transactions import ListTransactionsRequest
from klamm.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from klamm.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from klamm.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from klamm.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from klamm.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from klamm.testing.requests import a_batch, a_fetch, a_produce
from unit.broker.several.asking import (
    TRANSACTION,
    a_join,
    a_sync,
    commit,
    fetch,
    fetch_offset_before_v8,
    fetch_offsets,
    heartbeat,
    init_producer,
    key_of,
    make_internal_topics,
    produce,
)

NOT_LEADER, NOT_COORDINATOR = 6, 16


def endpoints(answer: Any) -> list[tuple[int, str, int]]:
    return [(each.node_id, each.host, each.port) for each in answer.node_endpoints]


# scenario 10
def test_produce_names_the_leader_from_version_10_on(cluster: SharedJar) -> None:
    topic = cluster[2].services.image.topic("t")
    assert topic is not None
    for version in (9, 10, 13):
        request = a_produce(cluster[2], topic_id=topic.topic_id)
        answer = cluster[2].ask(ApiKey.PRODUCE, version, request)
        (line,) = answer.responses[0].partition_responses
        assert (line.error_code, line.base_offset) == (NOT_LEADER, -1)
        if version < 10:
            assert (line.current_leader, list(answer.node_endpoints)) == (None, [])
        else:
            assert (line.current_leader.leader_id, line.current_leader.leader_epoch) == (1, 0)
            assert endpoints(answer) == [(1, "node1", 9091)]


# scenario 10
def test_produce_without_acknowledgement_closes_the_connection(cluster: SharedJar) -> None:
    client = cluster[2].connect()
    client.send(ApiKey.PRODUCE, 9, a_produce(cluster[2], acks=0))
    cluster.loop.settle()
    assert client.is_closed


# scenario 10
def test_produce_to_a_partition_that_does_not_exist_names_no_leader(cluster: SharedJar) -> None:
    answer = cluster[2].ask(ApiKey.PRODUCE, 10, a_produce(cluster[2], partition=9))
    (line,) = answer.responses[0].partition_responses
    assert (line.error_code, line.current_leader, list(answer.node_endpoints)) == (3, None, [])


# scenario 11
def test_leaders_are_named_in_the_order_of_their_ids(cluster: SharedJar) -> None:
    topic = cluster[2].services.image.topic("t")
    assert topic is not None
    answer = fetch(cluster[2], version=17, topic_id=topic.topic_id, offsets={2: 0, 0: 0})
    assert [each.partition_index for each in answer.responses[0].partitions] == [2, 0]
    assert [node_id for node_id, _, _ in endpoints(answer)] == [1, 3]


@pytest.mark.parametrize("epoch", [-1, 0, 9])
# scenario 11
def test_fetch_names_the_leader_from_version_16_on_whatever_epoch_is_sent(
    cluster: SharedJar, epoch: int
) -> None:
    topic = cluster[2].services.image.topic("t")
    assert topic is not None
    for version in (12, 17):
        answer = fetch(
            cluster[2], version=version, topic_id=topic.topic_id, leader_epoch=epoch, max_wait_ms=60_000
        )
        (data,) = answer.responses[0].partitions
        assert data.error_code == NOT_LEADER
        if version < 16:
            assert (data.current_leader, list(answer.node_endpoints)) == (None, [])
        else:
            assert (data.current_leader.leader_id, data.current_leader.leader_epoch) == (1, 0)
            assert endpoints(answer) == [(1, "node1", 9091)]


def test_a_fetch_at_an_unknown_isolation_level_fails_as_at_the_leader(cluster: SharedJar) -> None:
    for node_id in (1, 2):
        request = a_fetch(cluster[node_id], partition=0)
        request.isolation_level = 2
        assert cluster[node_id].ask(ApiKey.FETCH, 12, request).error_code == -1


@pytest.mark.parametrize("epoch", [-1, 0, 9])
# scenario 12
def test_other_requests_of_the_leader_are_refused(cluster: SharedJar, epoch: int) -> None:
    node = cluster[2]
    listed = ListOffsetsRequest(-1, 0, [ListOffsetsTopic("t", [ListOffsetsPartition(0, epoch, -1)])])
    answer = node.ask(ApiKey.LIST_OFFSETS, 9, listed)
    assert answer.topics[0].partitions[0].error_code == NOT_LEADER
    ended = OffsetForLeaderEpochRequest(
        -1, [OffsetForLeaderTopic("t", [OffsetForLeaderPartition(0, epoch, 0)])]
    )
    answer = node.ask(ApiKey.OFFSET_FOR_LEADER_EPOCH, 4, ended)
    assert answer.topics[0].partitions[0].error_code == NOT_LEADER
    deleted = DeleteRecordsRequest([DeleteRecordsTopic("t", [DeleteRecordsPartition(0, -1)])], 1000)
    answer = node.ask(ApiKey.DELETE_RECORDS, 2, deleted)
    assert answer.topics[0].partitions[0].error_code == NOT_LEADER
    marker = WritableTxnMarker(7, 0, True, [WritableTxnMarkerTopic("t", [0])])
    answer = node.ask(ApiKey.WRITE_TXN_MARKERS, 1, WriteTxnMarkersRequest([marker]))
    assert answer.markers[0].topics[0].partitions[0].error_code == NOT_LEADER


def producers(cluster: SharedJar, at: int, *, client_id: str = "test") -> dict[int, tuple[int, list[int]]]:
    """(error code, producer ids) of the partitions of "t", and of one that is not there."""
    client = cluster[at].connect(client_id=client_id)
    request = DescribeProducersRequest([TopicRequest("t", [0, 1, 2, 9])])
    client.send(ApiKey.DESCRIBE_PRODUCERS, 0, request)
    cluster.pass_ms(11_000)
    (answer,) = client.new_answers()
    (topic,) = answer.topics
    return {
        line.partition_index: (line.error_code, [each.producer_id for each in line.active_producers])
        for line in topic.partitions
    }


def test_a_replica_asks_the_leaders_for_their_producers(cluster: SharedJar) -> None:
    for partition, leader in enumerate((1, 2, 3)):
        batch = a_batch(cluster[leader], producer_id=70 + leader)
        assert produce(cluster[leader], partition, batch=batch).error_code == 0
    everywhere = {0: (0, [71]), 1: (0, [72]), 2: (0, [73]), 9: (3, [])}
    assert [producers(cluster, at) for at in (1, 2, 3)] == [everywhere] * 3
    # A broker that asks is not answered with what others say, and a leader that is gone says nothing.
    of_node_2 = {0: (NOT_LEADER, []), 1: (0, [72]), 2: (NOT_LEADER, []), 9: (3, [])}
    assert producers(cluster, 2, client_id=ADMIN_CLIENT_ID) == of_node_2
    cluster.vanish(1)
    assert producers(cluster, 2) == {**everywhere, 0: (NOT_LEADER, [])}


# scenario 13
def test_an_older_epoch_is_fenced_and_a_newer_one_is_unknown(cluster: SharedJar) -> None:
    topic = cluster[2].services.image.topic("t")
    assert topic is not None
    cluster.move("t", 0, 2)
    for epoch, code in ((0, 74), (9, 75), (1, 0)):
        answer = fetch(cluster[2], version=17, topic_id=topic.topic_id, leader_epoch=epoch)
        (data,) = answer.responses[0].partitions
        assert data.error_code == code
        if code == 74:
            assert (data.current_leader.leader_id, data.current_leader.leader_epoch) == (2, 1)
            assert endpoints(answer) == [(2, "node2", 9092)]
        else:
            assert (data.current_leader, list(answer.node_endpoints)) == (None, [])


# scenario 14
def test_groups_of_another_coordinator(cluster: SharedJar) -> None:
    make_internal_topics(cluster)
    group, node = key_of(cluster, 1), cluster[2]
    answer = node.ask(ApiKey.JOIN_GROUP, 9, a_join(group))
    assert (answer.error_code, answer.generation_id) == (NOT_COORDINATOR, -1)
    assert (answer.protocol_type, answer.protocol_name, list(answer.members)) == (None, None, [])
    assert node.ask(ApiKey.SYNC_GROUP, 5, a_sync(group, "m", 1)).error_code == NOT_COORDINATOR
    assert heartbeat(node, group, "m", 1) == NOT_COORDINATOR
    answer = node.ask(ApiKey.LEAVE_GROUP, 5, LeaveGroupRequest(group, [MemberIdentity("m")]))
    assert (answer.error_code, list(answer.members)) == (NOT_COORDINATOR, [])
    topics = [OffsetDeleteRequestTopic("t", [OffsetDeleteRequestPartition(0)])]
    answer = node.ask(ApiKey.OFFSET_DELETE, 0, OffsetDeleteRequest(group, topics))
    assert (answer.error_code, list(answer.topics)) == (NOT_COORDINATOR, [])
    partitions = [OffsetCommitRequestPartition(0, 1)]
    named = [OffsetCommitRequestTopic(name=name, partitions=partitions) for name in ("t", "unknown")]
    answer = node.ask(ApiKey.OFFSET_COMMIT, 8, OffsetCommitRequest(group, -1, "", topics=named))
    codes = {topic.name: topic.partitions[0].error_code for topic in answer.topics}
    assert codes == {"t": NOT_COORDINATOR, "unknown": 3}
    own = key_of(cluster, 2)
    answer = node.ask(ApiKey.DESCRIBE_GROUPS, 5, DescribeGroupsRequest([group, own]))
    assert [(each.error_code, each.group_state) for each in answer.groups] == [
        (NOT_COORDINATOR, ""),
        (0, "Dead"),
    ]
    answer = node.ask(ApiKey.DELETE_GROUPS, 2, DeleteGroupsRequest([group, own]))
    assert {each.group_id: each.error_code for each in answer.results} == {group: NOT_COORDINATOR, own: 69}


# scenario 14
def test_transactions_of_another_coordinator(cluster: SharedJar) -> None:
    make_internal_topics(cluster)
    name, node = key_of(cluster, 1, TRANSACTION), cluster[2]
    answer = init_producer(node, name)
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (NOT_COORDINATOR, -1, -1)
    assert node.ask(ApiKey.ADD_OFFSETS_TO_TXN, 3, AddOffsetsToTxnRequest(name, 1, 0, "g")).error_code == 16
    assert node.ask(ApiKey.END_TXN, 3, EndTxnRequest(name, 1, 0, True)).error_code == NOT_COORDINATOR
    answer = node.ask(ApiKey.DESCRIBE_TRANSACTIONS, 0, DescribeTransactionsRequest([name]))
    assert answer.transaction_states[0].error_code == NOT_COORDINATOR
    topics = [AddPartitionsToTxnTopic("t", [0])]
    before_v4 = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=name,
        v3_and_below_producer_id=1,
        v3_and_below_producer_epoch=0,
        v3_and_below_topics=topics,
    )
    answer = node.ask(ApiKey.ADD_PARTITIONS_TO_TXN, 3, before_v4)
    assert answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code == 16
    batched = AddPartitionsToTxnRequest([AddPartitionsToTxnTransaction(name, 1, 0, False, topics)])
    answer = node.ask(ApiKey.ADD_PARTITIONS_TO_TXN, 4, batched)
    (result,) = answer.results_by_transaction
    assert result.topic_results[0].results_by_partition[0].partition_error_code == NOT_COORDINATOR
    offsets = [TxnOffsetCommitRequestTopic("t", [TxnOffsetCommitRequestPartition(0, 1)])]
    request = TxnOffsetCommitRequest(name, key_of(cluster, 1), 1, 0, topics=offsets)
    answer = node.ask(ApiKey.TXN_OFFSET_COMMIT, 3, request)
    assert answer.topics[0].partitions[0].error_code == NOT_COORDINATOR


# scenario 14
def test_offset_fetch_has_its_error_where_the_version_has_a_place_for_it(cluster: SharedJar) -> None:
    make_internal_topics(cluster)
    group, node = key_of(cluster, 1), cluster[2]
    assert fetch_offset_before_v8(node, 1, group).topics[0].partitions[0].error_code == NOT_COORDINATOR
    answer = fetch_offset_before_v8(node, 5, group)
    assert (answer.error_code, list(answer.topics)) == (NOT_COORDINATOR, [])


# scenario 15
def test_offset_fetch_serves_its_own_groups_beside_foreign_ones(cluster: SharedJar) -> None:
    make_internal_topics(cluster)
    own, foreign = key_of(cluster, 2), key_of(cluster, 1)
    assert commit(cluster[2], own, 5) == 0
    mine, theirs = fetch_offsets(cluster[2], own, foreign)
    assert (mine.error_code, mine.topics[0].partitions[0].committed_offset) == (0, 5)
    assert (theirs.error_code, list(theirs.topics)) == (NOT_COORDINATOR, [])


# scenario 16
def test_each_broker_lists_its_own_groups_and_transactions(cluster: SharedJar) -> None:
    make_internal_topics(cluster)
    groups = {key_of(cluster, node_id, number=number) for node_id in (1, 2, 3) for number in (0, 1)}
    names = {key_of(cluster, node_id, TRANSACTION, number) for node_id in (1, 2, 3) for number in (0, 1)}
    for node_id, node in cluster.nodes.items():
        for number in (0, 1):
            assert commit(node, key_of(cluster, node_id, number=number), 1) == 0
            client = node.connect()
            name = key_of(cluster, node_id, TRANSACTION, number)
            client.send(ApiKey.INIT_PRODUCER_ID, 4, InitProducerIdRequest(name, 60_000))
            cluster.pass_ms(20)
            assert client.new_answers()[0].error_code == 0
    listed: list[str] = []
    begun: list[str] = []
    for node in cluster.nodes.values():
        answer = node.ask(ApiKey.LIST_GROUPS, 4, ListGroupsRequest())
        assert answer.error_code == 0
        listed += [each.group_id for each in answer.groups]
        answer = node.ask(ApiKey.LIST_TRANSACTIONS, 0, ListTransactionsRequest())
        assert answer.error_code == 0
        begun += [each.transactional_id for each in answer.transaction_states]
    assert sorted(listed) == sorted(groups)
    assert sorted(begun) == sorted(names)


# scenario 17
def test_a_fetch_session_of_another_broker_is_not_found(cluster: SharedJar) -> None:
    opened = fetch(cluster[1], session_epoch=0)
    assert opened.session_id != 0
    answer = fetch(cluster[2], session_id=opened.session_id, session_epoch=1, offsets={})
    assert answer.error_code == 70


# scenario 18
def test_producer_ids_of_all_brokers_are_different(cluster: SharedJar) -> None:
    clients = [node.connect() for node in cluster.nodes.values()]
    for _ in range(1000):
        for client in clients:
            client.send(ApiKey.INIT_PRODUCER_ID, 4, InitProducerIdRequest(None, 60_000))
    cluster.pass_ms(100)
    answers = [answer for client in clients for answer in client.new_answers()]
    assert {answer.error_code for answer in answers} == {0}
    assert len({answer.producer_id for answer in answers}) == 3000


# scenario 19
def test_of_one_request_each_partition_has_its_own_answer(cluster: SharedJar) -> None:
    batches = {("t", 0): a_batch(cluster[1]), ("t", 1): a_batch(cluster[1])}
    answer = cluster[1].ask(ApiKey.PRODUCE, 10, a_produce(cluster[1], batches=batches))
    lines = [line for topic in answer.responses for line in topic.partition_responses]
    assert [(line.index, line.error_code) for line in lines] == [(0, 0), (1, NOT_LEADER)]
    assert lines[1].current_leader.leader_id == 2
    assert endpoints(answer) == [(2, "node2", 9092)]


def test_records_are_written_once_by_the_leader(cluster: SharedJar) -> None:
    assert produce(cluster[2]).error_code == NOT_LEADER
    assert produce(cluster[1]).base_offset == 0
    answer = cluster[1].ask(ApiKey.FETCH, 12, a_fetch(cluster[1]))
    assert answer.responses[0].partitions[0].high_watermark == 1
