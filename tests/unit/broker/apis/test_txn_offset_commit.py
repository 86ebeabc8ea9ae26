"""TxnOffsetCommit at the broker: verified first, then decided by the group coordinator.

Numbers in parentheses are those of the scenarios in the specification of transactions.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from internals.jar import Jar, JarClient
from internals.transactions import SmallCoordinator
from klamm.broker.partitions.markers import TransactionMarker
from klamm.broker.partitions.registry import PartitionRegistry
from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode
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

PRODUCER = 7
OFFSETS = TopicPartition("__consumer_offsets", 0)


@pytest.fixture
def jar() -> Iterator[Jar]:
    jar = Jar({"offsets.topic.num.partitions": "1"})
    jar.create_topic("t")
    jar.services.groups.topic.create()
    jar.loop.settle()
    yield jar
    jar.close()


@pytest.fixture
def client(jar: Jar) -> JarClient:
    return jar.connect()


@pytest.fixture
def coordinator(jar: Jar) -> SmallCoordinator:
    coordinator = jar.services.verifier = SmallCoordinator()
    coordinator.begin("x", PRODUCER, 0)
    return coordinator


def a_commit(
    offset: int = 50, *, topic: str = "t", group_id: str = "g", epoch: int = 0
) -> TxnOffsetCommitRequest:
    topics = [TxnOffsetCommitRequestTopic(topic, [TxnOffsetCommitRequestPartition(0, offset)])]
    return TxnOffsetCommitRequest("x", group_id, PRODUCER, epoch, topics=topics)


def commit(client: JarClient, request: TxnOffsetCommitRequest, version: int = 5) -> int:
    response = client.ask(ApiKey.TXN_OFFSET_COMMIT, version, request)
    code: int = response.topics[0].partitions[0].error_code
    return code


def end(jar: Jar, *, commits: bool, epoch: int = 0) -> None:
    written = jar.services.markers.write(TransactionMarker(PRODUCER, epoch, commits, 0), [OFFSETS])
    jar.loop.settle()
    assert written.response == {OFFSETS: 0}


def fetched(client: JarClient, *, stable: bool = False) -> tuple[int, int]:
    topic = OffsetFetchRequestTopics(name="t", partition_indexes=[0])
    request = OffsetFetchRequest([OffsetFetchRequestGroup("g", topics=[topic])], require_stable=stable)
    answer = client.ask(ApiKey.OFFSET_FETCH, 8, request).groups[0].topics[0].partitions[0]
    return answer.committed_offset, answer.error_code


@pytest.mark.parametrize("commits", [True, False])
def test_an_offset_in_a_transaction_counts_when_the_marker_says_so(
    jar: Jar, client: JarClient, coordinator: SmallCoordinator, commits: bool
) -> None:
    # (74, 75)
    assert commit(client, a_commit(50)) == 0
    assert coordinator.asked == [("x", PRODUCER, 0, (OFFSETS,), True)]
    assert fetched(client) == (-1, 0)
    assert fetched(client, stable=True) == (-1, ErrorCode.unstable_offset_commit)
    end(jar, commits=commits)
    assert fetched(client, stable=True) == ((50, 0) if commits else (-1, 0))


def test_only_the_first_commit_of_a_transaction_is_verified(
    jar: Jar, client: JarClient, coordinator: SmallCoordinator
) -> None:
    assert [commit(client, a_commit(offset)) for offset in (50, 51)] == [0, 0]
    assert len(coordinator.asked) == 1
    end(jar, commits=True)
    assert fetched(client) == (51, 0)
    assert commit(client, a_commit(52)) == 0
    assert len(coordinator.asked) == 2


def test_a_commit_that_comes_before_its_shard_is_unloaded_is_sent_to_the_new_coordinator(
    jar: Jar, client: JarClient, coordinator: SmallCoordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The simulation of several brokers found it: the shard is told in the next turn of the event loop.
    monkeypatch.setattr(PartitionRegistry, "wake_soon", lambda *_: None)
    jar.services.partitions.close(*OFFSETS)
    assert commit(client, a_commit(50)) == ErrorCode.not_coordinator
    assert coordinator.asked == []


@pytest.mark.parametrize(
    ("answer", "version", "expected"),
    [
        (ErrorCode.transaction_abortable, 3, 48),
        (ErrorCode.transaction_abortable, 4, 120),
        (ErrorCode.producer_fenced, 5, 47),
        (ErrorCode.invalid_producer_id_mapping, 5, 49),
        (ErrorCode.concurrent_transactions, 5, 51),
        (ErrorCode.network_exception, 5, 14),
        (ErrorCode.coordinator_load_in_progress, 5, 14),
        (ErrorCode.coordinator_load_in_progress, 1, 15),
        (ErrorCode.coordinator_not_available, 5, 15),
        (ErrorCode.not_coordinator, 5, 16),
    ],
)
def test_the_coordinators_answer_becomes_what_the_version_knows(
    jar: Jar,
    client: JarClient,
    coordinator: SmallCoordinator,
    answer: ErrorCode,
    version: int,
    expected: int,
) -> None:
    coordinator.answers_with = answer
    assert commit(client, a_commit(), version) == expected
    assert len(coordinator.asked) == 1
    partition = jar.services.partitions.get(*OFFSETS)
    assert partition is not None
    assert partition.log.log_end_offset == 0


def test_versions_up_to_4_are_only_verified(
    jar: Jar, client: JarClient, coordinator: SmallCoordinator
) -> None:
    assert commit(client, a_commit(), 4) == ErrorCode.transaction_abortable
    coordinator.begin("x", PRODUCER, 0, OFFSETS)
    assert commit(client, a_commit(), 4) == 0
    assert [asked[-1] for asked in coordinator.asked] == [False, False]


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (a_commit(group_id=""), ErrorCode.invalid_group_id),
        (a_commit(topic="nope"), ErrorCode.unknown_topic_or_partition),
    ],
)
def test_a_commit_that_cannot_be_is_refused_before_it_adds_the_group_to_a_transaction(
    client: JarClient, coordinator: SmallCoordinator, request_: TxnOffsetCommitRequest, expected: int
) -> None:
    assert commit(client, request_) == expected
    assert coordinator.asked == []


@pytest.mark.parametrize(("topic", "named"), [("nope", ["nope"]), ("t", [])])
def test_without_partitions_only_an_unknown_topic_is_in_the_answer(
    client: JarClient, coordinator: SmallCoordinator, topic: str, named: list[str]
) -> None:
    request = a_commit().but(topics=[TxnOffsetCommitRequestTopic(topic, [])])
    response = client.ask(ApiKey.TXN_OFFSET_COMMIT, 5, request)
    assert [(each.name, each.partitions) for each in response.topics] == [(name, []) for name in named]


@pytest.mark.parametrize(
    ("version", "marker_epoch"),
    [(4, 0), (5, 1)],  # the marker of a v2 transaction has the next epoch
)
def test_an_approval_that_comes_after_the_marker_is_worth_nothing(
    jar: Jar, client: JarClient, coordinator: SmallCoordinator, version: int, marker_epoch: int
) -> None:
    coordinator.begin("x", PRODUCER, 0, OFFSETS)
    coordinator.is_held = True
    client.send(ApiKey.TXN_OFFSET_COMMIT, version, a_commit())
    jar.loop.settle()
    end(jar, commits=False, epoch=marker_epoch)
    coordinator.release()
    jar.loop.settle()
    (answer,) = client.new_answers()
    assert answer.topics[0].partitions[0].error_code == ErrorCode.invalid_txn_state
    assert fetched(client, stable=True) == (-1, 0)


def test_the_answer_waits_for_the_disk(jar: Jar, client: JarClient, coordinator: SmallCoordinator) -> None:
    jar.disk.delay_ms = 5
    client.send(ApiKey.TXN_OFFSET_COMMIT, 5, a_commit())
    jar.loop.settle()
    assert client.new_answers() == []
    jar.pass_ms(10)
    (answer,) = client.new_answers()
    assert answer.topics[0].partitions[0].error_code == 0
