"""What a transactional producer asks, in which order, with which identity and sequence."""

from __future__ import annotations

import pytest

from klamm.client.producer.transactions.handover import OpenTransaction
from klamm.client.producer.transactions.states import ProducerPhase
from klamm.errors import IllegalStateError, KlammTimeoutError, TransactionAbortedError
from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode
from unit.client.producer.transactions.world import TransactionWorld
from unit.client.producer.world import T0, T1, header


def written(world: TransactionWorld) -> list[tuple[int, int, int]]:
    """(epoch, partition, base sequence) of the Produce requests that wait for an answer."""
    return [
        (head.producer_epoch, item.index, head.base_sequence)
        for asked in world.requests
        for topic in asked.request.topic_data
        for item in topic.partition_data
        for head in (header(asked, item.index),)
    ]


def deliver(world: TransactionWorld) -> None:
    while world.requests:
        world.answer(world.requests[0])


@pytest.mark.parametrize("version", [1, 2])
def test_initializing_finds_the_coordinator_and_gets_an_identity(version: int) -> None:
    world = TransactionWorld(version)
    assert world.conversation == [ApiKey.FIND_COORDINATOR, ApiKey.INIT_PRODUCER_ID]
    assert world.asked[0].request.key_type == 1
    request = world.asked[1].request
    assert (request.transactional_id, request.transaction_timeout_ms, request.producer_id) == (
        "orders-1",
        60_000,
        -1,
    )
    assert world.manager.state is ProducerPhase.READY
    assert world.manager.version == version


def test_v2_asks_nothing_but_produce_and_end() -> None:
    world = TransactionWorld(2)
    world.begin()
    world.send("a", T0)
    world.send("b", T1)
    assert {asked.version for asked in world.requests} == {13}
    assert world.requests[0].request.transactional_id == "orders-1"
    assert header(world.requests[0]).is_transactional
    done = world.commit()
    assert not done.is_done
    deliver(world)
    assert done.result() is None
    assert world.conversation[2:] == [ApiKey.END_TXN]
    assert world.last(ApiKey.END_TXN).version == 5
    assert world.last(ApiKey.END_TXN).request.committed


def test_v2_takes_the_next_epoch_from_the_answer_and_counts_from_0() -> None:
    world = TransactionWorld(2)
    for epoch in (0, 1):
        world.begin()
        world.send("a")
        assert written(world) == [(epoch, 0, 0)]
        deliver(world)
        world.send("b")
        assert written(world) == [(epoch, 0, 1)]
        world.commit()
        deliver(world)
    assert world.manager.state is ProducerPhase.READY


def test_v1_adds_each_partition_once_before_anything_is_sent_to_it() -> None:
    world = TransactionWorld(1)
    world.begin()
    world.held.add(ApiKey.ADD_PARTITIONS_TO_TXN)
    world.send("a")
    assert world.requests == []
    world.held.clear()
    world.run()
    assert written(world) == [(0, 0, 0)]
    assert world.requests[0].version == 11
    deliver(world)
    world.send("b")
    deliver(world)
    world.send("c", T1)
    assert world.conversation.count(ApiKey.ADD_PARTITIONS_TO_TXN) == 2
    added = world.last(ApiKey.ADD_PARTITIONS_TO_TXN)
    assert added.version == 3
    assert [list(topic.partitions) for topic in added.request.v3_and_below_topics] == [[1]]


def test_v1_keeps_epoch_and_sequences_from_one_transaction_to_the_next() -> None:
    world = TransactionWorld(1)
    for sequence in (0, 1):
        world.begin()
        world.send("a")
        assert written(world) == [(0, 0, sequence)]
        world.commit()
        deliver(world)
    assert world.last(ApiKey.END_TXN).version == 4
    assert world.conversation.count(ApiKey.ADD_PARTITIONS_TO_TXN) == 2


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("how", ["commit", "abort"])
def test_a_transaction_without_records_ends_without_a_request(version: int, how: str) -> None:
    world = TransactionWorld(version)
    world.begin()
    assert getattr(world, how)().result() is None
    assert ApiKey.END_TXN not in world.conversation
    assert world.manager.state is ProducerPhase.READY


def test_the_commit_waits_for_the_last_record_and_then_does_not_wait_for_the_program() -> None:
    world = TransactionWorld(2, linger_ms=1000)
    world.begin()
    world.send("a")
    assert world.requests == []
    done = world.commit()
    assert ApiKey.END_TXN not in world.conversation
    world.answer(world.requests[0])  # nothing lingers, and the answer alone brings EndTxn
    assert world.conversation[-1] is ApiKey.END_TXN
    assert done.is_done


@pytest.mark.parametrize(("version", "conversation"), [(1, [ApiKey.ADD_OFFSETS_TO_TXN]), (2, [])])
def test_offsets_go_to_the_group_coordinator_with_who_the_consumer_is(
    version: int, conversation: list[ApiKey]
) -> None:
    world = TransactionWorld(version)
    world.begin()
    assert world.send_offsets().result() is None
    assert world.conversation[2:] == [*conversation, ApiKey.FIND_COORDINATOR, ApiKey.TXN_OFFSET_COMMIT]
    sent = world.last(ApiKey.TXN_OFFSET_COMMIT)
    assert sent.version == (5 if version == 2 else 4)
    assert (sent.request.generation_id, sent.request.member_id) == (3, "member-1")
    assert sent.request.topics[0].partitions[0].committed_offset == 5
    world.send_offsets(6)
    assert world.conversation.count(ApiKey.ADD_OFFSETS_TO_TXN) == len(conversation)  # once is enough
    assert world.conversation.count(ApiKey.FIND_COORDINATOR) == 2
    assert world.commit().result() is None
    assert world.conversation[-1] is ApiKey.END_TXN


def test_aborting_drops_what_is_not_sent_and_waits_for_what_is() -> None:
    world = TransactionWorld(2, max_in_flight_requests_per_connection=1, batch_size=0)
    world.begin()
    sent, unsent = world.send("a"), world.send("b")
    done = world.abort()
    assert isinstance(unsent.exception(0), TransactionAbortedError)
    assert not done.is_done
    assert ApiKey.END_TXN not in world.conversation
    world.answer(world.requests[0])
    assert sent.exception(0) is None
    assert done.result() is None
    assert not world.last(ApiKey.END_TXN).request.committed


def test_v1_gets_a_new_epoch_after_a_batch_was_lost() -> None:
    world = TransactionWorld(1)
    world.begin()
    world.send("a")
    world.answer(world.requests[0], ErrorCode.invalid_record)
    assert world.manager.state is ProducerPhase.ABORTABLE_ERROR
    assert world.abort().result() is None
    assert world.conversation[-2:] == [ApiKey.END_TXN, ApiKey.INIT_PRODUCER_ID]
    bump = world.last(ApiKey.INIT_PRODUCER_ID).request
    assert (bump.producer_id, bump.producer_epoch) == (7, 0)
    world.begin()
    world.send("b")
    assert written(world) == [(1, 0, 0)]


def test_v2_gets_its_new_epoch_from_the_abort_alone() -> None:
    world = TransactionWorld(2)
    world.begin()
    world.send("a")
    world.answer(world.requests[0], ErrorCode.invalid_record)
    assert world.abort().result() is None
    assert world.conversation.count(ApiKey.INIT_PRODUCER_ID) == 1
    world.begin()
    world.send("b")
    assert written(world) == [(1, 0, 0)]


def test_a_coordinator_that_lost_the_producer_id_is_not_asked_to_abort() -> None:
    world = TransactionWorld(1)
    world.begin()
    world.refuse(ApiKey.ADD_PARTITIONS_TO_TXN, ErrorCode.invalid_producer_id_mapping)
    world.send("a")
    assert world.manager.state is ProducerPhase.ABORTABLE_ERROR
    assert world.abort().result() is None
    assert ApiKey.END_TXN not in world.conversation
    assert world.conversation[-1] is ApiKey.INIT_PRODUCER_ID


def test_a_batch_that_comes_again_keeps_its_number() -> None:
    world = TransactionWorld(2)
    world.begin()
    world.send("a")
    world.answer(world.requests[0], ErrorCode.not_enough_replicas)
    world.advance(100)
    assert written(world) == [(0, 0, 0)]
    assert world.manager.state is ProducerPhase.IN_TRANSACTION


def test_a_produce_that_meets_the_previous_transaction_is_repeated_soon() -> None:
    world = TransactionWorld(2, retry_backoff_ms=1000, retry_backoff_max_ms=1000)
    world.begin()
    world.send("a")
    world.answer(world.requests[0], ErrorCode.concurrent_transactions)
    world.advance(5)
    assert written(world) == [(0, 0, 0)]


def test_a_lost_connection_repeats_the_same_end() -> None:
    world = TransactionWorld(2)
    world.begin()
    world.send_offsets()
    world.held.add(ApiKey.END_TXN)
    done = world.commit()
    asked = world.transport.take(ApiKey.END_TXN)
    asked.link.events.lost(None)
    world.held.clear()
    for _ in range(20):
        world.advance(100)
    assert done.result() is None
    again = world.last(ApiKey.END_TXN).request
    assert (again.producer_id, again.producer_epoch, again.committed) == (
        asked.request.producer_id,
        asked.request.producer_epoch,
        True,
    )


def test_a_cluster_that_finalizes_v2_is_noticed_by_the_next_transaction() -> None:
    world = TransactionWorld(1)
    world.transport.features = {"transaction.version": 2}
    for link in list(world.transport.links):
        link.events.lost(None)
    world.advance(2000)
    world.begin()
    world.send_offsets()  # connects again
    world.advance(2000)
    assert world.manager.version == 1
    world.commit()
    world.begin()
    assert world.manager.version == 2


def test_records_before_begin_and_after_commit_are_refused_by_the_state() -> None:
    world = TransactionWorld(2)
    with pytest.raises(IllegalStateError, match="begin_transaction"):
        world.manager.check("send")
    world.begin()
    world.manager.check("send")
    world.commit()
    with pytest.raises(IllegalStateError, match="has no transaction"):
        world.manager.check("send")


def test_beginning_twice_changes_nothing() -> None:
    world = TransactionWorld(1)
    world.begin()
    world.send("a")
    with pytest.raises(IllegalStateError, match="is in a transaction"):
        world.begin()
    world.send("b")
    assert world.conversation.count(ApiKey.ADD_PARTITIONS_TO_TXN) == 1


def test_a_record_that_expires_ends_the_transaction() -> None:
    world = TransactionWorld(2, delivery_timeout_ms=40_000)
    world.begin()
    delivery = world.send("a")
    world.answer(world.requests[0], ErrorCode.not_enough_replicas)
    world.clock.advance(40_000)
    world.run()
    error = delivery.exception(0)
    assert isinstance(error, KlammTimeoutError)
    assert error.is_abortable
    assert world.manager.state is ProducerPhase.ABORTABLE_ERROR


@pytest.mark.parametrize("version", [1, 2])
def test_a_transaction_that_was_handed_over_goes_on_where_it_was(version: int) -> None:
    first = TransactionWorld(version)
    first.begin()
    first.send("a")
    handing = first.spawn(first.manager.hand_over(first.accumulator.begin_flush()))
    deliver(first)
    transaction = handing.result()
    assert transaction == OpenTransaction("orders-1", 7, 0, version, {T0: 1}, frozenset({T0}))
    assert first.manager.state is ProducerPhase.HANDED_OVER
    second = TransactionWorld(version, initialized=False)
    second.manager.resume(transaction)
    second.send("b")
    assert written(second) == [(0, 0, 1)]
    deliver(second)
    second.send("c", T1)
    assert written(second) == [(0, 1, 0)]
    done = second.commit()
    deliver(second)
    assert done.result() is None
    ended = second.last(ApiKey.END_TXN).request
    assert (ended.producer_id, ended.producer_epoch) == (7, 0)


def test_a_transaction_that_is_resumed_twice_counts_from_what_was_handed_over() -> None:
    world = TransactionWorld(2, initialized=False)
    handed = OpenTransaction("orders-1", 7, 0, 2)
    for partition in (T0, T1):
        world.manager.resume(handed)
        world.send("a", partition)
        assert written(world) == [(0, partition.partition, 0)]
        handing = world.spawn(world.manager.hand_over(world.accumulator.begin_flush()))
        deliver(world)
        assert handing.result().next_sequences == {partition: 1}


def test_whoever_ends_a_resumed_transaction_asks_the_coordinator_even_without_records() -> None:
    world = TransactionWorld(2, initialized=False)
    world.manager.resume(OpenTransaction("orders-1", 7, 0, 2))
    world.commit()
    assert ApiKey.END_TXN in world.conversation


def test_a_transaction_of_another_id_is_not_resumed() -> None:
    world = TransactionWorld(2, initialized=False)
    with pytest.raises(ValueError, match=r"orders-1.*bills"):
        world.manager.resume(OpenTransaction("bills", 7, 0, 2))
    assert world.manager.state is ProducerPhase.UNINITIALIZED


def test_two_phase_commit_is_asked_for_in_version_6_and_keeps_what_was_prepared() -> None:
    world = TransactionWorld(2, initialized=False, transaction_two_phase_commit_enable=True)
    world.ongoing = (7, 4)
    world.identity = (7, 4)
    assert world.initialize(keep_prepared=True).result() is None
    asked = world.last(ApiKey.INIT_PRODUCER_ID)
    assert asked.version == 6
    assert asked.request.enable2_pc
    assert asked.request.keep_prepared_txn
    assert world.manager.state is ProducerPhase.PREPARED
    assert str(world.manager.prepared) == "7:4"
    world.commit()
    ended = world.last(ApiKey.END_TXN).request
    assert (ended.producer_id, ended.producer_epoch, ended.committed) == (7, 5, True)


def test_a_prepared_transaction_is_written_and_open() -> None:
    world = TransactionWorld(2, transaction_two_phase_commit_enable=True)
    world.begin()
    world.send("a")
    preparing = world.spawn(world.manager.prepare(world.accumulator.begin_flush()))
    deliver(world)
    assert preparing.result() == (7, 0)
    assert ApiKey.END_TXN not in world.conversation
    with pytest.raises(IllegalStateError, match="prepared"):
        world.manager.check("send")
    assert world.commit().result() is None


def test_a_plain_producer_does_not_ask_for_what_two_phase_commit_needs() -> None:
    world = TransactionWorld(2)
    assert world.last(ApiKey.INIT_PRODUCER_ID).version == 5
