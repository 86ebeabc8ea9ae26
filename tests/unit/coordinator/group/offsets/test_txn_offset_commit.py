"""TxnOffsetCommit: the checks, the answer and the batch. Numbers are those of the scenarios of transactions.

What is expected here was seen on Apache Kafka 4.3.1.
"""

from __future__ import annotations

from typing import Any

import pytest

from klamm.coordinator.group.classic.phases import Phase
from klamm.coordinator.group.config import GroupConfig
from klamm.coordinator.group.events import CommitsMixed
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from klamm.records.batch import parse_header
from unit.coordinator.asking import SESSION_MS, at_version, commit_errors
from unit.coordinator.driver import World

OK = ErrorCode.none
T0 = ("t", 0)
UNKNOWN_TOPIC = ErrorCode.unknown_topic_or_partition

# Offsets 50 (epoch 7, metadata m) and 51 of t-0 and t-1, committed by producer 3 for the group byte-group.
KAFKAS_BATCH = bytes.fromhex(
    "00000000000000000000009a0000000002dd1d6cde001000000001000001a1e648f65e000001a1e648f65e00000000000000030000"
    "0000000000000002680000002a0001000a627974652d67726f757000017400000000320004000000000000003200000007026d0000"
    "01a1e648f65e0000660000022a0001000a627974652d67726f7570000174000000013000040000000000000033ffffffff01000001"
    "a1e648f65e0000"
)


def test_the_batch_is_the_one_that_kafka_writes() -> None:
    world = World()
    world.clock.advance(parse_header(KAFKAS_BATCH).base_timestamp_ms - world.clock.timestamp_ms())
    request = TxnOffsetCommitRequest(
        transactional_id="txn",
        group_id="byte-group",
        producer_id=3,
        producer_epoch=0,
        topics=[
            TxnOffsetCommitRequestTopic(
                "t",
                [
                    TxnOffsetCommitRequestPartition(0, 50, 7, "m"),
                    TxnOffsetCommitRequestPartition(1, 51, -1, None),
                ],
            )
        ],
    )
    assert set(commit_errors(world.ask(at_version(request, 5))).values()) == {OK}
    assert world.log.batches == [KAFKAS_BATCH]


def test_a_compressed_batch_holds_the_same_records() -> None:
    every = {("t", partition): (partition, "m") for partition in range(8)}
    plain, gzip = World(), World(GroupConfig(offsets_topic_compression_codec=1))
    for world in (plain, gzip):
        world.txn_commit(every, producer=7, epoch=3)
    assert gzip.log.records() == plain.log.records()
    header = parse_header(gzip.log.batches[0])
    assert (header.codec, header.is_transactional) == (1, True)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 3, 0)
    for world in (plain, gzip):
        world.restart()
        world.end_transaction(commit=True, producer=7)
    assert gzip.fetch() == plain.fetch() == {key: (offset, OK) for key, (offset, _) in every.items()}


def test_a_partition_that_is_named_twice_has_the_last_offset() -> None:
    world = World()
    asked = [TxnOffsetCommitRequestPartition(2, 5), TxnOffsetCommitRequestPartition(2, 6)]
    request = TxnOffsetCommitRequest(
        group_id="g", producer_id=1, topics=[TxnOffsetCommitRequestTopic("t", asked)]
    )
    world.ask(at_version(request, 5))
    world.end_transaction(commit=True)
    assert world.fetch(("t", 2)) == {("t", 2): (6, OK)}


def test_every_request_of_a_transaction_starts_at_sequence_zero() -> None:
    world = World()
    world.txn_commit({T0: 1}, producer=7, epoch=3)
    world.txn_commit({T0: 2}, producer=7, epoch=3)
    headers = [parse_header(batch) for batch in world.log.batches]
    producers = [(each.producer_id, each.producer_epoch, each.base_sequence) for each in headers]
    assert producers == [(7, 3, 0), (7, 3, 0)]
    assert all(header.is_transactional for header in headers)


@pytest.mark.parametrize(
    ("claim", "expected"),
    [
        pytest.param({"generation": 2}, ErrorCode.illegal_generation, id="77: wrong generation"),
        pytest.param({"generation": -1}, ErrorCode.illegal_generation, id="a member without generation"),
        pytest.param({"member_id": "stranger"}, ErrorCode.unknown_member_id, id="77: wrong member"),
        pytest.param({"member_id": ""}, ErrorCode.unknown_member_id, id="no member, but a generation"),
        pytest.param({"instance": "i"}, ErrorCode.unknown_member_id, id="an instance that nobody has"),
        pytest.param(
            {"member_id": "stranger", "generation": -1}, ErrorCode.unknown_member_id, id="only an id"
        ),
        pytest.param({}, OK, id="the member in its generation"),
        pytest.param({"member_id": "", "generation": -1}, OK, id="nobody in particular"),
        pytest.param({"member_id": "", "generation": -3}, OK, id="any negative generation"),
        pytest.param(
            {"member_id": "", "generation": -1, "version": 2}, OK, id="78: a version without member"
        ),
    ],
)
def test_an_active_group_fences_by_generation_and_member(claim: dict[str, Any], expected: ErrorCode) -> None:
    world = World()
    (member_id,) = world.stable(1)
    arguments = {"member_id": member_id, "generation": 1, **claim}
    assert world.txn_commit_error(**arguments) is expected


def test_an_instance_of_another_member_is_fenced() -> None:
    """Scenario 77: 82 comes before the generation."""
    world = World()
    (member_id,) = world.statics("i")
    generation = world.live().generation
    ask = world.txn_commit_error
    assert ask(member_id=member_id, generation=generation, instance="i") is OK
    assert ask(member_id=member_id, generation=generation) is OK
    assert ask(member_id="other", generation=generation, instance="i") is ErrorCode.fenced_instance_id
    assert ask(member_id="other", generation=generation + 1, instance="i") is ErrorCode.fenced_instance_id
    assert ask(member_id=member_id, generation=generation, instance="j") is ErrorCode.unknown_member_id


def test_a_group_that_waits_for_its_assignment_accepts_transactions_but_no_plain_commits() -> None:
    world = World()
    (member_id,) = world.joined(1)
    assert world.phase() is Phase.COMPLETING
    assert world.txn_commit_error(member_id=member_id, generation=1) is OK
    assert world.txn_commit_error() is OK
    assert world.commit_error(member_id=member_id, generation=1) is ErrorCode.rebalance_in_progress


def test_a_missing_group_begins_with_a_commit_that_names_no_generation() -> None:
    world = World()
    assert world.txn_commit_error(generation=3) is ErrorCode.illegal_generation
    assert world.listed() == {}
    assert world.txn_commit_error(generation=-1, member_id="anybody") is OK
    assert world.listed() == {"g": "Empty"}


def test_an_empty_group_looks_at_ids_only_beside_a_generation() -> None:
    world = World()
    (member_id,) = world.stable(1)
    world.leave(member_id)
    assert world.txn_commit_error(generation=-1, member_id="anybody", instance="i") is OK
    assert world.txn_commit_error(generation=1, member_id=member_id) is ErrorCode.unknown_member_id
    assert world.txn_commit_error(generation=2) is ErrorCode.unknown_member_id


def test_a_dead_group_sends_the_client_to_look_again() -> None:
    world = World()
    world.stable(1)
    world.live().phase = Phase.DEAD
    assert world.txn_commit_error() is ErrorCode.coordinator_not_available


def test_a_transactional_commit_does_not_renew_a_session() -> None:
    world = World()
    (member_id,) = world.stable(1)
    world.pass_ms(SESSION_MS - 1)
    assert world.txn_commit_error(member_id=member_id, generation=1) is OK
    world.pass_ms(1)
    assert world.heartbeat(member_id, 1) is ErrorCode.unknown_member_id


def test_too_much_metadata_refuses_one_partition() -> None:
    world = World()
    call = world.txn_commit({T0: (1, "x" * 4097), ("t", 1): (2, "x" * 4096), ("t", 2): (3, "é" * 4096)})
    too_large = ErrorCode.offset_metadata_too_large
    assert commit_errors(call) == {T0: too_large, ("t", 1): OK, ("t", 2): OK}
    world.end_transaction(commit=True)
    assert world.fetch() == {("t", 1): (2, OK), ("t", 2): (3, OK)}


def test_a_commit_of_which_nothing_is_left_writes_nothing() -> None:
    world = World()
    assert world.txn_commit_error(offsets={T0: (1, "x" * 4097)}) is ErrorCode.offset_metadata_too_large
    assert list(world.txn_commit({}).response.topics) == []
    assert world.log.batches == []
    assert world.listed() == {}


def test_what_does_not_exist_is_refused_first_and_each_topic_named_once() -> None:
    world = World()
    request = TxnOffsetCommitRequest(
        group_id="g",
        producer_id=1,
        topics=[
            TxnOffsetCommitRequestTopic(name, [TxnOffsetCommitRequestPartition(each) for each in partitions])
            for name, partitions in (("t", (0, 9)), ("nope", (0, 1)), ("t", (1, -1)), ("t2", ()))
        ],
    )
    response = world.ask(at_version(request, 5)).response
    told = [
        (topic.name, [(each.partition_index, each.error_code) for each in topic.partitions])
        for topic in response.topics
    ]
    assert told == [
        ("t", [(9, UNKNOWN_TOPIC), (-1, UNKNOWN_TOPIC), (0, OK), (1, OK)]),
        ("nope", [(0, UNKNOWN_TOPIC), (1, UNKNOWN_TOPIC)]),
    ]


def test_an_empty_group_id_is_refused_after_topics_were_looked_up() -> None:
    world = World()
    assert world.txn_commit_error(group="") is ErrorCode.invalid_group_id
    assert world.txn_commit_error(group="", offsets={("nope", 0): 1}) is UNKNOWN_TOPIC


@pytest.mark.parametrize(
    ("version", "told"),
    [(1, ErrorCode.coordinator_not_available), (2, ErrorCode.coordinator_load_in_progress)],
)
def test_old_clients_are_not_told_that_a_shard_loads(version: int, told: ErrorCode) -> None:
    world = World(elect=False)
    assert world.txn_commit_error(version=version) is ErrorCode.not_coordinator
    world.elect(0)
    assert world.txn_commit_error(version=version) is told


@pytest.mark.parametrize(
    ("verification", "version", "told"),
    [
        (ErrorCode.transaction_abortable, 3, ErrorCode.invalid_txn_state),
        (ErrorCode.transaction_abortable, 4, ErrorCode.transaction_abortable),
        (ErrorCode.producer_fenced, 5, ErrorCode.invalid_producer_epoch),
        (ErrorCode.invalid_producer_id_mapping, 5, ErrorCode.invalid_producer_id_mapping),
        (ErrorCode.concurrent_transactions, 5, ErrorCode.concurrent_transactions),
        (ErrorCode.network_exception, 5, ErrorCode.coordinator_load_in_progress),
        (ErrorCode.network_exception, 1, ErrorCode.coordinator_not_available),
        (ErrorCode.not_coordinator, 5, ErrorCode.not_coordinator),
    ],
)
def test_what_the_transaction_coordinator_says_is_put_into_the_words_of_the_version(
    verification: ErrorCode, version: int, told: ErrorCode
) -> None:
    world = World()
    request = TxnOffsetCommitRequest(
        group_id="g",
        topics=[
            TxnOffsetCommitRequestTopic(
                "t", [TxnOffsetCommitRequestPartition(0), TxnOffsetCommitRequestPartition(9)]
            )
        ],
    )
    response = world.coordinator.txn_commit_refusal(at_version(request, version), verification)
    assert response is not None
    (topic,) = response.topics
    assert [(each.partition_index, each.error_code) for each in topic.partitions] == [
        (9, UNKNOWN_TOPIC),
        (0, told),
    ]


def test_only_a_request_that_may_be_handled_is_worth_a_verification() -> None:
    world = World()

    def refusal(group: str, topic: str) -> object:
        request = TxnOffsetCommitRequest(
            group_id=group, topics=[TxnOffsetCommitRequestTopic(topic, [TxnOffsetCommitRequestPartition(0)])]
        )
        return world.coordinator.txn_commit_refusal(request)

    assert refusal("g", "t") is None
    assert refusal("g", "nope") is not None
    assert refusal("", "t") is not None
    world.coordinator.shards.stop()
    assert refusal("g", "t") is not None


def mixed(world: World) -> list[CommitsMixed]:
    return [event for event in world.events if isinstance(event, CommitsMixed)]


@pytest.mark.parametrize("plain_first", [True, False])
def test_a_group_that_mixes_plain_and_transactional_commits_is_reported_once(plain_first: bool) -> None:
    world = World()
    (member_id,) = world.stable(1)
    first, second = (world.commit, world.txn_commit) if plain_first else (world.txn_commit, world.commit)
    first(member_id=member_id, generation=1)
    first(member_id=member_id, generation=1)
    assert mixed(world) == []
    for _ in range(2):
        second(member_id=member_id, generation=1)
        first(member_id=member_id, generation=1)
    (event,) = mixed(world)
    assert (event.generation, event.member_id) == (1, member_id)
    assert "from consumers as well as transactional producers in generation 1" in event.line()
    assert event.is_warning


def test_commits_of_different_generations_are_not_mixed() -> None:
    world = World()
    (member_id,) = world.stable(1)
    world.commit(member_id=member_id, generation=1)
    world.join(member_id)
    world.settle([member_id])
    world.txn_commit(member_id=member_id, generation=2)
    assert mixed(world) == []


def test_a_commit_that_was_refused_is_no_sign_of_mixing() -> None:
    world = World()
    world.commit()
    world.log.refuse_with = ErrorCode.message_too_large
    world.txn_commit()
    assert mixed(world) == []
    world.log.refuse_with = None
    world.txn_commit()
    assert len(mixed(world)) == 1
