"""Transactions over three brokers: partitions led by 1 and 2, coordinator 3."""

from __future__ import annotations

from typing import Any

import pytest

from internals.shared_jar import JarNode, SharedJar
from klamm.broker.cluster.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from klamm.protocol.api import ApiKey
from klamm.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from klamm.protocol.messages.end_txn import EndTxnRequest
from klamm.protocol.messages.init_producer_id import InitProducerIdRequest
from klamm.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from klamm.records.batch import CONTROL_BIT, iter_headers
from klamm.records.markers import decode_marker
from klamm.testing.requests import a_batch, a_produce
from unit.broker.several.asking import (
    TRANSACTION,
    committed,
    coordinator_id,
    fetch,
    key_of,
    make_internal_topics,
    shard_of,
)

V1, V2 = 11, 12  # of Produce


class Producer:
    """A transactional producer that finds leaders and its coordinator in the store."""

    def __init__(self, jar: SharedJar, name: str) -> None:
        self.jar = jar
        self.name = name
        self.identity = (-1, -1)
        self.sequences: dict[int, int] = {}

    @property
    def coordinator(self) -> JarNode:
        return self.jar[coordinator_id(self.jar, self.name, TRANSACTION)]

    def leader(self, partition: int) -> JarNode:
        return self.jar[self.jar.state("t", partition).leader_id]

    def _ask(self, node: JarNode, api_key: ApiKey, version: int, request: Any, within_ms: int = 200) -> Any:
        client = node.connect()
        client.send(api_key, version, request)
        self.jar.pass_ms(within_ms)
        (answer,) = client.new_answers()
        return answer

    def init(self) -> None:
        request = InitProducerIdRequest(self.name, 60_000)
        answer = self._ask(self.coordinator, ApiKey.INIT_PRODUCER_ID, 5, request)
        assert answer.error_code == 0
        self.identity = answer.producer_id, answer.producer_epoch
        self.sequences = {}

    def produce(self, partition: int, version: int = V2) -> Any:
        node = self.leader(partition)
        sequence = self.sequences.get(partition, 0)
        batch = a_batch(
            node,
            producer_id=self.identity[0],
            producer_epoch=self.identity[1],
            base_sequence=sequence,
            transactional=True,
        )
        request = a_produce(node, batch, partition=partition, transactional_id=self.name)
        answer = self._ask(node, ApiKey.PRODUCE, version, request)
        (line,) = answer.responses[0].partition_responses
        if line.error_code == 0:
            self.sequences[partition] = sequence + 1
        return line

    def add(self, *partitions: int) -> int:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self.identity[0],
            v3_and_below_producer_epoch=self.identity[1],
            v3_and_below_topics=[AddPartitionsToTxnTopic("t", partitions)],
        )
        answer = self._ask(self.coordinator, ApiKey.ADD_PARTITIONS_TO_TXN, 3, request)
        code: int = answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
        return code

    def end(self, *, commit: bool = True, version: int = 5, within_ms: int = 200) -> int:
        request = EndTxnRequest(self.name, *self.identity, commit)
        answer = self._ask(self.coordinator, ApiKey.END_TXN, version, request, within_ms)
        if answer.error_code == 0 and version >= 5:
            self.identity = answer.producer_id, answer.producer_epoch
            self.sequences = {}
        code: int = answer.error_code
        return code


@pytest.fixture
def jar(cluster: SharedJar) -> SharedJar:
    make_internal_topics(cluster)
    return cluster


@pytest.fixture
def producer(jar: SharedJar) -> Producer:
    producer = Producer(jar, key_of(jar, 3, TRANSACTION))
    producer.init()
    return producer


def markers(jar: SharedJar, partition: int, topic: str = "t") -> list[tuple[bool, int]]:
    """(is commit, coordinator epoch) of every marker in a partition."""
    served = jar[jar.state(topic, partition).leader_id].services.partitions.get(topic, partition)
    assert served is not None
    log = served.log
    data = log.read(0, until_offset=log.log_end_offset, max_bytes=1 << 20, at_least_one=True)
    found = []
    for position, header in iter_headers(data):
        if header.attributes & CONTROL_BIT:
            marker = decode_marker(data[position : position + header.batch_length + 12])
            assert marker is not None
            found.append((marker.is_commit, marker.coordinator_epoch))
    return found


def stable(jar: SharedJar, partition: int) -> tuple[int, int]:
    """(last stable offset, high watermark)"""
    served = jar[jar.state("t", partition).leader_id].services.partitions.get("t", partition)
    assert served is not None
    return served.log.last_stable_offset, served.log.high_watermark


@pytest.mark.parametrize("is_commit", [True, False])
def test_markers_reach_partitions_of_other_brokers(
    jar: SharedJar, producer: Producer, is_commit: bool
) -> None:
    for partition in (0, 1, 2):
        assert producer.produce(partition).error_code == 0
        assert stable(jar, partition) == (0, 1)
    assert producer.end(commit=is_commit) == 0
    epoch = jar.state(TRANSACTIONS_TOPIC, shard_of(producer.name)).leader_epoch
    for partition in (0, 1, 2):
        assert markers(jar, partition) == [(is_commit, epoch)]
        assert stable(jar, partition) == (2, 2)


def test_a_partition_that_was_not_added_is_refused_by_the_coordinator_of_another_broker(
    jar: SharedJar, producer: Producer
) -> None:
    assert producer.add(0) == 0
    assert producer.produce(0, V1).error_code == 0
    refused = producer.produce(1, V1)
    assert (refused.error_code, refused.base_offset) == (120, -1)
    assert producer.add(1) == 0
    assert producer.produce(1, V1).error_code == 0
    assert producer.end(version=3) == 0
    assert [stable(jar, partition) for partition in (0, 1)] == [(2, 2), (2, 2)]


def test_offsets_of_a_transaction_reach_the_coordinator_of_the_group(
    jar: SharedJar, producer: Producer
) -> None:
    group = key_of(jar, 1)
    topics = [TxnOffsetCommitRequestTopic("t", [TxnOffsetCommitRequestPartition(0, 7)])]
    request = TxnOffsetCommitRequest(producer.name, group, *producer.identity, topics=topics)
    answer = producer._ask(jar[1], ApiKey.TXN_OFFSET_COMMIT, 5, request)
    assert answer.topics[0].partitions[0].error_code == 0
    assert committed(jar[1], group) == (0, -1)
    assert producer.end() == 0
    assert committed(jar[1], group) == (0, 7)
    assert len(markers(jar, shard_of(group), OFFSETS_TOPIC)) == 1


# scenario 43
def test_a_leader_that_died_gets_its_marker_from_its_successor(jar: SharedJar, producer: Producer) -> None:
    for partition in (0, 1):
        assert producer.produce(partition).error_code == 0
    taken_over = jar.state("t", 0)
    jar.vanish(1)
    assert producer.end(version=3) == 0
    assert stable(jar, 1) == (2, 2), "the partition of a live leader does not wait"
    assert producer.add(1) == 51
    jar.take_over(1)
    jar.pass_ms(1_000)
    assert jar.state("t", 0).leader_epoch == taken_over.leader_epoch + 1
    assert [each for each, _ in markers(jar, 0)] == [True]
    assert stable(jar, 0) == (2, 2)
    assert producer.add(1) == 0


# scenario 44
def test_a_new_coordinator_finishes_what_was_prepared(jar: SharedJar, producer: Producer) -> None:
    for partition in (0, 1):
        assert producer.produce(partition).error_code == 0
    epoch = jar.state(TRANSACTIONS_TOPIC, shard_of(producer.name)).leader_epoch
    # The marker for t-0 cannot be written, and the coordinator dies
    jar.vanish(1)
    producer.end(version=3)
    assert markers(jar, 1) == [(True, epoch)]
    jar.vanish(3)
    jar.take_over(1, spread=False)
    jar.take_over(3)
    jar.pass_ms(2_000)
    assert markers(jar, 0) == [(True, epoch + 1)]
    assert {each for each, _ in markers(jar, 1)} == {True}
    assert stable(jar, 0)[0] == stable(jar, 0)[1]
    assert producer.add(0) == 0


# scenario 45
def test_an_open_transaction_goes_on_at_the_new_coordinator(jar: SharedJar, producer: Producer) -> None:
    for partition in (0, 1):
        assert producer.produce(partition).error_code == 0
    jar.kill(3)
    jar.pass_ms(100)
    assert producer.end() == 0
    assert [stable(jar, partition) for partition in (0, 1)] == [(2, 2), (2, 2)]


# scenario 45
def test_an_abandoned_transaction_is_aborted_by_the_new_coordinator(
    jar: SharedJar, producer: Producer
) -> None:
    for partition in (0, 1):
        assert producer.produce(partition).error_code == 0
    jar.kill(3)
    jar.pass_ms(90_000)
    assert [[each for each, _ in markers(jar, partition)] for partition in (0, 1)] == [[False], [False]]
    assert [stable(jar, partition) for partition in (0, 1)] == [(2, 2), (2, 2)]


# scenario 46
def test_without_its_coordinator_a_batch_cannot_be_verified(jar: SharedJar, producer: Producer) -> None:
    jar.vanish(3)
    refused = producer.produce(0)
    assert refused.error_code == 19
    assert refused.error_message == (
        "Unable to verify the partition has been added to the transaction. "
        "Underlying error: NETWORK_EXCEPTION"
    )
    jar.take_over(3)
    jar.pass_ms(100)
    assert producer.produce(0).error_code == 0
    assert producer.end() == 0


# scenario 31
def test_a_partition_moves_with_its_open_transaction(jar: SharedJar, producer: Producer) -> None:
    assert producer.produce(0).error_code == 0
    before = stable(jar, 0)
    jar.move("t", 0, 2)
    assert stable(jar, 0) == before == (0, 1)
    assert producer.produce(0).error_code == 0
    assert producer.end() == 0
    assert stable(jar, 0) == (3, 3)


# scenario 33
def test_an_aborted_transaction_is_filtered_as_before_after_a_move(
    jar: SharedJar, producer: Producer
) -> None:
    assert producer.produce(0).error_code == 0
    assert producer.end(commit=False) == 0
    assert producer.produce(0).error_code == 0
    assert producer.end() == 0

    def aborted() -> tuple[int, list[tuple[int, int]]]:
        answer = fetch(jar[jar.state("t", 0).leader_id], isolation_level=1)
        (data,) = answer.responses[0].partitions
        return data.last_stable_offset, [
            (each.producer_id, each.first_offset) for each in data.aborted_transactions
        ]

    before = aborted()
    assert before == (4, [(producer.identity[0], 0)])
    for to in (2, 3, 1):
        jar.move("t", 0, to)
        assert aborted() == before
