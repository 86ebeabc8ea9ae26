"""The transaction coordinator within a broker: from the wire to the markers, and what a crash does to it.

Numbers are those of the scenarios in the specification of transactions.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from internals.jar import Jar, JarClient
from klamm.broker.cluster.topic_names import EVENTS_TOPIC, TRANSACTIONS_TOPIC
from klamm.broker.metrics.exposition import render
from klamm.broker.metrics.transactions import transaction_families
from klamm.broker.net.context import HeldResponse
from klamm.broker.partitions.markers import MarkerResults, TransactionMarker
from klamm.broker.partitions.registry import Partition
from klamm.coordinator.transaction.end_txn import MAX_HELD_MS
from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from klamm.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from klamm.protocol.messages.api_versions import ApiVersionsRequest
from klamm.protocol.messages.describe_transactions import DescribeTransactionsRequest
from klamm.protocol.messages.end_txn import EndTxnRequest
from klamm.protocol.messages.find_coordinator import FindCoordinatorRequest
from klamm.protocol.messages.init_producer_id import InitProducerIdRequest
from klamm.protocol.messages.list_transactions import ListTransactionsRequest
from klamm.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from klamm.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from klamm.protocol.types import TopicPartition
from klamm.records.batch import iter_headers
from klamm.records.markers import decode_marker
from klamm.records.record import decode_records
from klamm.storage.engines.simulated_disk import FailingOperation
from klamm.testing.requests import a_batch, a_produce

SETTINGS = {"transaction.state.log.num.partitions": "4", "offsets.topic.num.partitions": "4"}
V1, V2 = 11, 12  # of Produce

Identity = tuple[int, int]


def a_jar() -> Jar:
    jar = Jar(SETTINGS)
    jar.create_topic("t", partitions=3)
    return jar


@pytest.fixture
def jar() -> Iterator[Jar]:
    jar = a_jar()
    yield jar
    jar.close()


class Producer:
    """A transactional producer, request by request."""

    def __init__(self, jar: Jar, transactional_id: str = "x", client: JarClient | None = None) -> None:
        self.jar = jar
        self.name = transactional_id
        self.client = client or jar.connect()
        self.identity: Identity = (-1, -1)
        self.sequences: dict[int, int] = {}

    def init(self, timeout_ms: int = 60_000, version: int = 5, **fields: Any) -> Any:
        request = InitProducerIdRequest(self.name, timeout_ms, **fields)
        response = self.client.ask(ApiKey.INIT_PRODUCER_ID, version, request)
        if response.error_code == 0:
            self._take(response)
        return response

    def _take(self, response: Any) -> None:
        self.identity = response.producer_id, response.producer_epoch
        self.sequences = {}

    def adding(self, *partitions: int) -> AddPartitionsToTxnRequest:
        return AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self.identity[0],
            v3_and_below_producer_epoch=self.identity[1],
            v3_and_below_topics=[AddPartitionsToTxnTopic("t", list(partitions))],
        )

    def add(self, *partitions: int, version: int = 3) -> list[int]:
        response = self.client.ask(ApiKey.ADD_PARTITIONS_TO_TXN, version, self.adding(*partitions))
        (topic,) = response.results_by_topic_v3_and_below
        return [each.partition_error_code for each in topic.results_by_partition]

    def produce(self, partition: int = 0, version: int = V2) -> int:
        sequence = self.sequences.get(partition, 0)
        batch = a_batch(
            self.jar,
            producer_id=self.identity[0],
            producer_epoch=self.identity[1],
            base_sequence=sequence,
            transactional=True,
        )
        request = a_produce(self.jar, batch, partition=partition, transactional_id=self.name)
        response = self.client.ask(ApiKey.PRODUCE, version, request)
        code: int = response.responses[0].partition_responses[0].error_code
        if code == 0:
            self.sequences[partition] = sequence + 1
        return code

    def commit_offset(self, offset: int, group_id: str = "g") -> int:
        partition = TxnOffsetCommitRequestPartition(0, offset)
        request = TxnOffsetCommitRequest(
            self.name, group_id, *self.identity, topics=[TxnOffsetCommitRequestTopic("t", [partition])]
        )
        response = self.client.ask(ApiKey.TXN_OFFSET_COMMIT, 5, request)
        code: int = response.topics[0].partitions[0].error_code
        return code

    def end(self, *, commit: bool = True, version: int = 5) -> int:
        request = EndTxnRequest(self.name, *self.identity, commit)
        response = self.client.ask(ApiKey.END_TXN, version, request)
        if response.error_code == 0 and version >= 5:
            self._take(response)
        code: int = response.error_code
        return code


def find(jar: Jar, key: str = "x") -> int:
    request = FindCoordinatorRequest(coordinator_keys=[key], key_type=1)
    response = jar.connect().ask(ApiKey.FIND_COORDINATOR, 4, request)
    code: int = response.coordinators[0].error_code
    return code


def a_producer(jar: Jar, transactional_id: str = "x", **fields: Any) -> Producer:
    """A producer with its identity, on a broker that has its topics."""
    find(jar, transactional_id)
    client = jar.connect()
    client.ask(ApiKey.FIND_COORDINATOR, 4, FindCoordinatorRequest(coordinator_keys=["g"]))
    jar.pass_ms(10)
    producer = Producer(jar, transactional_id, client)
    assert producer.init(**fields).error_code == 0
    return producer


def markers(jar: Jar, partition: int = 0) -> list[tuple[bool, int, int]]:
    """(commit, producer epoch, coordinator epoch) of every marker in a partition."""
    found = jar.services.partitions.get("t", partition)
    assert found is not None
    log = found.log
    raw = log.read(0, until_offset=log.log_end_offset, max_bytes=1 << 20, at_least_one=True)
    result = []
    for position, header in iter_headers(raw):
        marker = decode_marker(raw, position) if header.is_control else None
        if marker is not None:
            result.append((marker.is_commit, header.producer_epoch, marker.coordinator_epoch))
    return result


def described(jar: Jar, transactional_id: str = "x") -> Any:
    request = DescribeTransactionsRequest([transactional_id])
    (state,) = jar.connect().ask(ApiKey.DESCRIBE_TRANSACTIONS, 0, request).transaction_states
    return state


def committed_offset(jar: Jar, group_id: str = "g") -> int:
    group = OffsetFetchRequestGroup(
        group_id, topics=[OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
    )
    response = jar.connect().ask(ApiKey.OFFSET_FETCH, 9, OffsetFetchRequest(groups=[group]))
    offset: int = response.groups[0].topics[0].partitions[0].committed_offset
    return offset


def broken(jar: Jar, **settings: str) -> Jar:
    """The broker after a power failure."""
    jar.files.crash()
    return Jar({**SETTINGS, **settings}, clock=jar.clock, files=jar.files, cluster=jar.cluster)


def test_the_topic_is_made_when_a_coordinator_is_first_looked_for(jar: Jar) -> None:
    assert Producer(jar).init().error_code == ErrorCode.not_coordinator
    assert find(jar) == ErrorCode.coordinator_not_available
    jar.pass_ms(10)
    assert find(jar) == 0
    topic = jar.services.image.topic(TRANSACTIONS_TOPIC)
    assert topic is not None
    assert len(topic.partitions) == 4
    assert Producer(jar).init().error_code == 0


@pytest.mark.parametrize("version", range(6))
# scenario 22 of transactions
def test_every_producer_without_a_transactional_id_gets_another_producer_id(jar: Jar, version: int) -> None:
    client = jar.connect()
    request = InitProducerIdRequest(None)
    given = [client.ask(ApiKey.INIT_PRODUCER_ID, version, request) for _ in range(3)]
    transactional = a_producer(jar).identity[0]
    assert len({transactional, *(each.producer_id for each in given)}) == 4
    assert [(each.error_code, each.producer_epoch) for each in given] == [(0, 0)] * 3


def test_a_transaction_of_the_old_protocol_from_begin_to_marker(jar: Jar) -> None:
    producer = a_producer(jar)
    assert producer.produce(version=V1) == ErrorCode.transaction_abortable  # 58: nothing was added
    assert producer.add(0, 1) == [0, 0]
    assert [producer.produce(partition, V1) for partition in (0, 1)] == [0, 0]
    assert producer.end(version=4) == 0
    assert described(jar).transaction_state == "CompleteCommit"
    assert markers(jar, 0) == markers(jar, 1) == [(True, 0, 0)]
    # The next one goes on with the same epoch and sequence.
    assert producer.add(0) == [0]
    assert producer.produce(0, V1) == 0
    assert producer.end(commit=False, version=4) == 0
    assert markers(jar) == [(True, 0, 0), (False, 0, 0)]


def test_a_transaction_of_the_new_protocol_adds_its_partitions_itself(jar: Jar) -> None:
    producer = a_producer(jar)
    for _ in range(3):
        assert [producer.produce(partition) for partition in (0, 0, 2)] == [0, 0, 0]
        assert producer.end() == 0
    assert producer.identity[1] == 3
    assert markers(jar) == markers(jar, 2) == [(True, 1, 0), (True, 2, 0), (True, 3, 0)]
    assert markers(jar, 1) == []


def test_a_transaction_takes_one_flush_for_each_response(jar: Jar) -> None:
    flusher = jar.services.flusher
    new, old = a_producer(jar), a_producer(jar, "old")

    def one_of_each() -> tuple[int, int]:
        before = flusher.rounds
        assert new.produce() == new.end() == 0
        of_new = flusher.rounds - before
        assert old.add(0) == [0]
        assert old.produce(version=V1) == old.end(version=4) == 0
        return of_new, flusher.rounds - before - of_new

    one_of_each()  # then the names of all files are durable
    assert one_of_each() == (2, 3)
    assert described(jar).transaction_state == "CompleteCommit"


def test_a_decision_and_its_markers_fail_together(jar: Jar) -> None:
    producer = a_producer(jar)
    for _ in range(2):
        assert producer.produce() == producer.end() == 0
    written = markers(jar)
    assert producer.produce() == 0
    jar.files.faults.append(FailingOperation("sync"))
    assert producer.end() == ErrorCode.not_coordinator
    assert described(jar).transaction_state == "Ongoing"
    assert markers(jar) == written
    assert producer.end() == 0
    assert markers(jar) == [*written, (True, 3, 0)]


# scenarios 48, 49 of transactions
def test_after_the_commit_the_old_epoch_writes_nothing(jar: Jar) -> None:
    producer = a_producer(jar)
    assert producer.produce() == 0
    before = producer.identity
    producer.end()
    producer.identity, producer.sequences = before, {0: 1}
    assert producer.produce() == ErrorCode.invalid_producer_epoch


def test_offsets_are_committed_with_the_transaction_or_not_at_all(jar: Jar) -> None:
    producer = a_producer(jar)
    assert producer.commit_offset(5) == 0
    assert committed_offset(jar) == -1
    assert producer.end() == 0
    assert committed_offset(jar) == 5
    assert producer.commit_offset(9) == 0
    assert producer.end(commit=False) == 0
    assert committed_offset(jar) == 5
    # In the old protocol the group is added first.
    request = AddOffsetsToTxnRequest("x", *producer.identity, "g")
    assert producer.client.ask(ApiKey.ADD_OFFSETS_TO_TXN, 4, request).error_code == 0


# scenario 95 of transactions
def test_the_second_instance_fences_the_first(jar: Jar) -> None:
    first = a_producer(jar)
    assert first.produce() == 0
    second = Producer(jar)
    assert second.init().error_code == ErrorCode.concurrent_transactions
    assert second.init().error_code == 0
    assert first.produce() == ErrorCode.invalid_producer_epoch
    assert first.end(version=4) == ErrorCode.producer_fenced
    assert first.end(version=1) == ErrorCode.invalid_producer_epoch
    assert markers(jar) == [(False, 1, 0)]
    assert second.produce() == 0
    assert second.end() == 0


# scenario 51 of transactions
def test_a_producer_that_is_too_slow_is_aborted_and_the_reason_is_on_record(jar: Jar) -> None:
    producer = a_producer(jar, timeout_ms=5_000)
    assert producer.produce() == 0
    jar.pass_ms(20_000)
    assert described(jar).transaction_state == "CompleteAbort"
    assert markers(jar) == [(False, 1, 0)]
    (event,) = [each for each in events(jar) if each["type"] == "transaction_aborted"]
    assert event["transactional_id"] == "x"
    assert event["cause"] == "the transaction was open for longer than its timeout"
    assert event["partitions"] == ["t-0"]
    assert event["client_id"] == "test"
    assert 5_000 < event["open_ms"] <= 20_000
    page = render(transaction_families(jar.services.transactions)).decode()
    assert 'klamm_transactional_ids{state="CompleteAbort"} 1' in page
    assert 'klamm_transaction_events_total{type="transaction_aborted"' in page


def events(jar: Jar) -> list[dict[str, Any]]:
    partition = jar.services.partitions.get(EVENTS_TOPIC, 0)
    assert partition is not None
    log = partition.log
    raw = log.read(0, until_offset=log.log_end_offset, max_bytes=1 << 20, at_least_one=True)
    return [
        json.loads(record.value or b"")
        for position, _ in iter_headers(raw)
        for record in decode_records(raw, position)
    ]


# scenarios 23, 85 of transactions
def test_after_a_power_failure_an_open_transaction_goes_on() -> None:
    jar = a_jar()
    producer = a_producer(jar)
    assert producer.produce() == 0
    after = broken(jar)
    after.pass_ms(100)
    again = Producer(after)
    again.identity, again.sequences = producer.identity, dict(producer.sequences)
    assert described(after).transaction_state == "Ongoing"
    assert again.produce() == 0
    assert again.end() == 0
    assert markers(after) == [(True, 1, 1)]  # the coordinator has a higher epoch now
    other = a_producer(after, "other")
    assert other.identity[0] > producer.identity[0]
    after.close()


# scenario 80 of transactions
def test_after_a_power_failure_what_was_decided_is_completed_by_itself() -> None:
    jar = a_jar()
    producer = a_producer(jar)
    assert producer.produce() == 0
    # The markers do not get through: the broker dies before they are written.
    jar.services.transactions.write = lambda marker, partitions, after: []  # type: ignore[method-assign]
    producer.client.send(ApiKey.END_TXN, 5, EndTxnRequest(producer.name, *producer.identity, True))
    jar.pass_ms(2 * MAX_HELD_MS)
    (answer,) = producer.client.new_answers()
    assert answer.error_code == 0
    assert described(jar).transaction_state == "PrepareCommit"
    after = broken(jar)
    after.pass_ms(1_000)
    assert described(after).transaction_state == "CompleteCommit"
    assert markers(after) == [(True, 1, 1)]
    after.close()


def test_a_marker_that_a_broker_does_not_answer_for_is_sent_again(
    jar: Jar, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = a_producer(jar)
    assert producer.produce(0) == producer.produce(1) == 0
    write = jar.services.markers.write
    calls: list[Sequence[TopicPartition]] = []

    def forgetful(
        marker: TransactionMarker, partitions: Sequence[TopicPartition], after: Partition | None = None
    ) -> HeldResponse[MarkerResults]:
        calls.append(partitions)
        if len(calls) > 1:
            return write(marker, partitions, after)
        answer: HeldResponse[MarkerResults] = HeldResponse()
        write(marker, partitions[:1], after)
        answer.keep({partitions[0]: ErrorCode.none})
        return answer

    monkeypatch.setattr(jar.services.markers, "write", forgetful)
    producer.client.send(ApiKey.END_TXN, 5, EndTxnRequest(producer.name, *producer.identity, True))
    jar.pass_ms(2 * MAX_HELD_MS)
    assert [answer.error_code for answer in producer.client.new_answers()] == [0]
    assert [len(partitions) for partitions in calls] == [2, 1]
    assert described(jar).transaction_state == "CompleteCommit"
    assert markers(jar, 0) == markers(jar, 1) == [(True, 1, 0)]


# scenario 88 of transactions
def test_a_topic_that_is_deleted_meanwhile_holds_nothing_up(jar: Jar) -> None:
    jar.create_topic("other")
    producer = a_producer(jar)
    assert producer.produce() == 0
    jar.delete_topic("t")
    assert producer.end() == 0
    jar.pass_ms(100)
    assert described(jar).transaction_state == "CompleteCommit"


# scenario 97 of transactions
def test_transactions_are_listed(jar: Jar) -> None:
    a_producer(jar, "idle")
    assert a_producer(jar, "busy").produce() == 0
    request = ListTransactionsRequest(state_filters=["Ongoing", "Foo"])
    response = jar.connect().ask(ApiKey.LIST_TRANSACTIONS, 2, request)
    assert response.unknown_state_filters == ["Foo"]
    assert [each.transactional_id for each in response.transaction_states] == ["busy"]
    assert (
        len(jar.connect().ask(ApiKey.LIST_TRANSACTIONS, 0, ListTransactionsRequest()).transaction_states) == 2
    )


@pytest.mark.parametrize("api_key", [ApiKey.LIST_TRANSACTIONS, ApiKey.DESCRIBE_TRANSACTIONS])
def test_a_request_about_many_ids_sees_nothing_of_what_its_connection_asks_later(
    jar: Jar, api_key: ApiKey
) -> None:
    producers = [a_producer(jar, f"x{number}") for number in range(6)]
    client = jar.connect()
    names = [each.name for each in producers]
    request = (
        ListTransactionsRequest()
        if api_key is ApiKey.LIST_TRANSACTIONS
        else DescribeTransactionsRequest(names)
    )
    sent = client.request(api_key, 0, request)
    for producer in producers:
        sent += client.request(ApiKey.ADD_PARTITIONS_TO_TXN, 3, producer.adding(0))
    client.send_bytes(sent)
    jar.pass_ms(100)
    first, *added = client.new_answers()
    assert {each.transaction_state for each in first.transaction_states} == {"Empty"}
    assert len(added) == len(producers)
    assert [described(jar, name).transaction_state for name in names] == ["Ongoing"] * len(names)


def test_two_phase_commit_is_offered_when_it_is_enabled() -> None:
    jar = a_jar()

    def highest(client: JarClient) -> int:
        versions = client.ask(ApiKey.API_VERSIONS, 2, ApiVersionsRequest()).api_keys
        found: int = next(each.max_version for each in versions if each.api_key == ApiKey.INIT_PRODUCER_ID)
        return found

    assert highest(jar.connect()) == 5
    producer = a_producer(jar)
    assert producer.produce() == 0
    after = broken(jar, **{"transaction.two.phase.commit.enable": "true"})
    after.pass_ms(100)
    assert highest(after.connect()) == 6
    again = Producer(after)
    response = again.init(version=6, enable2_pc=True, keep_prepared_txn=True)
    assert (response.ongoing_txn_producer_id, response.ongoing_txn_producer_epoch) == producer.identity
    after.pass_ms(1_000_000)
    again.client = after.connect()  # the idle connection is closed by now
    assert again.end() == 0
    assert markers(after) == [(True, 1, 1)]
    after.close()


def test_ids_of_32_kilobytes_are_served(jar: Jar) -> None:
    longest = "x" * 32_767
    producer = a_producer(jar, longest)
    assert producer.produce() == 0
    assert producer.end() == 0
    assert described(jar, longest).transaction_state == "CompleteCommit"
