"""Twenty tests of what goes wrong with Kafka, each in milliseconds: a poison pill, a zombie, a lost answer.

Run it: `pytest examples/kafka_tests.py`, or `python examples/kafka_tests.py`. `klamm_broker` is a fixture of
klamm; its clock is stopped here, so that hours pass only where a test says so.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest

import klamm
from klamm.testing import Broker, assert_consumed_exactly_once

HOUR_MS = 3_600_000


@pytest.fixture
def broker(klamm_broker: Broker) -> Iterator[Broker]:
    """A broker of its own for each test, on a clock that moves only with the test."""
    with klamm_broker.clock.frozen():
        with klamm.Admin(bootstrap_servers=klamm_broker.bootstrap) as admin:
            admin.create_topics({"orders": 2, "dead-letters": 1, "totals": 1})
        yield klamm_broker


def a_producer(broker: Broker, **settings: Any) -> klamm.Producer:
    return klamm.Producer(bootstrap_servers=broker.bootstrap, **settings)


def a_consumer(broker: Broker, name: str = "anna", **settings: Any) -> klamm.Consumer[bytes, bytes]:
    return klamm.Consumer(
        "orders",
        bootstrap_servers=broker.bootstrap,
        group_id="billing",
        client_id=name,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        **settings,
    )


def order(broker: Broker, *values: str, **settings: Any) -> None:
    """Put orders into the topic."""
    with a_producer(broker, **settings) as producer:
        for value in values:
            producer.send("orders", value, partition=0)
        producer.flush()


def values_of(records: Any) -> list[str]:
    return [record.value.decode() for record in records]


def settle(broker: Broker, *consumers: klamm.Consumer[Any, Any]) -> None:
    """Let the members of a group find their partitions."""
    for _ in range(20):
        for consumer in consumers:
            consumer.poll(1)
        group = broker.group("billing")
        if group.state == "Stable" and sum(map(bool, group.assignment.values())) == len(consumers):
            return
    raise AssertionError(broker.story("billing"))


# --- records that harm, and processing that crashes -------------------------------------------------------


def bill(broker: Broker, count: int) -> list[int]:
    """The code under test: what is no number goes to the dead letters."""
    billed: list[int] = []
    with a_consumer(broker) as consumer, a_producer(broker) as producer:
        for record in consumer.consume(count, timeout=30):
            try:
                billed.append(int(record.value))
            except ValueError:
                producer.send("dead-letters", record.value).result()
            consumer.commit()
    return billed


def test_a_poison_pill_is_set_aside_and_the_rest_is_billed(broker: Broker) -> None:
    order(broker, "1", "poison", "3")
    assert bill(broker, 3) == [1, 3]
    assert values_of(broker.records("dead-letters")) == ["poison"]
    assert broker.group("billing").total_lag == 0


def test_what_was_not_committed_before_a_crash_is_processed_again(broker: Broker) -> None:
    order(broker, "1", "2")
    with a_consumer(broker) as crashed:
        assert values_of(crashed.consume(2, timeout=30)) == ["1", "2"]  # and then no commit
    with a_consumer(broker) as next_one:
        assert values_of(next_one.consume(2, timeout=30)) == ["1", "2"]


def test_what_was_committed_before_a_crash_is_not_processed_at_all(broker: Broker) -> None:
    order(broker, "1", "2")
    with a_consumer(broker) as crashed:
        crashed.consume(2, timeout=30)
        crashed.commit()  # and then no processing
    with a_consumer(broker) as next_one:
        assert values_of(next_one.consume(2, timeout=5)) == []


# --- answers that are lost, leaders and coordinators that move --------------------------------------------


def test_a_retry_after_a_lost_answer_makes_no_duplicate(broker: Broker) -> None:
    broker.faults.lose("Produce", topic="orders", times=1)
    order(broker, "1", "2")
    assert values_of(broker.records("orders")) == ["1", "2"]


def test_without_idempotence_it_does(broker: Broker) -> None:
    broker.faults.drop("Produce", topic="orders", when="after", times=1)
    order(broker, "1", enable_idempotence=False)
    assert values_of(broker.records("orders")) == ["1", "1"]


def test_a_leader_that_moves_keeps_the_order(broker: Broker) -> None:
    numbers = [str(number) for number in range(20)]
    with a_producer(broker, batch_size=1) as producer:
        producer.send("orders", "first", partition=0).result()
        broker.faults.fail("Produce", topic="orders", error="NOT_LEADER_OR_FOLLOWER", times=3)
        for number in numbers:
            producer.send("orders", number, partition=0)
        producer.flush()
    assert values_of(broker.records("orders")) == ["first", *numbers]


def test_a_coordinator_that_moves_costs_a_commit_no_more_than_a_retry(broker: Broker) -> None:
    order(broker, "1")
    fault = broker.faults.fail("OffsetCommit", group="billing", error="NOT_COORDINATOR", times=2)
    assert bill(broker, 1) == [1]
    assert fault.count == 2
    assert broker.group("billing").total_lag == 0


def test_a_broker_that_hangs_ends_in_an_error_that_names_the_time(broker: Broker) -> None:
    with (
        a_producer(broker, delivery_timeout_ms=10_000, request_timeout_ms=3_000) as producer,
        broker.faults.hang("Produce"),
        pytest.raises(klamm.KlammError, match="10000"),
    ):
        producer.send("orders", "1").result()


def test_what_was_acknowledged_survives_kill_9(broker: Broker) -> None:
    order(broker, "1", "2")
    broker.kill()
    broker.restart()
    assert values_of(broker.records("orders")) == ["1", "2"]


def test_a_full_disk_is_an_error_and_not_a_loss(broker: Broker) -> None:
    order(broker, "1")
    with (
        a_producer(broker, delivery_timeout_ms=10_000, request_timeout_ms=3_000) as producer,
        broker.faults.fill_disk(),
        pytest.raises(klamm.KlammError),
    ):
        producer.send("orders", "2", partition=0).result()
    broker.restart()
    assert values_of(broker.records("orders"))[0] == "1"


# --- groups ----------------------------------------------------------------------------------------------


def test_two_members_share_the_partitions(broker: Broker) -> None:
    with a_consumer(broker, "anna") as anna, a_consumer(broker, "bert") as bert:
        settle(broker, anna, bert)
        assert [len(owned) for owned in broker.group("billing").assignment.values()] == [1, 1]


def test_the_partitions_of_a_member_that_died_go_to_the_survivor(broker: Broker) -> None:
    with a_consumer(broker, "anna") as anna, a_consumer(broker, "bert") as bert:
        settle(broker, anna, bert)
        with broker.faults.drop(client_id="bert"):  # the network cable of bert's machine
            anna.poll(50)  # session.timeout.ms is 45 s
            assert broker.group("billing").members == ("anna",)
            assert len(anna.assignment()) == 2
        assert "bert" in broker.story("billing")


def test_a_batch_that_takes_too_long_cannot_be_committed(broker: Broker) -> None:
    order(broker, "1")
    with a_consumer(broker, max_poll_interval_ms=60_000) as slow:
        slow.consume(1, timeout=30)
        broker.clock.advance("90s")  # the processing
        assert broker.group("billing").members == ()
        with pytest.raises(klamm.CommitFailedError):
            slow.commit()


def test_a_static_member_restarts_without_a_rebalance(broker: Broker) -> None:
    with a_consumer(broker, "anna", group_instance_id="anna") as anna:
        settle(broker, anna)
        before = broker.story("billing").count("Preparing to rebalance")
    broker.clock.advance("20s")  # a deployment
    with a_consumer(broker, "anna", group_instance_id="anna") as anna:
        settle(broker, anna)
    assert broker.story("billing").count("Preparing to rebalance") == before


def test_a_listener_saves_its_work_before_partitions_are_revoked(broker: Broker) -> None:
    order(broker, "1", "2")
    with a_consumer(broker, "anna") as anna:
        anna.subscribe(["orders"], on_revoke=lambda _partitions: anna.commit())
        anna.consume(2, timeout=30)
        with a_consumer(broker, "bert") as bert:
            settle(broker, anna, bert)
            assert broker.group("billing").total_lag == 0


# --- transactions ----------------------------------------------------------------------------------------


def test_records_of_an_aborted_transaction_are_never_seen(broker: Broker) -> None:
    with a_producer(broker, transactional_id="tx") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("orders", "1").result()
        producer.abort_transaction()
    order(broker, "2")
    assert values_of(broker.records("orders")) == ["2"]


def test_a_zombie_producer_is_fenced(broker: Broker) -> None:
    with (
        a_producer(broker, transactional_id="tx") as zombie,
        a_producer(broker, transactional_id="tx") as new,
    ):
        zombie.init_transactions()
        zombie.begin_transaction()
        zombie.send("orders", "from the zombie").result()
        new.init_transactions()
        with pytest.raises(klamm.ProducerFencedError):
            zombie.commit_transaction()
    assert broker.records("orders") == []


def test_an_abandoned_transaction_holds_readers_up_until_it_times_out(broker: Broker) -> None:
    with a_producer(broker, transactional_id="tx", transaction_timeout_ms=60_000) as abandoned:
        abandoned.init_transactions()
        abandoned.begin_transaction()
        abandoned.send("orders", "never", partition=0).result()
        order(broker, "behind it")
        assert broker.records("orders") == []
        broker.clock.advance("75s")
        assert values_of(broker.records("orders")) == ["behind it"]


def add_up(broker: Broker, crash_after: int) -> None:
    """The code under test: read an order, write a total, commit both in one transaction."""
    with (
        a_consumer(broker, isolation_level="read_committed") as consumer,
        a_producer(broker, transactional_id="totals") as producer,
    ):
        producer.init_transactions()
        for number, record in enumerate(consumer.consume(20, timeout=5)):
            producer.begin_transaction()
            producer.send("totals", record.value).result()
            if number == crash_after:
                return
            place = {klamm.TopicPartition(record.topic, record.partition): record.offset + 1}
            producer.send_offsets_to_transaction(place, consumer.group_metadata())
            producer.commit_transaction()


def test_each_order_counts_exactly_once_over_crashes(broker: Broker) -> None:
    order(broker, *map(str, range(10)))
    for crash_after in (2, 0, 3, 99):
        add_up(broker, crash_after)
    assert_consumed_exactly_once(values_of(broker.records("orders")), values_of(broker.records("totals")))


# --- time ------------------------------------------------------------------------------------------------


def test_retention_deletes_what_was_not_read_in_time(broker: Broker) -> None:
    with klamm.Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.create_topics([klamm.NewTopic("clicks", config={"retention.ms": str(HOUR_MS)})])
    with a_producer(broker) as producer:
        producer.send("clicks", "old").result()
        broker.clock.advance("1h10m")
        producer.send("clicks", "new").result()
    assert values_of(broker.records("clicks")) == ["new"]


def test_a_group_that_is_away_for_too_long_loses_its_place(broker: Broker) -> None:
    order(broker, "1")
    assert bill(broker, 1) == [1]
    broker.clock.advance("6d")
    assert broker.group("billing").committed
    broker.clock.advance("2d")
    assert not broker.group("billing").committed


if __name__ == "__main__":
    # pytest would like to import klamm, whose plugin it found, by itself.
    is_known = ["-W", "ignore:Module already imported"]
    sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", *is_known, __file__]))
