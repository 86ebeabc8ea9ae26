"""Each error of each API is retried, ends the transaction, or ends the producer, and says which."""

from __future__ import annotations

import pytest

from klamm.client.producer.transactions.outcomes import ErrorOutcome, outcome_of
from klamm.client.producer.transactions.states import FOLLOWING, LEGAL, ProducerPhase, illegal, may_follow
from klamm.errors import CommitFailedError, IllegalStateError, KlammError, ProducerFencedError
from klamm.net.tasks import Promise
from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode
from unit.client.producer.transactions.world import TransactionWorld

E = ErrorCode
RETRIED = (
    E.coordinator_load_in_progress,
    E.coordinator_not_available,
    E.not_coordinator,
    E.request_timed_out,
    E.concurrent_transactions,
    E.unknown_topic_or_partition,
    E.unstable_offset_commit,
)
FATAL = (E.producer_fenced, E.invalid_producer_epoch, E.unsupported_version)
ASKS = {
    ApiKey.ADD_PARTITIONS_TO_TXN: (1, "partition"),
    ApiKey.ADD_OFFSETS_TO_TXN: (1, "offsets"),
    ApiKey.TXN_OFFSET_COMMIT: (2, "offsets"),
    ApiKey.END_TXN: (2, "end"),
}


def cause(world: TransactionWorld, api_key: ApiKey) -> Promise[None] | None:
    """Do what makes the producer ask this API."""
    kind = ASKS[api_key][1]
    world.begin()
    if kind == "partition":
        world.send("a")
        return None
    if kind == "end":
        world.send_offsets()
        return world.commit()
    return world.send_offsets()


def refused_with(api_key: ApiKey, code: int) -> tuple[TransactionWorld, KlammError]:
    world = TransactionWorld(ASKS[api_key][0])
    world.refuse(api_key, code)
    promise = cause(world, api_key)
    error = world.manager.error
    assert error is not None
    if promise is not None:
        assert promise.error is error
    return world, error


@pytest.mark.parametrize("code", RETRIED)
@pytest.mark.parametrize("api_key", ASKS)
def test_retriable_errors_repeat_the_same_request(api_key: ApiKey, code: int) -> None:
    world = TransactionWorld(ASKS[api_key][0])
    world.refuse(api_key, code)
    cause(world, api_key)
    for _ in range(5):
        world.advance(100)
    first, second = [asked for asked in world.asked if asked.api_key is api_key][:2]
    assert first.request == second.request
    assert world.manager.error is None


@pytest.mark.parametrize("code", [E.coordinator_not_available, E.not_coordinator])
@pytest.mark.parametrize("api_key", ASKS)
def test_a_coordinator_that_moved_is_looked_up_again(api_key: ApiKey, code: int) -> None:
    world = TransactionWorld(ASKS[api_key][0])
    world.refuse(api_key, code)
    before = world.conversation.count(ApiKey.FIND_COORDINATOR)
    cause(world, api_key)
    for _ in range(5):
        world.advance(100)
    group_lookups = (
        1 if api_key in (ApiKey.TXN_OFFSET_COMMIT, ApiKey.END_TXN, ApiKey.ADD_OFFSETS_TO_TXN) else 0
    )
    assert world.conversation.count(ApiKey.FIND_COORDINATOR) == before + group_lookups + 1


@pytest.mark.parametrize("code", FATAL)
@pytest.mark.parametrize("api_key", ASKS)
def test_fencing_ends_the_producer_whatever_it_asked(api_key: ApiKey, code: int) -> None:
    world, error = refused_with(api_key, code)
    assert error.is_fatal
    assert "close this producer" in str(error)
    assert isinstance(error, ProducerFencedError) == (code != E.unsupported_version)
    assert world.manager.state is ProducerPhase.FATAL_ERROR
    with pytest.raises(type(error)):
        world.manager.check("abort_transaction")


@pytest.mark.parametrize(
    ("api_key", "code"),
    [
        (ApiKey.ADD_PARTITIONS_TO_TXN, E.topic_authorization_failed),
        (ApiKey.ADD_PARTITIONS_TO_TXN, E.operation_not_attempted),
        (ApiKey.ADD_PARTITIONS_TO_TXN, E.invalid_producer_id_mapping),
        (ApiKey.ADD_PARTITIONS_TO_TXN, E.transaction_abortable),
        (ApiKey.ADD_OFFSETS_TO_TXN, E.group_authorization_failed),
        (ApiKey.ADD_OFFSETS_TO_TXN, E.unknown_producer_id),
        (ApiKey.TXN_OFFSET_COMMIT, E.fenced_instance_id),
        (ApiKey.TXN_OFFSET_COMMIT, E.group_authorization_failed),
        (ApiKey.TXN_OFFSET_COMMIT, E.illegal_generation),
        (ApiKey.TXN_OFFSET_COMMIT, E.unknown_member_id),
        (ApiKey.TXN_OFFSET_COMMIT, E.transaction_abortable),
        (ApiKey.END_TXN, E.transaction_abortable),
        (ApiKey.END_TXN, E.invalid_producer_id_mapping),
    ],
)
def test_an_abortable_error_says_so_and_aborting_mends_it(api_key: ApiKey, code: int) -> None:
    world, error = refused_with(api_key, code)
    assert error.is_abortable
    assert "call abort_transaction()" in str(error)
    assert world.manager.state is ProducerPhase.ABORTABLE_ERROR
    with pytest.raises(type(error)) as raised:
        world.manager.check("commit_transaction")
    assert raised.value is error
    with pytest.raises(IllegalStateError, match="call abort_transaction") as refused:
        world.manager.check("send")
    assert refused.value.is_abortable
    assert world.abort().result() is None
    world.begin()


@pytest.mark.parametrize(
    ("api_key", "code"),
    [
        (ApiKey.ADD_PARTITIONS_TO_TXN, E.invalid_txn_state),
        (ApiKey.ADD_PARTITIONS_TO_TXN, E.transactional_id_authorization_failed),
        (ApiKey.ADD_OFFSETS_TO_TXN, E.invalid_txn_state),
        (ApiKey.ADD_OFFSETS_TO_TXN, E.transactional_id_authorization_failed),
        (ApiKey.TXN_OFFSET_COMMIT, E.transactional_id_authorization_failed),
        (ApiKey.TXN_OFFSET_COMMIT, E.unsupported_for_message_format),
        (ApiKey.END_TXN, E.invalid_txn_state),
        (ApiKey.END_TXN, E.transactional_id_authorization_failed),
        (ApiKey.END_TXN, 4711),
    ],
)
def test_what_no_abort_can_mend_is_fatal(api_key: ApiKey, code: int) -> None:
    world, error = refused_with(api_key, code)
    assert error.is_fatal
    assert world.manager.state is ProducerPhase.FATAL_ERROR


def test_a_former_member_of_the_group_gets_the_error_of_a_failed_commit() -> None:
    _, error = refused_with(ApiKey.TXN_OFFSET_COMMIT, E.illegal_generation)
    assert isinstance(error, CommitFailedError)
    assert "rebalanced" in str(error)


@pytest.mark.parametrize(
    "code", [E.cluster_authorization_failed, E.transactional_id_authorization_failed, E.transaction_abortable]
)
def test_an_initialization_that_is_refused_may_be_tried_again(code: int) -> None:
    world = TransactionWorld(initialized=False)
    world.refuse(ApiKey.INIT_PRODUCER_ID, code)
    error = world.initialize().error
    assert isinstance(error, KlammError)
    assert error.is_abortable
    assert world.manager.state is ProducerPhase.UNINITIALIZED
    assert world.initialize().result() is None


@pytest.mark.parametrize("code", [E.invalid_transaction_timeout, E.producer_fenced, E.unsupported_version])
def test_an_initialization_that_cannot_succeed_is_fatal(code: int) -> None:
    world = TransactionWorld(initialized=False)
    world.refuse(ApiKey.INIT_PRODUCER_ID, code)
    error = world.initialize().error
    assert isinstance(error, KlammError)
    assert error.is_fatal
    assert world.manager.state is ProducerPhase.FATAL_ERROR


def test_initializing_waits_while_the_older_transaction_is_aborted() -> None:
    world = TransactionWorld(initialized=False)
    world.refuse(ApiKey.INIT_PRODUCER_ID, *[E.concurrent_transactions] * 3)
    done = world.initialize()
    for _ in range(5):
        world.advance(50)
    assert done.result() is None


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        (E.out_of_order_sequence_number, ErrorOutcome.ABORTABLE),
        (E.invalid_producer_epoch, ErrorOutcome.ABORTABLE),
        (E.invalid_txn_state, ErrorOutcome.ABORTABLE),
        (E.invalid_producer_id_mapping, ErrorOutcome.ABORTABLE),
        (E.transaction_abortable, ErrorOutcome.ABORTABLE),
        (E.topic_authorization_failed, ErrorOutcome.ABORTABLE),
        (E.producer_fenced, ErrorOutcome.FATAL),
        (E.cluster_authorization_failed, ErrorOutcome.FATAL),
        (E.transactional_id_authorization_failed, ErrorOutcome.FATAL),
    ],
)
def test_a_refused_batch_ends_the_transaction_or_the_producer(code: int, outcome: ErrorOutcome) -> None:
    assert outcome_of(ApiKey.PRODUCE, code) is outcome
    world = TransactionWorld()
    world.begin()
    delivery = world.send("a")
    world.answer(world.requests[0], code)
    error = delivery.exception(0)
    assert isinstance(error, KlammError)
    assert (error.is_abortable, error.is_fatal) == (
        outcome is ErrorOutcome.ABORTABLE,
        outcome is ErrorOutcome.FATAL,
    )
    expected = (
        ProducerPhase.ABORTABLE_ERROR if outcome is ErrorOutcome.ABORTABLE else ProducerPhase.FATAL_ERROR
    )
    assert world.manager.state is expected


def test_committing_raises_what_kept_a_record_back_and_aborting_still_works() -> None:
    world = TransactionWorld()
    world.begin()
    world.send("a")
    done = world.commit()
    world.answer(world.requests[0], E.invalid_record)
    error = done.error
    assert isinstance(error, KlammError)
    assert error.is_abortable
    assert ApiKey.END_TXN not in world.conversation
    assert world.abort().result() is None
    assert not world.last(ApiKey.END_TXN).request.committed


def test_the_error_of_the_refused_partition_counts_not_that_of_its_neighbours() -> None:
    from klamm.client.producer.transactions.requests import worst

    codes = [E.operation_not_attempted, E.topic_authorization_failed, E.operation_not_attempted]
    assert worst(ApiKey.ADD_PARTITIONS_TO_TXN, codes) == E.topic_authorization_failed
    assert worst(ApiKey.ADD_PARTITIONS_TO_TXN, [0, E.not_coordinator, E.producer_fenced]) == E.producer_fenced
    assert worst(ApiKey.ADD_PARTITIONS_TO_TXN, [0, 0]) == 0


def test_a_failed_producer_never_leaves_its_state() -> None:
    assert FOLLOWING[ProducerPhase.FATAL_ERROR] == frozenset()
    assert all(may_follow(state, ProducerPhase.FATAL_ERROR) for state in ProducerPhase)


@pytest.mark.parametrize("call", sorted(LEGAL))
@pytest.mark.parametrize("state", list(ProducerPhase))
def test_a_call_that_is_not_legal_says_what_to_do(call: str, state: ProducerPhase) -> None:
    world = TransactionWorld(initialized=False)
    world.manager.state = state
    if state in LEGAL[call]:
        world.manager.check(call)
        return
    with pytest.raises(IllegalStateError, match=rf"{call}\(\): the producer {state.value[:6]}"):
        world.manager.check(call)
    assert "; " in str(illegal(call, state))
    assert world.manager.state is state
