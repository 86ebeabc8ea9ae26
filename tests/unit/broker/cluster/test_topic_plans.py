"""Plans for topics and partitions: which check speaks first, and what a plan looks like."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.broker.cluster.image import ClusterImage
from klamm.broker.cluster.refusal import Refusal
from klamm.broker.cluster.topic_plans import (
    GrowthPlan,
    TopicPlan,
    plan_auto_creation,
    plan_growth,
    plan_topics,
)
from klamm.broker.config.broker_config import BrokerConfig
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.create_partitions import CreatePartitionsAssignment, CreatePartitionsTopic
from klamm.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
)
from klamm.storage.cluster import BrokerRegistration, ClusterChanges, PartitionRegistration, TopicState

Rows = Sequence[tuple[int, Sequence[int]]]


def an_image(*topics: str, brokers: Sequence[int] = (1,), partitions: int = 2) -> ClusterImage:
    image = ClusterImage("cluster", 1)
    registrations = tuple(
        BrokerRegistration(broker_id, None, {"PLAINTEXT": ("localhost", 9092)}) for broker_id in brokers
    )
    states = tuple(PartitionRegistration(index, (1,), 1, 0) for index in range(partitions))
    present = {
        name: TopicState(name, bytes([number]) * 16, states) for number, name in enumerate(topics, start=1)
    }
    image.apply(ClusterChanges(1, registrations, present))
    return image


def a_topic(
    name: str = "t",
    partitions: int = -1,
    factor: int = -1,
    rows: Rows = (),
    configs: Sequence[tuple[str, str | None]] = (),
) -> CreatableTopic:
    return CreatableTopic(
        name,
        partitions,
        factor,
        [CreatableReplicaAssignment(index, brokers) for index, brokers in rows],
        [CreatableTopicConfig(key, value) for key, value in configs],
    )


def planned(*wanted: CreatableTopic, image: ClusterImage | None = None) -> dict[str, TopicPlan | Refusal]:
    return plan_topics(image or an_image("old", "old.dotted"), BrokerConfig(), wanted, Random(7))


def code(outcome: TopicPlan | GrowthPlan | Refusal) -> int:
    return outcome.error_code if isinstance(outcome, Refusal) else ErrorCode.none


@pytest.mark.parametrize(
    ("topic", "expected"),
    [
        (a_topic("__cluster_metadata"), ErrorCode.invalid_request),
        (a_topic("__consumer_offsets"), ErrorCode.invalid_topic_exception),
        (a_topic("__klamm_events"), ErrorCode.invalid_topic_exception),
        (a_topic("old", 0), ErrorCode.topic_already_exists),
        (a_topic("old.dotted", 0), ErrorCode.topic_already_exists),
        (a_topic("old_dotted", 0), ErrorCode.invalid_topic_exception),
        (a_topic(""), ErrorCode.invalid_topic_exception),
        (a_topic("."), ErrorCode.invalid_topic_exception),
        (a_topic(".."), ErrorCode.invalid_topic_exception),
        (a_topic("ü", configs=[("foo", "1")]), ErrorCode.invalid_topic_exception),
        (a_topic("x" * 250), ErrorCode.invalid_topic_exception),
        (a_topic("x" * 249), ErrorCode.none),
        (a_topic("a b"), ErrorCode.invalid_topic_exception),
        (a_topic("t\n"), ErrorCode.invalid_topic_exception),
        (a_topic(configs=[("retention.ms", "x")], factor=0), ErrorCode.invalid_config),
        (a_topic(configs=[("foo", "1")]), ErrorCode.invalid_config),
        (a_topic(configs=[("retention.ms", None)]), ErrorCode.invalid_config),
        (a_topic(configs=[("remote.storage.enable", "true")]), ErrorCode.invalid_config),
        (
            a_topic(configs=[("min.compaction.lag.ms", "5"), ("max.compaction.lag.ms", "4")]),
            ErrorCode.invalid_config,
        ),
        (a_topic(partitions=3, rows=[(0, [9])]), ErrorCode.invalid_request),
        (a_topic(factor=1, rows=[(0, [9])]), ErrorCode.invalid_request),
        (a_topic(rows=[(0, [1]), (2, [1])]), ErrorCode.invalid_replica_assignment),
        (a_topic(rows=[(0, [1]), (0, [1])]), ErrorCode.invalid_replica_assignment),
        (a_topic(rows=[(-1, [1])]), ErrorCode.invalid_replica_assignment),
        (a_topic(rows=[(0, [])]), ErrorCode.invalid_replica_assignment),
        (a_topic(rows=[(0, [9])]), ErrorCode.invalid_replica_assignment),
        (a_topic(rows=[(0, [1, 1])]), ErrorCode.invalid_replica_assignment),
        (a_topic(rows=[(1, [1]), (0, [1])]), ErrorCode.none),
        (a_topic(partitions=0, factor=0), ErrorCode.invalid_replication_factor),
        (a_topic(factor=-2), ErrorCode.invalid_replication_factor),
        (a_topic(partitions=0, factor=2), ErrorCode.invalid_partitions),
        (a_topic(partitions=-2), ErrorCode.invalid_partitions),
        (a_topic(factor=2), ErrorCode.invalid_replication_factor),
        (a_topic(partitions=10_000), ErrorCode.none),
        (a_topic(partitions=10_001), ErrorCode.policy_violation),
        (a_topic("a b", partitions=2_000_000), ErrorCode.policy_violation),
    ],
)
def test_the_first_check_that_fails_is_told(topic: CreatableTopic, expected: ErrorCode) -> None:
    assert code(planned(topic)[topic.name]) == expected


def test_a_name_written_twice_is_refused_once_and_harms_nobody_else() -> None:
    outcomes = planned(a_topic("twice"), a_topic("once"), a_topic("twice"))
    assert {name: code(each) for name, each in outcomes.items()} == {
        "twice": ErrorCode.invalid_request,
        "once": ErrorCode.none,
    }


def test_partitions_of_a_name_written_twice_are_not_counted() -> None:
    outcomes = planned(a_topic("twice", 9_000), a_topic("once", 9_000), a_topic("twice", 9_000))
    assert [code(each) for each in outcomes.values()] == [ErrorCode.invalid_request, ErrorCode.none]
    outcomes = planned(a_topic("twice"), a_topic("many", 10_001), a_topic("twice"))
    assert [code(each) for each in outcomes.values()] == [
        ErrorCode.invalid_request,
        ErrorCode.policy_violation,
    ]


def test_of_two_colliding_names_in_one_request_the_first_wins() -> None:
    outcomes = planned(a_topic("new.x"), a_topic("new_x"))
    assert [code(each) for each in outcomes.values()] == [ErrorCode.none, ErrorCode.invalid_topic_exception]


def test_a_refused_name_does_not_stand_in_the_way_of_a_colliding_one() -> None:
    outcomes = planned(a_topic("new.x", partitions=0), a_topic("new_x"))
    assert [code(each) for each in outcomes.values()] == [ErrorCode.invalid_partitions, ErrorCode.none]


def test_partitions_are_counted_over_the_whole_request() -> None:
    outcomes = planned(a_topic("a", 9_999), a_topic("b", rows=[(0, [1]), (1, [1])]))
    assert {code(each) for each in outcomes.values()} == {ErrorCode.policy_violation}


def test_unequal_replica_lists_are_refused() -> None:
    outcome = planned(a_topic(rows=[(0, [1]), (1, [1, 2])]), image=an_image(brokers=(1, 2)))["t"]
    assert code(outcome) == ErrorCode.invalid_replica_assignment


def test_a_setting_named_twice_takes_its_last_value() -> None:
    plan = planned(a_topic(configs=[("retention.ms", "5"), ("retention.ms", "6")]))["t"]
    assert isinstance(plan, TopicPlan)
    assert plan.configs == {"retention.ms": "6"}
    assert plan.config.retention_ms == 6


def test_minus_one_takes_the_brokers_defaults() -> None:
    config = BrokerConfig.from_settings({"num.partitions": "3"})
    plan = plan_topics(an_image(), config, [a_topic()], Random(1))["t"]
    assert isinstance(plan, TopicPlan)
    assert [each.partition for each in plan.topic.partitions] == [0, 1, 2]
    assert all(each.replicas == (1,) and each.leader_id == 1 for each in plan.topic.partitions)
    assert plan.replication_factor == 1


@given(
    brokers=st.sets(st.integers(0, 50), min_size=1, max_size=6),
    count=st.integers(1, 40),
    seed=st.integers(),
    data=st.data(),
)
def test_leaders_are_spread_evenly_and_replicas_differ(
    brokers: set[int], count: int, seed: int, data: st.DataObject
) -> None:
    factor = data.draw(st.integers(1, len(brokers)))
    wanted = a_topic(partitions=count, factor=factor)
    image = an_image(brokers=sorted(brokers))
    plan = plan_topics(image, BrokerConfig(), [wanted], Random(seed))["t"]
    assert isinstance(plan, TopicPlan)
    led = [sum(each.leader_id == broker for each in plan.topic.partitions) for broker in brokers]
    assert sum(led) == count
    assert max(led) - min(led) <= 1
    for each in plan.topic.partitions:
        assert len(set(each.replicas)) == factor
        assert set(each.replicas) <= brokers


def test_internal_topics_are_made_as_their_owners_need_them() -> None:
    names = ["__consumer_offsets", "__transaction_state", "__klamm_events", "plain"]
    plans = plan_auto_creation(an_image(), BrokerConfig(), names, Random(1))
    made = {name: plan for name, plan in plans.items() if isinstance(plan, TopicPlan)}
    assert {name: len(plan.topic.partitions) for name, plan in made.items()} == {
        "__consumer_offsets": 50,
        "__transaction_state": 50,
        "__klamm_events": 1,
        "plain": 1,
    }
    assert made["__consumer_offsets"].configs == {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": "104857600",
    }
    assert made["__transaction_state"].configs["compression.type"] == "uncompressed"
    assert made["plain"].configs == {}


def test_a_topic_that_is_only_named_can_still_be_refused() -> None:
    config = BrokerConfig.from_settings({"default.replication.factor": "2"})
    plans = plan_auto_creation(an_image("old.x"), config, ["a b", "old_x", "lonely"], Random(1))
    assert [code(each) for each in plans.values()] == [
        ErrorCode.invalid_topic_exception,
        ErrorCode.invalid_topic_exception,
        ErrorCode.invalid_replication_factor,
    ]


def growth(name: str, count: int, rows: Sequence[Sequence[int]] | None = None) -> GrowthPlan | Refusal:
    assignments = None if rows is None else [CreatePartitionsAssignment(row) for row in rows]
    image = an_image("old", "__consumer_offsets")
    return plan_growth(image, [CreatePartitionsTopic(name, count, assignments)], Random(1))[name]


@pytest.mark.parametrize(
    ("name", "count", "rows", "expected"),
    [
        ("missing", 3, None, ErrorCode.unknown_topic_or_partition),
        ("__consumer_offsets", 60, None, ErrorCode.invalid_topic_exception),
        ("old", 1, None, ErrorCode.invalid_partitions),
        ("old", 2, [[9]], ErrorCode.invalid_partitions),
        ("old", -1, None, ErrorCode.invalid_partitions),
        ("old", 4, [[1]], ErrorCode.invalid_replica_assignment),
        ("old", 3, [], ErrorCode.invalid_replica_assignment),
        ("old", 3, [[9]], ErrorCode.invalid_replica_assignment),
        ("old", 3, [[]], ErrorCode.invalid_replica_assignment),
        ("old", 3, [[1, 1]], ErrorCode.invalid_replica_assignment),
        ("old", 10_003, None, ErrorCode.policy_violation),
        ("old", 10_002, None, ErrorCode.none),
        ("old", 3, [[1]], ErrorCode.none),
    ],
)
def test_growth_is_refused_by_the_first_check_that_fails(
    name: str, count: int, rows: Sequence[Sequence[int]] | None, expected: ErrorCode
) -> None:
    assert code(growth(name, count, rows)) == expected


def test_added_partitions_follow_the_last_one() -> None:
    plan = growth("old", 4)
    assert isinstance(plan, GrowthPlan)
    assert [each.partition for each in plan.added] == [2, 3]


def test_a_topic_that_is_to_grow_twice_is_refused() -> None:
    wanted = [CreatePartitionsTopic("old", 3, None), CreatePartitionsTopic("old", 4, None)]
    outcomes = plan_growth(an_image("old"), wanted, Random(1))
    assert [code(each) for each in outcomes.values()] == [ErrorCode.invalid_request]
