from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from types import SimpleNamespace

import pytest

import klamm
from klamm.testing import (
    Broker,
    BrokerTestCase,
    NotKnownError,
    assert_consumed_exactly_once,
    observation,
    wait_until,
)


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(num_partitions=2) as broker:
        yield broker


def a_consumer(broker: Broker, name: str = "c") -> klamm.Consumer[bytes, bytes]:
    return klamm.Consumer(
        "t", bootstrap_servers=broker.bootstrap, group_id="g", client_id=name, auto_offset_reset="earliest"
    )


def test_records_of_a_topic(broker: Broker) -> None:
    with klamm.Producer(bootstrap_servers=broker.bootstrap) as producer:
        for number in range(5):
            producer.send("t", str(number), partition=number % 2)
            broker.clock.advance("1s")
        producer.flush()
    assert [record.value for record in broker.records("t")] == [b"0", b"1", b"2", b"3", b"4"]


def test_a_topic_that_does_not_exist_has_no_records_to_compare_with(broker: Broker) -> None:
    broker.create_topic("orders")
    assert broker.records("orders") == []
    with pytest.raises(NotKnownError, match="topic oders does not exist; existing topics: orders"):
        broker.records("oders")


def produced(broker: Broker, count: int) -> None:
    with klamm.Producer(bootstrap_servers=broker.bootstrap) as producer:
        for number in range(count):
            producer.send("t", str(number), partition=0)


def test_a_group_that_does_not_exist_has_no_lag(broker: Broker) -> None:
    produced(broker, 3)
    for look in ("lag", "total_lag"):
        with pytest.raises(NotKnownError, match=r"no such group; existing groups: none"):
            getattr(broker.group("nobody-ever-consumed"), look)


def test_a_group_that_has_read_and_not_committed_has_no_lag(broker: Broker) -> None:
    produced(broker, 3)
    with a_consumer(broker) as consumer:
        assert len(consumer.consume(3, timeout=30)) == 3
        group = broker.group("g")
        # Partition 1 is empty: wherever the group begins, nothing is unread there
        assert group.lag == {klamm.TopicPartition("t", 0): None, klamm.TopicPartition("t", 1): 0}
        with pytest.raises(NotKnownError, match=r"nothing committed, the log has offsets 0 to 3"):
            group.total_lag  # noqa: B018 - it raises
        consumer.commit()
        assert broker.group("g").total_lag == 0


def test_a_group_that_has_left_without_a_commit_has_no_lag(broker: Broker) -> None:
    produced(broker, 3)
    with klamm.Consumer(
        "t",
        bootstrap_servers=broker.bootstrap,
        group_id="g",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:
        assert len(consumer.consume(3, timeout=30)) == 3
    with pytest.raises(NotKnownError, match=r"no such group|has committed nothing and owns no partition"):
        broker.group("g").total_lag  # noqa: B018 - it raises


def test_a_commit_outside_of_the_log_is_no_lag(broker: Broker) -> None:
    produced(broker, 3)
    with klamm.Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.alter_group_offsets("g", {klamm.TopicPartition("t", 0): 50})
    with pytest.raises(NotKnownError, match=r"t-0 not known: beyond end \(committed 50\)"):
        broker.group("g").total_lag  # noqa: B018 - it raises


def test_partitions_that_nobody_owns_count(broker: Broker) -> None:
    """A topic that has grown: the members have not noticed yet."""
    produced(broker, 1)
    with a_consumer(broker) as consumer, klamm.Admin(bootstrap_servers=broker.bootstrap) as admin:
        assert len(consumer.consume(1, timeout=30)) == 1
        consumer.commit()
        assert broker.group("g").total_lag == 0
        with broker.clock.frozen():
            admin.create_partitions({"t": 3})
            with klamm.Producer(bootstrap_servers=broker.bootstrap) as producer:
                producer.send("t", "x", partition=2).result()
            with pytest.raises(NotKnownError, match="t-2 not known: nothing committed"):
                broker.group("g").total_lag  # noqa: B018 - it raises


def test_partitions_that_a_group_never_committed_count_when_it_has_left(broker: Broker) -> None:
    produced(broker, 1)
    with a_consumer(broker) as consumer:
        assert len(consumer.consume(1, timeout=30)) == 1
    with klamm.Producer(bootstrap_servers=broker.bootstrap) as producer:
        producer.send("t", "x", partition=1).result()
    with klamm.Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.delete_group_offsets("g", [klamm.TopicPartition("t", 1)])
    with pytest.raises(NotKnownError, match="t-1 not known: nothing committed"):
        broker.group("g").total_lag  # noqa: B018 - it raises


def test_the_lag_is_not_known_while_nobody_tells_what_the_members_read(broker: Broker) -> None:
    """During a rebalance: the one who comes may read topics of which nothing is committed."""
    produced(broker, 1)
    with a_consumer(broker) as consumer, a_consumer(broker, "late") as late:
        assert len(consumer.consume(1, timeout=30)) == 1
        consumer.commit()
        joining = threading.Thread(target=late.poll, args=(1,))
        joining.start()
        broker.wait_until(lambda: broker.group("g").state, equals="PreparingRebalance")
        with pytest.raises(NotKnownError, match=r"during a rebalance, .*: t-0 0"):
            broker.group("g").total_lag  # noqa: B018 - it raises
        consumer.poll(1)
        joining.join()


def test_waiting_for_a_group_that_does_not_exist_yet(broker: Broker) -> None:
    produced(broker, 2)

    def consume() -> None:
        with a_consumer(broker) as consumer:
            consumer.consume(2, timeout=30)
            consumer.commit()

    thread = threading.Thread(target=consume)
    thread.start()
    assert broker.wait_until(lambda: broker.group("g").total_lag, equals=0) == 0
    thread.join()


def test_waiting_in_vain_says_what_was_seen_last(broker: Broker) -> None:
    produced(broker, 2)
    with a_consumer(broker) as consumer:
        consumer.consume(1, timeout=30)
        consumer.commit({klamm.TopicPartition("t", 0): 1, klamm.TopicPartition("t", 1): 0})
        with pytest.raises(
            AssertionError,
            match=r"False after 20ms\nlast seen: the lag of group g is 1 \(Stable, members: c\): t-0 1, t-1",
        ):
            broker.wait_until(lambda: broker.group("g").total_lag == 0, "20ms")
    with pytest.raises(AssertionError, match=r"not so after 20ms: the lag of group x .*no such group"):
        broker.wait_until(lambda: broker.group("x").total_lag == 0, "20ms")


def test_records_of_an_open_or_aborted_transaction_are_not_committed(broker: Broker) -> None:
    with klamm.Producer(bootstrap_servers=broker.bootstrap, transactional_id="tx") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("t", "x").result()
        assert broker.records("t") == []
        assert len(broker.records("t", committed=False)) == 1
        producer.abort_transaction()
    assert broker.records("t") == []


def test_a_group_with_its_members_assignment_and_lag(broker: Broker) -> None:
    assert broker.group("g").state == "Dead"
    with klamm.Producer(bootstrap_servers=broker.bootstrap) as producer:
        for number in range(4):
            producer.send("t", str(number), partition=number % 2)
    with a_consumer(broker) as consumer:
        assert len(consumer.consume(4, timeout=30)) == 4
        consumer.commit({klamm.TopicPartition("t", 0): 2, klamm.TopicPartition("t", 1): 1})
        group = broker.group("g")
    assert group.state == "Stable"
    assert group.members == ("c",)
    assert group.assignment["c"] == (klamm.TopicPartition("t", 0), klamm.TopicPartition("t", 1))
    assert group.lag == {klamm.TopicPartition("t", 0): 0, klamm.TopicPartition("t", 1): 1}
    assert group.total_lag == 1


def test_members_are_sorted_whoever_came_first(broker: Broker) -> None:
    produced(broker, 2)
    with a_consumer(broker, "late") as first, a_consumer(broker, "early") as second:
        first.consume(1, timeout=30)
        while not second.assignment():
            first.poll(0.1)
            second.poll(0.1)
        broker.wait_until(lambda: broker.group("g").members, equals=("early", "late"))


def test_looking_does_not_move_a_clock_that_stands_still(broker: Broker) -> None:
    with klamm.Producer(bootstrap_servers=broker.bootstrap) as producer:
        producer.send("t", "x").result()
    with broker.clock.frozen():
        before = broker.clock.now()
        assert len(broker.records("t")) == 1
        assert broker.group("g").state == "Dead"
        assert broker.clock.now() == before


class _SlowConsumer(klamm.Consumer[bytes, bytes]):
    """Has sent a fetch at the end of what it reads before it turns to something else."""

    def assign(self, partitions: Iterable[klamm.TopicPartition]) -> None:
        partitions = list(partitions)
        if not partitions:
            self.poll(0.01)
        super().assign(partitions)


def test_a_look_at_a_second_topic_does_not_wait_for_a_clock_that_stands_still(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observation, "Consumer", _SlowConsumer)
    with klamm.Producer(bootstrap_servers=broker.bootstrap) as producer:
        producer.send("t", "x")
        producer.send("u", "y")
    with broker.clock.frozen():
        assert len(broker.records("t")) == 1
        begin_s = time.monotonic()
        assert len(broker.records("u")) == 1
        assert time.monotonic() - begin_s < 10  # a fetch of the first topic times out after 30 s


def test_waiting_for_what_another_thread_does(broker: Broker) -> None:
    def produce() -> None:
        with klamm.Producer(bootstrap_servers=broker.bootstrap) as producer:
            producer.send("t", "x").result()

    thread = threading.Thread(target=produce)
    thread.start()
    found = broker.wait_until(lambda: broker.records("t"))
    thread.join()
    assert found[0].value == b"x"


def test_waiting_in_vain_fails_on_the_brokers_clock_with_the_story(broker: Broker) -> None:
    with klamm.Producer(bootstrap_servers=broker.bootstrap) as producer:
        producer.send("t", "x").result()
    with a_consumer(broker) as consumer:
        consumer.consume(1, timeout=30)
        with broker.clock.frozen(), pytest.raises(AssertionError, match=r"still False after 1m\n.*group g"):
            broker.wait_until(lambda: False, timeout="1m")


def test_the_story_of_a_group_is_the_same_in_each_run() -> None:
    stories = []
    for _ in range(2):
        with Broker() as broker, broker.clock.frozen():
            with klamm.Producer(bootstrap_servers=broker.bootstrap) as producer:
                producer.send("t", "x").result()
            broker.faults.fail("SyncGroup", group="g", error="NOT_COORDINATOR", times=1)
            with a_consumer(broker) as consumer:
                consumer.consume(1, timeout=30)
            stories.append(broker.story("g"))
            assert broker.story("another") == ""
    assert stories[0] == stories[1]
    assert "c-1" in stories[0]
    assert "injected fault: SyncGroup" in stories[0]


def test_a_broker_that_is_not_running_has_nothing_to_look_at() -> None:
    with pytest.raises(RuntimeError, match="not running"):
        Broker().records("t")


def test_exactly_once_is_what_it_says() -> None:
    assert_consumed_exactly_once(["a", "b"], ["b", "a"])
    assert_consumed_exactly_once(["a", "a"], ["a", "a"])
    with pytest.raises(AssertionError, match=r"1 never consumed: b\n1 consumed more than once: a"):
        assert_consumed_exactly_once(["a", "b"], ["a", "a"])
    with pytest.raises(AssertionError, match="1 consumed, but never produced: c"):
        assert_consumed_exactly_once(["a"], ["a", "c"])
    with pytest.raises(AssertionError, match="and 5 more"):
        assert_consumed_exactly_once(range(15), [])


def test_records_of_several_libraries_are_compared_by_their_place(broker: Broker) -> None:
    with klamm.Producer(bootstrap_servers=broker.bootstrap) as producer:
        producer.send("t", "x", partition=1).result()
    plain = SimpleNamespace(topic="t", partition=1, offset=0)
    methods = SimpleNamespace(topic=lambda: "t", partition=lambda: 1, offset=lambda: 0)
    for consumed in (plain, methods):
        assert_consumed_exactly_once(broker.records("t"), [consumed])


class TestUnittest(BrokerTestCase):
    settings = {"num_partitions": 7, "auto.create.topics.enable": True}  # noqa: RUF012 - as users write it

    def test_a_test_case_has_a_broker_with_its_settings(self) -> None:
        with klamm.Producer(bootstrap_servers=self.broker.bootstrap) as producer:
            assert len(producer.partitions_for("t")) == 7


def test_waiting_for_something_outside_returns_what_came_or_says_what_did_not() -> None:
    answers = iter([0, 0, 7])
    assert wait_until(lambda: next(answers)) == 7
    with pytest.raises(AssertionError, match="still False after 50ms\nno topic"):
        wait_until(lambda: False, "50ms", describe=lambda: "no topic")


def test_waiting_for_a_value_ends_with_it_or_says_what_it_was_last() -> None:
    counts = iter(range(10))
    assert wait_until(lambda: next(counts), equals=3, every="1ms") == 3
    with pytest.raises(AssertionError, match="still 5 after 30ms, expected 0"):
        wait_until(lambda: 5, "30ms", equals=0, every="1ms")
    with Broker() as broker, pytest.raises(AssertionError, match="still 0 after 20ms, expected 1"):
        broker.wait_until(lambda: len(broker.topics()), "20ms", equals=1)
