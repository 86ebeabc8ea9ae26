"""AddPartitionsToTxn, AddOffsetsToTxn and verification. Numbers are the specification's scenarios."""

from __future__ import annotations

from typing import Any

import pytest

from klamm.coordinator.transaction.states import State
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from klamm.protocol.types import TopicPartition
from unit.coordinator.transaction.driver import (
    FIRST_PRODUCER_ID,
    OUT_0,
    OUT_1,
    T,
    World,
    at_version,
    topics_of,
)

P = FIRST_PRODUCER_ID
NOWHERE = TopicPartition("nowhere", 0)
NONE, CONCURRENT = ErrorCode.none, ErrorCode.concurrent_transactions
ABORTABLE = ErrorCode.transaction_abortable


@pytest.mark.parametrize("is_loading", [True, False])
# scenario 35 of transactions
def test_a_shard_that_is_not_served_says_so(is_loading: bool) -> None:
    world = World(elect=False)
    if is_loading:
        world.elect()
    expected = ErrorCode.coordinator_load_in_progress if is_loading else ErrorCode.not_coordinator
    assert world.init().error is expected
    assert world.add_one((P, 0)) is expected
    assert world.add_one((P, 0), version=5) is expected
    assert world.add_offsets((P, 0)) is expected
    assert world.end((P, 0)).error is expected
    assert world.describe().error_code == expected


def test_an_empty_transactional_id_is_an_invalid_request() -> None:
    world = World()
    assert world.add_one((P, 0), transactional_id="") is ErrorCode.invalid_request
    assert world.end((P, 0), transactional_id="").error is ErrorCode.invalid_request
    assert world.describe("").error_code == ErrorCode.invalid_request


# scenario 36 of transactions
def test_an_unknown_transactional_id_has_no_producer() -> None:
    world = World()
    assert world.add_one((P, 0)) is ErrorCode.invalid_producer_id_mapping
    assert world.add_offsets((P, 0)) is ErrorCode.invalid_producer_id_mapping
    assert world.end((P, 0)).error is ErrorCode.invalid_producer_id_mapping
    assert world.verify((P, 0))[OUT_0] is ErrorCode.invalid_producer_id_mapping


@pytest.mark.parametrize(("version", "expected"), [(3, 90), (2, 90), (1, 47), (0, 47)])
# scenario 37 of transactions
def test_a_wrong_epoch_is_fenced_and_older_clients_hear_it_in_their_words(
    version: int, expected: int
) -> None:
    world = World()
    world.init()
    assert world.add_one((P + 1, 0), version=version) is ErrorCode.invalid_producer_id_mapping
    assert world.add_one((P, 1), version=version) == expected
    assert world.add_offsets((P, 1), version=version) == expected
    assert world.end((P, 1), version=version).error == expected


# scenario 38 of transactions
def test_one_missing_topic_and_nothing_is_added() -> None:
    world = World()
    identity = world.init().identity
    assert world.add(identity, OUT_0, NOWHERE) == {
        OUT_0: ErrorCode.operation_not_attempted,
        NOWHERE: ErrorCode.unknown_topic_or_partition,
    }
    assert world.add_one(identity, TopicPartition("out", 8)) is ErrorCode.unknown_topic_or_partition
    assert world.state_name() == "Empty"


# scenario 39 of transactions
def test_what_is_in_the_transaction_is_not_written_again() -> None:
    world = World()
    identity = world.open(OUT_0, OUT_1)
    before = len(world.written())
    assert world.add_one(identity, OUT_1) is NONE
    assert len(world.written()) == before


def test_the_first_partition_begins_the_transaction() -> None:
    world = World()
    identity = world.init().identity
    world.clock.advance(500)
    began_ms = world.clock.timestamp_ms()
    world.add_one(identity, OUT_0)
    world.clock.advance(500)
    world.add_one(identity, OUT_1)
    record = world.stored()
    assert record.state is State.ONGOING
    assert record.partitions == {OUT_0, OUT_1}
    assert (record.started_timestamp_ms, record.updated_timestamp_ms) == (began_ms, began_ms + 500)


# scenario 40 of transactions
def test_a_prepared_transaction_takes_nothing_until_it_is_complete() -> None:
    world = World()
    identity = world.open()
    world.holds_markers = True
    world.end(identity)
    assert world.add_one(identity) is CONCURRENT
    assert world.add_one((P + 1, 7)) is CONCURRENT  # pending comes before the identity
    assert world.add_offsets(identity) is CONCURRENT
    world.release_markers()
    assert world.add_one(identity) is NONE


def test_offsets_are_a_partition_of_their_topic_and_any_group_id_will_do() -> None:
    world = World()
    identity = world.init().identity
    assert world.add_offsets(identity, "g") is NONE
    assert world.stored().partitions == {TopicPartition("__consumer_offsets", ord("g") % 50)}
    assert world.add_offsets(identity, "") is NONE


@pytest.mark.parametrize(("version", "expected"), [(5, 120), (4, 120)])
def test_verifying_adds_nothing(version: int, expected: int) -> None:
    world = World()
    identity = world.init().identity
    assert world.add_one(identity, version=version, verify=True) == expected
    assert world.state_name() == "Empty"
    world.add_one(identity, OUT_0)
    assert world.add(identity, OUT_0, OUT_1, version=version, verify=True) == {OUT_0: NONE, OUT_1: expected}


def test_verifying_is_answered_by_state() -> None:
    world = World()
    identity = world.init().identity
    assert world.verify(identity, OUT_0) == {OUT_0: ABORTABLE}
    assert world.verify((P + 1, 0))[OUT_0] is ErrorCode.invalid_producer_id_mapping
    assert world.verify((P, 1))[OUT_0] is ErrorCode.producer_fenced
    world.add_one(identity)
    assert world.verify(identity, OUT_0, OUT_1) == {OUT_0: NONE, OUT_1: ABORTABLE}
    world.holds_markers = True
    world.end(identity)
    assert world.verify(identity, OUT_0) == {OUT_0: CONCURRENT}
    world.release_markers()
    assert world.verify(identity, OUT_0) == {OUT_0: ABORTABLE}


def test_a_broker_asks_for_several_transactions_at_once() -> None:
    world = World(partition_count=3)
    identities = {name: world.init(name).identity for name in ("a", "b", "c")}
    topics = topics_of((OUT_0, OUT_1))
    request = AddPartitionsToTxnRequest(
        transactions=[
            AddPartitionsToTxnTransaction("a", *identities["a"], False, topics),
            AddPartitionsToTxnTransaction("b", *identities["b"], True, topics),
            AddPartitionsToTxnTransaction("d", 1, 0, False, topics),
        ]
    )
    results = world.ask(at_version(request, 5)).response.results_by_transaction
    assert [each.transactional_id for each in results] == ["a", "b", "d"]
    codes = [
        {part.partition_error_code for part in topic.results_by_partition}
        for each in results
        for topic in each.topic_results
    ]
    assert codes == [{NONE}, {ABORTABLE}, {ErrorCode.invalid_producer_id_mapping}]
    assert world.ask(at_version(AddPartitionsToTxnRequest(), 5)).response.results_by_transaction == []


def results_of(
    world: World, version: int, identity: tuple[int, int], *, verify: bool = False, **more: int
) -> Any:
    """(topic, [(partition, error code)]) for each topic of the answer to names that are there twice."""
    topics = [
        AddPartitionsToTxnTopic("out", [0, 0]),
        AddPartitionsToTxnTopic("in", []),
        AddPartitionsToTxnTopic("out", [1, 0]),
        *(AddPartitionsToTxnTopic(name, [number]) for name, number in more.items()),
    ]
    request = AddPartitionsToTxnRequest([AddPartitionsToTxnTransaction(T, *identity, verify, topics)])
    if version < 4:
        request = AddPartitionsToTxnRequest([], T, *identity, topics)
    response = world.ask(at_version(request, version)).response
    results = response.results_by_topic_v3_and_below
    if version >= 4:
        results = response.results_by_transaction[0].topic_results
    return [
        (
            topic.name,
            [(part.partition_index, part.partition_error_code) for part in topic.results_by_partition],
        )
        for topic in results
    ]


@pytest.mark.parametrize("version", [3, 5])
def test_what_is_added_is_answered_as_it_is_named(version: int) -> None:
    world = World()
    identity = world.init().identity
    as_named = [("out", [(0, NONE), (0, NONE)]), ("in", []), ("out", [(1, NONE), (0, NONE)])]
    assert results_of(world, version, identity) == as_named


def test_a_client_adds_no_internal_partition() -> None:
    world = World()
    identity = world.init().identity
    offsets = TopicPartition("__consumer_offsets", 0)
    assert world.add(identity, OUT_0, NOWHERE, offsets) == {
        OUT_0: ErrorCode.operation_not_attempted,
        NOWHERE: ErrorCode.unknown_topic_or_partition,
        offsets: ErrorCode.topic_authorization_failed,
    }
    assert world.state_name() == "Empty"
    assert world.add_one(identity, offsets, version=4) is ErrorCode.none  # a broker does


def test_partitions_are_looked_at_before_the_transactional_id() -> None:
    world = World()
    errors = world.add((P, 0), OUT_0, NOWHERE, transactional_id="")
    assert errors[NOWHERE] is ErrorCode.unknown_topic_or_partition
    assert world.add((P, 0), OUT_0, transactional_id="") == {OUT_0: ErrorCode.invalid_request}


def test_what_is_named_twice_is_verified_once_and_a_topic_without_partitions_not_at_all() -> None:
    world = World()
    identity = world.init().identity
    once = [("out", [(0, ABORTABLE), (1, ABORTABLE)])]
    assert results_of(world, 5, identity, verify=True) == once


@pytest.mark.parametrize("version", [3, 5])
def test_partitions_that_are_not_there_are_named_once(version: int) -> None:
    world = World()
    identity = world.init().identity
    refused, unknown = ErrorCode.operation_not_attempted, ErrorCode.unknown_topic_or_partition
    once = [("out", [(0, refused), (1, refused)]), ("nowhere", [(0, unknown)])]
    assert results_of(world, version, identity, nowhere=0) == once


def test_a_record_says_which_protocol_the_client_used() -> None:
    world = World()
    identity = world.init().identity
    world.add_one(identity, OUT_0, version=3)
    assert world.stored().client_version == 0
    world.add_one(identity, OUT_1, version=5)
    assert world.stored().client_version == 2
    assert world.init().error is CONCURRENT
    world.init()
    assert world.stored().client_version == 2  # InitProducerId keeps it


def test_without_the_feature_a_produce_cannot_add_its_partitions() -> None:
    world = World(version=0)
    identity = world.init().identity
    assert world.add_one(identity, version=5) is ErrorCode.unsupported_version
    assert world.end(identity, version=5).error is ErrorCode.unsupported_version
    assert world.add_one(identity, version=3) is NONE
    assert world.written()[-1].previous_producer_id == -1  # value version 0 has no tags


def test_an_answer_waits_until_what_it_is_about_is_durable() -> None:
    world = World()
    identity = world.init().identity
    world.init("other")
    world.log.is_holding = True
    call = world.add_later(identity)
    assert not call.is_answered
    # Nothing but its own id makes a request wait.
    assert world.add_later((P + 1, 0), transactional_id="other", version=5, verify=True).is_answered
    assert not world.add_later(identity, version=5, verify=True).is_answered
    world.flush()
    assert call.is_answered


def test_adding_no_partitions_begins_a_transaction_as_in_kafka() -> None:
    world = World()
    identity = world.init().identity
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=T,
        v3_and_below_producer_id=identity[0],
        v3_and_below_producer_epoch=identity[1],
    )
    assert world.ask(at_version(request, 3)).response.results_by_topic_v3_and_below == []
    assert world.state_name() == "Ongoing"
    assert world.end(identity).error is NONE
    assert world.state_name() == "CompleteCommit"
    assert not world.markers


def test_a_transaction_too_large_for_the_log_is_an_error_and_stays_as_it_was() -> None:
    world = World()
    identity = world.open(OUT_0)
    world.log.max_batch_bytes = 10
    assert world.add_one(identity, OUT_1) is ErrorCode.unknown_server_error
    world.log.max_batch_bytes = None
    assert world.stored().partitions == {OUT_0}
    assert world.end(identity).error is NONE


def test_a_durable_ongoing_transaction_confirms_its_partitions_without_a_request() -> None:
    world = World()
    producer_id, epoch = world.init().identity
    world.log.is_holding = True
    world.add_later((producer_id, epoch), OUT_0)

    def confirms(*partitions: TopicPartition, epoch: int = epoch) -> bool:
        return world.coordinator.confirms(T, producer_id, epoch, partitions)

    assert not confirms(OUT_0)  # a crash could lose it
    world.flush()
    assert confirms(OUT_0)
    assert not confirms(OUT_0, OUT_1)
    assert not confirms(OUT_0, epoch=epoch + 1)
    assert not world.coordinator.confirms("other", producer_id, epoch, [OUT_0])
    world.log.is_holding = False
    world.end((producer_id, epoch))
    assert not confirms(OUT_0)


def test_a_coordinator_whose_log_is_gone_confirms_nothing() -> None:
    world = World()
    producer_id, epoch = world.init().identity
    world.log.is_holding = True
    world.add_later((producer_id, epoch), OUT_0)
    world.log.is_readable = False
    assert not world.coordinator.confirms(T, producer_id, epoch, [OUT_0])
    world.coordinator.shards.resign(0, 1)
    assert not world.coordinator.confirms(T, producer_id, epoch, [OUT_0])
