from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

import klamm
from klamm.testing import Broker


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as broker, broker.clock.frozen():
        yield broker


@pytest.fixture
def producer(broker: Broker) -> Iterator[klamm.Producer]:
    with klamm.Producer(bootstrap_servers=broker.bootstrap) as producer:
        producer.send("t", "first").result()
        yield producer


def values(broker: Broker) -> list[str]:
    with klamm.Consumer(
        "t", bootstrap_servers=broker.bootstrap, group_id="values", auto_offset_reset="earliest"
    ) as consumer:
        return [(record.value or b"").decode() for record in consumer.consume(1000, timeout=5)]


def test_a_request_fails_as_often_as_ordered_and_the_client_retries(
    broker: Broker, producer: klamm.Producer
) -> None:
    fault = broker.faults.fail("Produce", topic="t", error="NOT_LEADER_OR_FOLLOWER", times=2)
    assert producer.send("t", "second").result().offset == 1
    assert fault.count == 2
    assert list(broker.faults) == []


def test_a_commit_of_one_group_fails_and_that_of_another_does_not(broker: Broker) -> None:
    with klamm.Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.create_topics([klamm.NewTopic("t", 1)])
    fault = broker.faults.fail("OffsetCommit", group="billing", error="COORDINATOR_LOAD_IN_PROGRESS", times=2)
    for group, count in (("shipping", 0), ("billing", 2)):
        with klamm.Consumer(
            bootstrap_servers=broker.bootstrap, group_id=group, enable_auto_commit=False
        ) as consumer:
            consumer.assign([klamm.TopicPartition("t", 0)])
            consumer.commit({klamm.TopicPartition("t", 0): 0})
        assert fault.count == count
    assert [each.key for each in broker.faults.injected] == ["billing", "billing"]
    assert "COORDINATOR_LOAD_IN_PROGRESS" in broker.faults.injected[0].line()


@pytest.mark.parametrize("order", ["before", "after"])
def test_a_dropped_connection_costs_a_retry_and_no_duplicate(
    broker: Broker, producer: klamm.Producer, order: Any
) -> None:
    fault = broker.faults.drop("Produce", when=order, times=1)
    assert producer.send("t", "second").result().offset == 1
    assert fault.count == 1
    assert values(broker) == ["first", "second"]


def test_an_answer_that_is_cut_short_or_lost_is_asked_for_again(
    broker: Broker, producer: klamm.Producer
) -> None:
    broker.faults.cut("Produce", times=1)
    broker.faults.lose("Produce", times=1)
    assert producer.send("t", "second").result().offset == 1
    assert [each.outcome for each in broker.faults.injected] == ["response cut short", "response not sent"]
    assert values(broker) == ["first", "second"]


def test_behind_an_answer_that_is_lost_nothing_arrives_on_the_connection(broker: Broker) -> None:
    fault = broker.faults.lose("Produce", topic="t", times=1)
    with klamm.Producer(bootstrap_servers=broker.bootstrap, batch_size=1) as producer:
        for value in ("first", "second", "third"):  # sent before the answer to the first is missed
            producer.send("t", value)
        producer.flush()
    assert fault.count == 1
    assert values(broker) == ["first", "second", "third"]


def test_a_delay_is_on_the_brokers_clock(broker: Broker, producer: klamm.Producer) -> None:
    before = broker.clock.now()
    with broker.faults.delay("Produce", by="10s"):
        producer.send("t", "late").result()
    assert broker.clock.now() - before >= timedelta(seconds=10)
    before = broker.clock.now()
    producer.send("t", "in time").result()
    assert broker.clock.now() - before < timedelta(seconds=1)


def test_a_connection_that_hangs_goes_on_when_the_fault_is_lifted(
    broker: Broker, producer: klamm.Producer
) -> None:
    fault = broker.faults.hang("Produce", client_id="slow")
    with klamm.Producer(bootstrap_servers=broker.bootstrap, client_id="slow") as slow:
        delivery = slow.send("t", "slow")
        broker.clock.advance("5s")
        assert fault.count == 1
        assert not delivery.done()
        producer.send("t", "fast").result()
        fault.lift()
        delivery.result()
    assert values(broker) == ["first", "fast", "slow"]


def test_a_probability_is_repeatable(broker: Broker, producer: klamm.Producer) -> None:
    counts = []
    for _ in range(2):
        with broker.faults.fail("Produce", error="REQUEST_TIMED_OUT", probability=0.5, seed=7) as fault:
            for number in range(10):
                producer.send("t", str(number)).result()
            counts.append(fault.count)
    assert counts[0] == counts[1] > 0


def test_a_fault_is_for_its_partition_and_version_alone(broker: Broker) -> None:
    with klamm.Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.create_topics([klamm.NewTopic("t", 2)])
    by_partition = broker.faults.fail(
        "Produce", topic="t", partition=1, error="NOT_LEADER_OR_FOLLOWER", times=1
    )
    by_version = broker.faults.fail("Produce", version=3, error="NOT_LEADER_OR_FOLLOWER")
    with klamm.Producer(bootstrap_servers=broker.bootstrap) as producer:
        producer.send("t", "0", partition=0).result()
        assert by_partition.count == 0
        producer.send("t", "1", partition=1).result()
    assert (by_partition.count, by_version.count) == (1, 0)


def test_a_fetch_fails_by_topic(broker: Broker, producer: klamm.Producer) -> None:
    fault = broker.faults.fail("Fetch", topic="t", error="NOT_LEADER_OR_FOLLOWER", times=3)
    assert values(broker) == ["first"]
    assert fault.count == 3


def test_a_transaction_fails_by_its_id(broker: Broker) -> None:
    fault = broker.faults.fail(
        "InitProducerId", transactional_id="tx", error="CONCURRENT_TRANSACTIONS", times=1
    )
    with klamm.Producer(bootstrap_servers=broker.bootstrap, transactional_id="other") as other:
        other.init_transactions()
        assert fault.count == 0
    with klamm.Producer(bootstrap_servers=broker.bootstrap, transactional_id="tx") as producer:
        producer.init_transactions()
        assert fault.count == 1


def test_a_storage_error_of_one_topic_leaves_others_alone(broker: Broker, producer: klamm.Producer) -> None:
    with broker.faults.fail("Produce", topic="t", error="KAFKA_STORAGE_ERROR") as fault:
        delivery = producer.send("t", "second")
        assert producer.send("other", "x").result().offset == 0
        with pytest.raises(klamm.KlammError):
            delivery.result(5)
    assert fault.count > 0
    assert delivery.result().offset == 1


@pytest.mark.parametrize("end", [Broker.kill, Broker.cut_power, Broker.stop])
def test_what_was_acknowledged_survives_each_end(broker: Broker, producer: klamm.Producer, end: Any) -> None:
    address = broker.bootstrap
    for number in range(20):
        producer.send("t", str(number)).result()
    end(broker)
    assert not broker.is_running
    broker.restart()
    assert broker.bootstrap == address
    assert values(broker) == ["first", *map(str, range(20))]


def test_lifting_all_faults_ends_those_of_the_disk_too(broker: Broker, producer: klamm.Producer) -> None:
    broker.faults.fail("Produce", error="REQUEST_TIMED_OUT")
    broker.faults.fail_fsync()
    broker.faults.lift()
    assert producer.send("t", "second").result().offset == 1


@pytest.mark.parametrize(
    ("order", "message"),
    [
        ({"api": "OfsetCommit", "error": "NOT_COORDINATOR"}, "did you mean OffsetCommit"),
        ({"api": "Produce", "error": "NOT_LEADER"}, "did you mean NOT_LEADER_OR_FOLLOWER"),
        ({"api": "Produce", "error": "NONE"}, "unknown error 'NONE'"),
        ({"api": "Produce", "error": "NOT_COORDINATOR", "group": "g"}, "Produce requests have no group"),
        ({"api": "Heartbeat", "error": "NOT_COORDINATOR", "topic": "t"}, "Heartbeat requests have no topic"),
        ({"api": "Fetch", "error": "UNKNOWN_TOPIC_ID", "partition": 0}, "partition=0 without a topic"),
        ({"api": "Fetch", "error": "UNKNOWN_TOPIC_ID", "times": 0}, "invalid times 0"),
        ({"api": "Fetch", "error": "UNKNOWN_TOPIC_ID", "probability": 1.5}, "invalid probability 1.5"),
        ({"api": "Fetch", "error": "UNKNOWN_TOPIC_ID", "version": -1}, "invalid version -1"),
        (
            {"api": "Produce", "error": "NOT_COORDINATOR", "version": 99},
            "Produce has no version 99: expected",
        ),
    ],
)
def test_a_fault_that_makes_no_sense_is_refused(order: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Broker().faults.fail(**order)


def test_other_nonsense_is_refused() -> None:
    faults = Broker().faults
    with pytest.raises(TypeError, match="unknown selector 'topics'"):
        faults.lose("Fetch", topics="t")  # type: ignore[call-arg]  # what the test is about
    with pytest.raises(ValueError, match="'before' or 'after'"):
        faults.drop("Fetch", when="later")  # type: ignore[arg-type]  # what the test is about
    with pytest.raises(ValueError, match="invalid duration"):
        faults.delay("Fetch", by="soon")


def test_disk_faults_and_kill_need_a_broker_in_memory(tmp_path: Any) -> None:
    with Broker(data=tmp_path) as broker:
        with pytest.raises(RuntimeError, match="broker in memory"):
            broker.faults.fill_disk()
        with pytest.raises(RuntimeError, match="broker in memory"):
            broker.kill()
    with pytest.raises(RuntimeError, match="not running"):
        Broker().kill()
