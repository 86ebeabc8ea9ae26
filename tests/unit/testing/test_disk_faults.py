from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from random import Random
from typing import Any

import pytest

import klamm
from klamm.clock import ManualClock
from klamm.storage.engines.simulated_disk import SimulatedFiles
from klamm.testing import Broker, Faults


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as broker, broker.clock.frozen():
        yield broker


@pytest.fixture
def producer(broker: Broker) -> Iterator[klamm.Producer]:
    with klamm.Producer(bootstrap_servers=broker.bootstrap) as producer:
        producer.send("t", "first").result()
        yield producer


def values(broker: Broker, topic: str = "t") -> list[str]:
    return [record.value.decode() for record in broker.records(topic) if record.value is not None]


def test_a_full_disk_takes_no_records_and_loses_none(broker: Broker, producer: klamm.Producer) -> None:
    with broker.faults.fill_disk():
        delivery = producer.send("t", "too many")
        with pytest.raises(klamm.KlammError):
            delivery.result(5)
    broker.restart()
    assert delivery.result().offset == 1
    assert values(broker) == ["first", "too many"]


@pytest.mark.parametrize("selected", [{}, {"topic": "t"}])
def test_a_partition_is_written_to_again_as_soon_as_the_disk_has_room(
    broker: Broker, producer: klamm.Producer, selected: dict[str, Any]
) -> None:
    with broker.faults.fill_disk(**selected):
        delivery = producer.send("t", "too many")
        with pytest.raises(klamm.KlammError):
            delivery.result(5)
    assert delivery.result(60).offset == 1
    broker.cut_power()
    broker.restart()
    assert values(broker) == ["first", "too many"]


def test_a_flush_that_fails_acknowledges_nothing(broker: Broker, producer: klamm.Producer) -> None:
    broker.faults.fail_fsync(times=1)
    assert producer.send("t", "second").result().offset == 1
    broker.cut_power()
    broker.restart()
    assert values(broker) == ["first", "second"]


def test_flushes_fail_as_often_as_ordered_and_the_story_has_each(
    broker: Broker, producer: klamm.Producer
) -> None:
    fault = broker.faults.fail_fsync(times=2)  # the flush, and that of the log without what was not flushed
    delivery = producer.send("t", "second")
    with pytest.raises(klamm.KlammError):
        delivery.result(5)
    assert (fault.count, fault.is_over) == (2, True)
    assert broker.story().splitlines().count("injected fault: flush to disk: input/output error") == 2
    assert [each.as_json()["request"] for each in broker.faults.injected] == ["flush", "flush"]
    broker.restart()
    assert delivery.result().offset == 1


def test_a_disk_that_is_full_for_one_write_costs_a_retry(broker: Broker, producer: klamm.Producer) -> None:
    fault = broker.faults.fill_disk(times=1)
    assert producer.send("t", "second").result().offset == 1
    assert (fault.count, fault.is_over) == (1, True)
    assert broker.story().splitlines().count("injected fault: write to disk: no space left on device") == 1
    assert values(broker) == ["first", "second"]


def test_a_disk_that_fails_now_and_then_does_so_in_the_same_way_in_each_run() -> None:
    def failures() -> list[int]:
        files = SimulatedFiles(Random(1), ManualClock())
        handle = files.open("/f", create=True)
        faults = Faults(ManualClock(), files, lambda _event: None)
        found = []
        with faults.fail_fsync(probability=0.3, seed=7, times=20) as fault:
            for number in range(100):
                try:
                    files.sync(handle)
                except OSError:
                    found.append(number)
        assert fault.count == len(found) == len(faults.injected) == 20
        files.sync(handle)
        return found

    assert failures() == failures() != list(range(20))


# --- of one topic ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["fill_disk", "fail_fsync"])
def test_a_disk_that_fails_for_one_topic_leaves_others_alone(
    broker: Broker, producer: klamm.Producer, kind: str
) -> None:
    with getattr(broker.faults, kind)(topic="t") as fault:
        delivery = producer.send("t", "second")
        assert [producer.send("other", str(number)).result().offset for number in range(3)] == [0, 1, 2]
        with pytest.raises(klamm.KlammError):
            delivery.result(5)
        assert producer.send("t-0", "not t's partition 0").result().offset == 0
    assert fault.count > 0
    broker.restart()
    assert delivery.result().offset == 1
    assert values(broker) == ["first", "second"]
    assert values(broker, "other") == ["0", "1", "2"]


def test_a_disk_fails_for_one_partition(broker: Broker) -> None:
    broker.create_topic("t", 2)
    with klamm.Producer(bootstrap_servers=broker.bootstrap) as producer:
        fault = broker.faults.fail_fsync(topic="t", partition=1, times=2)
        assert producer.send("t", "0", partition=0).result().offset == 0
        assert fault.count == 0
        delivery = producer.send("t", "1", partition=1)
        with pytest.raises(klamm.KlammError):
            delivery.result(5)
        assert producer.send("t", "2", partition=0).result().offset == 1
        assert (fault.count, fault.is_over) == (2, True)
        line = "injected fault: flush of t-1 to disk: input/output error"
        assert broker.story().splitlines() == [line, line]
        assert [each.as_json()["request"] for each in broker.faults.injected] == ["flush of t-1"] * 2
        assert "topic=t partition=1" in repr(fault)
        broker.restart()
        assert delivery.result().offset == 0


@pytest.mark.parametrize("kind", ["fill_disk", "fail_fsync"])
def test_a_disk_that_fails_once_for_a_topic_costs_a_retry(
    broker: Broker, producer: klamm.Producer, kind: str
) -> None:
    fault = getattr(broker.faults, kind)(topic="t", times=1)
    assert producer.send("t", "second").result().offset == 1
    assert (fault.count, fault.is_over) == (1, True)
    broker.cut_power()
    broker.restart()
    assert values(broker) == ["first", "second"]


def test_large_batches_are_written_to_their_segments_and_fail_too(broker: Broker) -> None:
    broker.create_topic("t")
    with klamm.Producer(bootstrap_servers=broker.bootstrap) as producer:
        fault = broker.faults.fill_disk(topic="t", times=1)
        large = b"x" * 500_000
        assert producer.send("other", large).result().offset == 0
        assert fault.count == 0
        assert producer.send("t", large).result().offset == 0
        assert fault.count == 1


@pytest.mark.parametrize("kind", ["fill_disk", "fail_fsync"])
def test_a_commit_fails_with_the_disk_of_the_offsets_topic(
    broker: Broker, producer: klamm.Producer, kind: str
) -> None:
    partition = klamm.TopicPartition("t", 0)
    with klamm.Consumer(
        bootstrap_servers=broker.bootstrap, group_id="g", enable_auto_commit=False
    ) as consumer:
        consumer.assign([partition])
        consumer.commit({partition: 1})
        fault = getattr(broker.faults, kind)(topic="__consumer_offsets", partition=0, times=1)
        assert producer.send("t", "second").result().offset == 1
        assert fault.count == 0
        consumer.commit({partition: 2})  # again, after the coordinator has loaded the group
        assert fault.count == 1
    broker.cut_power()
    broker.restart()
    assert broker.group("g").committed == {partition: 2}


@pytest.mark.parametrize("topic", ["t", "__transaction_state"])
@pytest.mark.parametrize("kind", ["fill_disk", "fail_fsync"])
def test_a_transaction_is_complete_or_aborted_when_one_of_its_logs_fails(kind: str, topic: str) -> None:
    with Broker() as broker:
        broker.create_topic("t", 1)
        committed: list[str] = []
        with klamm.Producer(bootstrap_servers=broker.bootstrap, transactional_id="tx") as producer:
            producer.init_transactions()
            for number in range(6):
                if number in (1, 3):
                    getattr(broker.faults, kind)(topic=topic, times=1)
                producer.begin_transaction()
                producer.send("t", str(number))
                producer.send("other", str(number))
                try:
                    producer.commit_transaction()
                except klamm.KlammError:
                    producer.abort_transaction()
                else:
                    committed.append(str(number))
        assert len(broker.faults.injected) == 2
        broker.cut_power()
        broker.restart()
        assert values(broker) == values(broker, "other") == committed


@pytest.mark.parametrize("seed", range(8))
def test_what_was_acknowledged_survives_faults_by_topic_and_a_power_failure(seed: int) -> None:
    random = Random(seed)
    topics = ("a", "b", "c")
    partition = klamm.TopicPartition("a", 0)
    sent: dict[str, list[tuple[str, klamm.Delivery]]] = {topic: [] for topic in topics}
    with (
        Broker(seed=seed) as broker,
        broker.clock.frozen(),
        klamm.Producer(bootstrap_servers=broker.bootstrap) as producer,
        klamm.Consumer(
            bootstrap_servers=broker.bootstrap, group_id="g", enable_auto_commit=False
        ) as consumer,
    ):
        for topic in topics:
            broker.create_topic(topic)
        consumer.assign([partition])
        committed = -1
        for number in range(80):
            if random.random() < 0.3:
                kind = random.choice((broker.faults.fill_disk, broker.faults.fail_fsync))
                kind(topic=random.choice((*topics, "__consumer_offsets")), times=random.randint(1, 3))
            for topic in random.sample(topics, 2):
                sent[topic].append((str(number), producer.send(topic, str(number))))
            with suppress(klamm.KlammError):
                sent[topic][-1][1].result(1)
            with suppress(klamm.KlammError):
                consumer.commit({partition: number}, timeout=1)
                committed = number
            if random.random() < 0.1:
                acknowledged = {
                    topic: [value for value, delivery in sent[topic] if delivery.done()] for topic in topics
                }
                random.choice((broker.kill, broker.cut_power))()
                broker.restart()
                for topic in topics:
                    stored = values(broker, topic)
                    assert stored[: len(acknowledged[topic])] == acknowledged[topic]
                assert broker.group("g").committed.get(partition, -1) >= committed
        assert broker.faults.injected
        broker.restart()
        producer.flush()
        for topic in topics:
            assert values(broker, topic) == [value for value, _ in sent[topic]]


@pytest.mark.parametrize("kind", ["fill_disk", "fail_fsync"])
@pytest.mark.parametrize(
    ("which", "message"),
    [
        ({"client_id": "web"}, "a fault of the disk has no 'client_id': expected partition, probability, "),
        ({"group": "g"}, "a fault of the disk has no 'group'"),
        ({"partition": 0}, "partition=0 without a topic"),
        ({"topic": "t", "partition": -1}, "invalid partition -1"),
        ({"topic": 7}, "invalid topic 7: expected text"),
        ({"topic": "t", "times": 0}, "invalid times 0"),
    ],
)
def test_a_disk_fault_that_makes_no_sense_is_refused(kind: str, which: dict[str, Any], message: str) -> None:
    broker = Broker()
    with pytest.raises((TypeError, ValueError), match=message):
        getattr(broker.faults, kind)(**which)
    assert not broker.faults.separates("t", 0)


def test_partitions_share_the_journal_again_when_the_fault_is_over() -> None:
    faults = Faults(ManualClock(), SimulatedFiles(Random(1), ManualClock()), lambda _event: None)
    with faults.fill_disk(topic="t", partition=1):
        assert faults.separates("t", 1)
        assert not faults.separates("t", 0)
        assert not faults.separates("other", 1)
    assert not faults.separates("t", 1)
    once = faults.fail_fsync(topic="t", times=1)
    assert faults.separates("t", 1)
    assert once.happens()
    assert not faults.separates("t", 1)
