"""Produce in transactions: what the coordinator is asked, what its answers become, and what guards protect.

Numbers in parentheses are those of the scenarios in the specification of transactions.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import pytest

from internals.jar import Jar, JarClient
from internals.transactions import SmallCoordinator
from klamm.broker.partitions.markers import TransactionMarker
from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from klamm.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from klamm.protocol.types import TopicPartition
from klamm.storage import producer_state
from klamm.storage.log import EngineLog
from klamm.testing.requests import a_batch, a_produce

PRODUCER = 7
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
V1_OLD, V1, V2 = 10, 11, 12


@pytest.fixture
def jar() -> Iterator[Jar]:
    jar = Jar()
    jar.create_topic("t", partitions=2)
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


def log_of(jar: Jar, partition: int = 0) -> EngineLog:
    found = jar.services.partitions.get("t", partition)
    assert found is not None
    return cast(EngineLog, found.log)


def a_transactional(
    jar: Jar,
    sequence: int = 0,
    *,
    epoch: int = 0,
    partition: int = 0,
    producer_id: int = PRODUCER,
    transactional_id: str | None = "x",
    acks: int = -1,
) -> Any:
    batch = a_batch(
        jar, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, transactional=True
    )
    return a_produce(jar, batch, partition=partition, transactional_id=transactional_id, acks=acks)


def a_plain(jar: Jar, sequence: int, *, partition: int = 0) -> Any:
    batch = a_batch(jar, producer_id=PRODUCER, producer_epoch=0, base_sequence=sequence)
    return a_produce(jar, batch, partition=partition)


def send(client: JarClient, request: Any, version: int = V1) -> int:
    response = client.ask(ApiKey.PRODUCE, version, request)
    code: int = response.responses[0].partition_responses[0].error_code
    return code


def end(
    jar: Jar, *, epoch: int = 0, commits: bool = False, partition: int = 0, bumps_epoch: bool = False
) -> None:
    name = TopicPartition("t", partition)
    marker = TransactionMarker(PRODUCER, epoch, commits, 0, bumps_epoch=bumps_epoch)
    written = jar.services.markers.write(marker, [name])
    jar.loop.settle()
    assert written.response == {name: 0}


# --- what the coordinator is asked ------------------------------------------------------------------------


def test_the_first_batch_of_a_transaction_is_verified_and_the_next_are_not(
    jar: Jar, client: JarClient, coordinator: SmallCoordinator
) -> None:
    coordinator.begin("x", PRODUCER, 0, T0)
    assert [send(client, a_transactional(jar, sequence)) for sequence in range(3)] == [0, 0, 0]
    assert coordinator.asked == [("x", PRODUCER, 0, (T0,), False)]
    assert (log_of(jar).log_end_offset, log_of(jar).last_stable_offset) == (3, 0)


def test_a_partition_that_was_not_added_takes_nothing(
    jar: Jar, client: JarClient, coordinator: SmallCoordinator
) -> None:
    # (58)
    coordinator.begin("x", PRODUCER, 0, T1)
    assert send(client, a_transactional(jar), V1_OLD) == ErrorCode.invalid_txn_state
    assert send(client, a_transactional(jar), V1) == ErrorCode.transaction_abortable
    assert log_of(jar).log_end_offset == 0


def test_a_produce_of_transactions_v2_adds_its_partitions(
    jar: Jar, client: JarClient, coordinator: SmallCoordinator
) -> None:
    batches: dict[tuple[str, int], Any] = {
        name: a_batch(jar, producer_id=PRODUCER, transactional=True) for name in (T0, T1)
    }
    response = client.ask(ApiKey.PRODUCE, V2, a_produce(jar, batches=batches, transactional_id="x"))
    assert [line.error_code for topic in response.responses for line in topic.partition_responses] == [0, 0]
    assert coordinator.asked == [("x", PRODUCER, 0, (T0, T1), True)]


def test_acks_that_nobody_knows_are_noticed_after_the_coordinators_answer(
    jar: Jar, client: JarClient, coordinator: SmallCoordinator
) -> None:
    coordinator.begin("x", PRODUCER, 0, T1)
    assert send(client, a_transactional(jar, acks=2)) == ErrorCode.transaction_abortable
    assert send(client, a_transactional(jar, acks=2, partition=1)) == ErrorCode.invalid_required_acks
    assert (log_of(jar).log_end_offset, log_of(jar, 1).log_end_offset) == (0, 0)


def test_only_the_partitions_without_an_open_transaction_are_asked_about(
    jar: Jar, client: JarClient, coordinator: SmallCoordinator
) -> None:
    assert send(client, a_transactional(jar), V2) == 0
    batches: dict[tuple[str, int], Any] = {
        T0: a_batch(jar, producer_id=PRODUCER, base_sequence=1, transactional=True),
        T1: a_batch(jar, producer_id=PRODUCER, transactional=True),
    }
    client.ask(ApiKey.PRODUCE, V2, a_produce(jar, batches=batches, transactional_id="x"))
    assert coordinator.asked[1:] == [("x", PRODUCER, 0, (T1,), True)]
    assert (log_of(jar).log_end_offset, log_of(jar, 1).log_end_offset) == (2, 1)


def test_verification_can_be_switched_off_while_the_broker_runs(
    jar: Jar, client: JarClient, coordinator: SmallCoordinator
) -> None:
    change = AlterableConfig("transaction.partition.verification.enable", 0, "false")
    request = IncrementalAlterConfigsRequest([AlterConfigsResource(4, "", [change])])
    assert client.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request).responses[0].error_code == 0
    assert send(client, a_transactional(jar), V1) == 0
    assert coordinator.asked == []
    # What adds a partition is never left out
    assert send(client, a_transactional(jar, partition=1), V2) == 0
    assert coordinator.asked == [("x", PRODUCER, 0, (T1,), True)]


def test_what_adds_partitions_needs_transactions_of_version_1(
    jar: Jar, client: JarClient, coordinator: SmallCoordinator
) -> None:
    update = UpdateFeaturesRequest(feature_updates=[FeatureUpdateKey("transaction.version", 0, 3)])
    assert client.ask(ApiKey.UPDATE_FEATURES, 1, update).error_code == 0
    assert send(client, a_transactional(jar), V2) == ErrorCode.unsupported_version
    assert coordinator.asked == []
    coordinator.begin("x", PRODUCER, 0, T0)
    assert send(client, a_transactional(jar), V1) == 0


# --- what its answers become ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "oldest", "v1", "v2"),
    [
        (ErrorCode.transaction_abortable, 48, 120, 120),
        (ErrorCode.producer_fenced, 47, 47, 47),
        (ErrorCode.invalid_producer_id_mapping, 49, 49, 49),
        (ErrorCode.network_exception, 19, 19, 19),
        (ErrorCode.coordinator_load_in_progress, 19, 19, 19),
        (ErrorCode.coordinator_not_available, 19, 19, 19),
        (ErrorCode.not_coordinator, 19, 19, 19),
        (ErrorCode.transactional_id_authorization_failed, 53, 53, 53),
    ],
)
def test_the_coordinators_answer_becomes_what_the_version_knows(
    jar: Jar,
    client: JarClient,
    coordinator: SmallCoordinator,
    answer: ErrorCode,
    oldest: int,
    v1: int,
    v2: int,
) -> None:
    coordinator.answers_with = answer
    codes = [send(client, a_transactional(jar), version) for version in (V1_OLD, V1, V2)]
    assert codes == [oldest, v1, v2]
    assert log_of(jar).log_end_offset == 0


def test_without_a_coordinator_the_client_tries_again_and_succeeds_later(jar: Jar, client: JarClient) -> None:
    # (60)
    assert send(client, a_transactional(jar), V1) == ErrorCode.not_enough_replicas
    # What was sent behind it does not take its place
    assert send(client, a_transactional(jar, 1), V1) == ErrorCode.not_enough_replicas
    jar.services.verifier = SmallCoordinator()
    jar.services.verifier.begin("x", PRODUCER, 0, T0)
    assert send(client, a_transactional(jar, 1), V1) == ErrorCode.out_of_order_sequence_number
    assert [send(client, a_transactional(jar, sequence), V1) for sequence in (0, 1)] == [0, 0]


def test_a_busy_coordinator_is_asked_again_for_a_while(
    jar: Jar, client: JarClient, coordinator: SmallCoordinator
) -> None:
    # (61) Given a coordinator that still completes the transaction before
    coordinator.answers_with = ErrorCode.concurrent_transactions
    # When it is done in time, then the client notices nothing
    client.send(ApiKey.PRODUCE, V2, a_transactional(jar))
    jar.pass_ms(50)
    assert client.new_answers() == []
    coordinator.answers_with = ErrorCode.none
    jar.pass_ms(25)
    (answer,) = client.new_answers()
    assert answer.responses[0].partition_responses[0].error_code == 0
    assert len(coordinator.asked) == 7  # at 0, 1, 3, 7, 15, 31 and 51 ms
    # When it is not, then the client hears of it after 100 ms
    coordinator.answers_with = ErrorCode.concurrent_transactions
    client.send(ApiKey.PRODUCE, V2, a_transactional(jar, partition=1))
    jar.pass_ms(95)
    assert client.new_answers() == []
    jar.pass_ms(10)
    (answer,) = client.new_answers()
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.concurrent_transactions


@pytest.mark.parametrize("version", [V1_OLD, V1])
def test_a_busy_coordinator_is_not_asked_again_for_transactions_v1(
    jar: Jar, client: JarClient, coordinator: SmallCoordinator, version: int
) -> None:
    coordinator.answers_with = ErrorCode.concurrent_transactions
    assert send(client, a_transactional(jar), version) == ErrorCode.not_enough_replicas
    assert len(coordinator.asked) == 1


def test_a_refused_partition_does_not_stop_the_others_of_its_request(
    jar: Jar, client: JarClient, coordinator: SmallCoordinator
) -> None:
    coordinator.begin("x", PRODUCER, 0, T1)
    batches: dict[tuple[str, int], Any] = {
        name: a_batch(jar, producer_id=PRODUCER, transactional=True) for name in (T0, T1)
    }
    response = client.ask(ApiKey.PRODUCE, V1, a_produce(jar, batches=batches, transactional_id="x"))
    codes = [line.error_code for topic in response.responses for line in topic.partition_responses]
    assert codes == [ErrorCode.transaction_abortable, 0]
    assert (log_of(jar).log_end_offset, log_of(jar, 1).log_end_offset) == (0, 1)


def test_a_partition_that_the_coordinators_answer_leaves_out_is_not_confirmed(
    jar: Jar, client: JarClient, coordinator: SmallCoordinator
) -> None:
    coordinator.is_forgetful = True
    assert send(client, a_transactional(jar), V2) == ErrorCode.unknown_server_error
    assert log_of(jar).log_end_offset == 0


def test_a_refusal_closes_the_connection_of_a_client_that_wants_no_answer(
    jar: Jar, client: JarClient, coordinator: SmallCoordinator
) -> None:
    client.send(ApiKey.PRODUCE, V1, a_transactional(jar, acks=0))
    jar.loop.settle()
    assert client.is_closed
    other = jar.connect()
    coordinator.begin("x", PRODUCER, 0, T0)
    other.send(ApiKey.PRODUCE, V1, a_transactional(jar, acks=0))
    jar.loop.settle()
    assert not other.is_closed
    assert log_of(jar).log_end_offset == 1


# --- guards -----------------------------------------------------------------------------------------------


def test_an_approval_that_comes_after_the_abort_marker_is_worth_nothing(
    jar: Jar, client: JarClient, coordinator: SmallCoordinator
) -> None:
    # (59) Given a batch whose verification is on its way
    coordinator.begin("x", PRODUCER, 0, T0)
    coordinator.is_held = True
    client.send(ApiKey.PRODUCE, V1, a_transactional(jar))
    jar.loop.settle()
    # When the transaction is aborted before the approval arrives
    end(jar)
    coordinator.release()
    jar.loop.settle()
    # Then nothing is written behind the marker
    (answer,) = client.new_answers()
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.invalid_txn_state
    assert log_of(jar).log_end_offset == 1
    assert log_of(jar).last_stable_offset == 1


def test_markers_of_the_transaction_before_do_not_refuse_the_next_one(
    jar: Jar, client: JarClient, coordinator: SmallCoordinator
) -> None:
    # (61) Given a transaction v2, and the first batch of the next one while the first is being completed
    assert send(client, a_transactional(jar), V2) == 0
    coordinator.begin("x", PRODUCER, 1)
    coordinator.answers_with = ErrorCode.concurrent_transactions
    client.send(ApiKey.PRODUCE, V2, a_transactional(jar, epoch=1))
    jar.pass_ms(10)
    # When the marker comes meanwhile, and once more as its answer was lost
    end(jar, epoch=1, bumps_epoch=True)
    end(jar, epoch=1, bumps_epoch=True)
    coordinator.answers_with = ErrorCode.none
    jar.pass_ms(50)
    # Then the batch is part of the next transaction
    (answer,) = client.new_answers()
    assert answer.responses[0].partition_responses[0].error_code == 0
    assert log_of(jar).has_open_transaction(PRODUCER, 1)


def test_a_later_request_of_the_connection_waits_for_the_verification(
    jar: Jar, client: JarClient, coordinator: SmallCoordinator
) -> None:
    coordinator.begin("x", PRODUCER, 0, T0)
    coordinator.is_held = True
    for sequence in range(3):
        client.send(ApiKey.PRODUCE, V1, a_transactional(jar, sequence))
    jar.loop.settle()
    assert len(coordinator.asked) == 1
    coordinator.release()
    jar.loop.settle()
    answers = client.new_answers()
    assert [each.responses[0].partition_responses[0].base_offset for each in answers] == [0, 1, 2]


def test_first_batches_that_are_verified_at_once_share_a_flush(
    jar: Jar, client: JarClient, coordinator: SmallCoordinator
) -> None:
    coordinator.begin("x", PRODUCER, 0, T0, T1)
    flusher = jar.services.flusher
    rounds, flushes = flusher.rounds, flusher.flushes
    client.send_bytes(
        client.request(ApiKey.PRODUCE, V1, a_transactional(jar, partition=0))
        + client.request(ApiKey.PRODUCE, V1, a_transactional(jar, partition=1))
    )
    jar.loop.settle()
    codes = [each.responses[0].partition_responses[0].error_code for each in client.new_answers()]
    assert codes == [0, 0]
    assert (flusher.rounds - rounds, flusher.flushes - flushes) == (1, 2)


def test_two_connections_of_one_producer_may_wait_for_the_same_partition(
    jar: Jar, client: JarClient, coordinator: SmallCoordinator
) -> None:
    coordinator.begin("x", PRODUCER, 0, T0)
    coordinator.is_held = True
    other = jar.connect()
    client.send(ApiKey.PRODUCE, V1, a_transactional(jar, 0))
    other.send(ApiKey.PRODUCE, V1, a_transactional(jar, 1))
    jar.loop.settle()
    # The later batch is confirmed first: it must not begin the transaction
    coordinator.held.reverse()
    coordinator.release()
    jar.loop.settle()
    (first,), (second,) = client.new_answers(), other.new_answers()
    assert first.responses[0].partition_responses[0].error_code == 0
    assert second.responses[0].partition_responses[0].error_code == ErrorCode.out_of_order_sequence_number
    assert send(other, a_transactional(jar, 1)) == 0


def test_a_transaction_v2_begins_at_sequence_0_where_nothing_is_known(
    jar: Jar, client: JarClient, coordinator: SmallCoordinator
) -> None:
    # P12, 4.2 and later; transactions v1 may begin anywhere (11)
    assert send(client, a_transactional(jar, 5), V2) == ErrorCode.out_of_order_sequence_number
    assert send(client, a_transactional(jar, 0), V2) == 0
    coordinator.begin("x", PRODUCER, 0, T1)
    assert send(client, a_transactional(jar, 17, partition=1), V1) == 0


def test_a_failed_attempt_of_another_epoch_does_not_let_a_later_sequence_begin(
    jar: Jar, client: JarClient, coordinator: SmallCoordinator
) -> None:
    # Seen on Kafka: the lowest sequence that was refused is remembered, of whichever epoch
    assert send(client, a_transactional(jar, 0), V1) == ErrorCode.transaction_abortable
    assert send(client, a_transactional(jar, 0, epoch=1), V2) == ErrorCode.invalid_producer_epoch
    assert send(client, a_transactional(jar, 5), V2) == ErrorCode.out_of_order_sequence_number
    assert send(client, a_transactional(jar, 0), V2) == 0


def test_a_refused_beginning_of_another_epoch_holds_back_an_open_transaction(
    jar: Jar, client: JarClient, coordinator: SmallCoordinator
) -> None:
    # Seen on Kafka: what was refused at a lower sequence comes first, whatever its epoch
    assert [send(client, a_transactional(jar, sequence), V2) for sequence in (0, 1)] == [0, 0]
    assert send(client, a_transactional(jar, 0, epoch=1), V2) == ErrorCode.invalid_producer_epoch
    # A repeat is answered as ever
    assert send(client, a_transactional(jar, 1), V2) == 0
    assert send(client, a_transactional(jar, 2), V2) == ErrorCode.out_of_order_sequence_number
    assert send(client, a_plain(jar, 2)) == ErrorCode.out_of_order_sequence_number
    # until the transaction ends
    end(jar, commits=True)
    coordinator.begin("x", PRODUCER, 0)
    assert send(client, a_transactional(jar, 2), V2) == 0


@pytest.mark.parametrize("sequence", [2, 9])
def test_a_refused_beginning_at_the_next_sequence_or_above_holds_back_nothing(
    jar: Jar, client: JarClient, coordinator: SmallCoordinator, sequence: int
) -> None:
    # Seen on Kafka
    assert [send(client, a_transactional(jar, each), V2) for each in (0, 1)] == [0, 0]
    assert send(client, a_transactional(jar, sequence, epoch=1), V2) == ErrorCode.invalid_producer_epoch
    assert [send(client, a_transactional(jar, each), V2) for each in (2, 3, 4)] == [0, 0, 0]


def test_a_refused_beginning_holds_back_batches_outside_transactions(
    jar: Jar, client: JarClient, coordinator: SmallCoordinator
) -> None:
    # Seen on Kafka: of a producer that is known here, and of one that is not
    assert [send(client, a_plain(jar, each)) for each in (0, 1, 2)] == [0, 0, 0]
    assert send(client, a_transactional(jar, 1)) == ErrorCode.transaction_abortable
    assert send(client, a_plain(jar, 3)) == ErrorCode.out_of_order_sequence_number
    assert send(client, a_transactional(jar, 2, partition=1)) == ErrorCode.transaction_abortable
    codes = [send(client, a_plain(jar, each, partition=1)) for each in (7, 2, 3)]
    assert codes == [ErrorCode.out_of_order_sequence_number, 0, ErrorCode.out_of_order_sequence_number]


@pytest.mark.parametrize(
    ("version", "after_the_marker"), [(V1, 0), (V2, ErrorCode.out_of_order_sequence_number)]
)
def test_a_marker_of_its_own_epoch_ends_what_a_producer_of_v1_could_not_begin(
    jar: Jar, client: JarClient, coordinator: SmallCoordinator, version: int, after_the_marker: int
) -> None:
    # Seen on Kafka: the marker of a v2 transaction has the epoch of the next one, whose batches go on to wait
    assert [send(client, a_plain(jar, each)) for each in (0, 1, 2)] == [0, 0, 0]
    coordinator.begin("x", PRODUCER, 0, T0)
    assert send(client, a_transactional(jar, 7), version) == ErrorCode.out_of_order_sequence_number
    assert send(client, a_transactional(jar, 2), V1) == 0  # a duplicate
    end(jar, commits=True)
    coordinator.begin("x", PRODUCER, 0, T0)
    assert send(client, a_transactional(jar, 3), V1) == after_the_marker


def test_a_repeat_inside_the_transaction_is_answered_and_after_it_not_verified(
    jar: Jar, client: JarClient, coordinator: SmallCoordinator
) -> None:
    # P3, and P2 before it
    coordinator.begin("x", PRODUCER, 0, T0)
    assert [send(client, a_transactional(jar, 0)) for _ in range(2)] == [0, 0]
    assert log_of(jar).log_end_offset == 1
    end(jar, commits=True)
    coordinator.begin("x", PRODUCER, 0)
    assert send(client, a_transactional(jar, 0), V1_OLD) == ErrorCode.invalid_txn_state
    assert send(client, a_transactional(jar, 0), V1) == ErrorCode.transaction_abortable


def test_a_fenced_instance_can_write_no_more(
    jar: Jar, client: JarClient, coordinator: SmallCoordinator
) -> None:
    # (95, 52) Given a second instance, whose init aborted the first one's transaction with a higher epoch
    assert send(client, a_transactional(jar), V2) == 0
    end(jar, epoch=1)
    coordinator.begin("x", PRODUCER, 2)
    # When the first one sends on
    assert send(client, a_transactional(jar, 1), V2) == ErrorCode.invalid_producer_epoch
    assert send(client, a_transactional(jar, 0, epoch=2), V2) == 0


@pytest.mark.parametrize("version", [V1, V2])
def test_the_coordinator_is_not_asked_about_an_epoch_that_the_log_knows_to_be_old(
    jar: Jar, client: JarClient, coordinator: SmallCoordinator, version: int
) -> None:
    # The producer wrote outside a transaction, at a later epoch
    plain = a_batch(jar, producer_id=PRODUCER, producer_epoch=1, base_sequence=0)
    assert send(client, a_produce(jar, plain)) == 0
    response = client.ask(ApiKey.PRODUCE, version, a_transactional(jar))
    (line,) = response.responses[0].partition_responses
    assert (line.error_code, line.log_start_offset) == (ErrorCode.invalid_producer_epoch, -1)
    assert coordinator.asked == []


def test_after_a_v2_commit_the_old_epoch_is_fenced_and_the_new_one_begins_at_0(
    jar: Jar, client: JarClient, coordinator: SmallCoordinator
) -> None:
    # (48, 49)
    assert send(client, a_transactional(jar), V2) == 0
    end(jar, epoch=1, commits=True)
    coordinator.begin("x", PRODUCER, 1)
    assert send(client, a_transactional(jar, 1), V2) == ErrorCode.invalid_producer_epoch
    assert send(client, a_transactional(jar, 5, epoch=1), V2) == ErrorCode.out_of_order_sequence_number
    assert send(client, a_transactional(jar, 0, epoch=1), V2) == 0


def test_a_transactional_batch_without_a_transactional_id_is_not_authorized(
    jar: Jar, client: JarClient, coordinator: SmallCoordinator
) -> None:
    # (62), also while its transaction is open
    assert send(client, a_transactional(jar, transactional_id=None), V2) == 53
    assert send(client, a_transactional(jar), V2) == 0
    assert send(client, a_transactional(jar, 1, transactional_id=None), V2) == 53
    assert log_of(jar).log_end_offset == 1


def test_a_transactional_batch_without_a_producer_is_a_plain_one(
    jar: Jar, client: JarClient, coordinator: SmallCoordinator
) -> None:
    """As with Kafka: no verification, and it holds no reader back."""
    batch = a_batch(jar, producer_id=-1, producer_epoch=-1, base_sequence=-1, transactional=True)
    assert send(client, a_produce(jar, batch, transactional_id="x"), V2) == 0
    assert coordinator.asked == []
    assert log_of(jar).last_stable_offset == 1


def test_a_plain_batch_of_a_producer_with_an_open_transaction_is_refused(
    jar: Jar, client: JarClient, coordinator: SmallCoordinator
) -> None:
    # (63)
    assert send(client, a_transactional(jar), V2) == 0
    plain = a_produce(jar, a_batch(jar, producer_id=PRODUCER, base_sequence=1))
    assert send(client, plain, V2) == ErrorCode.invalid_txn_state


def test_what_failed_verifications_leave_behind_is_bounded(
    jar: Jar, client: JarClient, coordinator: SmallCoordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else any client could fill the memory with producer ids that do not exist."""
    monkeypatch.setattr(producer_state, "MAX_UNCONFIRMED", 10)
    for producer_id in range(100, 200):
        assert send(client, a_transactional(jar, producer_id=producer_id), V2) == 49
    producers = log_of(jar)._producers  # type: ignore[attr-defined]
    assert (len(producers), list(producers._verifications), producers._awaited) == (0, [*range(190, 200)], {})
    producers.expire(0, 1)
    assert producers._verifications == {}


def test_a_batch_behind_one_that_was_not_verified_does_not_replace_it(
    jar: Jar, client: JarClient, coordinator: SmallCoordinator
) -> None:
    # Given a first batch that the coordinator did not confirm, and a plain one of the same producer
    assert send(client, a_transactional(jar), V1_OLD) == ErrorCode.invalid_txn_state
    assert send(client, a_produce(jar, a_batch(jar, producer_id=PRODUCER, base_sequence=0)), V1) == 0
    # Then a transaction does not begin behind it
    assert send(client, a_transactional(jar, 1), V2) == ErrorCode.out_of_order_sequence_number


def test_a_client_that_leaves_during_the_verification_leaves_nothing_behind(
    jar: Jar, client: JarClient, coordinator: SmallCoordinator
) -> None:
    coordinator.is_held = True
    client.send(ApiKey.PRODUCE, V2, a_transactional(jar))
    jar.loop.settle()
    client.close()
    jar.loop.settle()
    coordinator.release()
    jar.loop.settle()
    (verification,) = log_of(jar)._producers._verifications.values()  # type: ignore[attr-defined]
    assert verification.requests == 0


def test_a_client_that_has_left_before_the_verification_leaves_nothing_behind(
    jar: Jar, client: JarClient, coordinator: SmallCoordinator
) -> None:
    # The second request is decided, and cancelled at once, when the connection is lost.
    coordinator.is_held = True
    client.send(ApiKey.PRODUCE, V2, a_transactional(jar))
    client.send(ApiKey.PRODUCE, V2, a_transactional(jar, partition=1))
    jar.loop.settle()
    client.close()
    jar.loop.settle()
    coordinator.release()
    jar.loop.settle()
    (verification,) = log_of(jar, 1)._producers._verifications.values()  # type: ignore[attr-defined]
    assert verification.requests == 0
