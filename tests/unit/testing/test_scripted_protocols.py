"""Scripted groups with either protocol: what holds for both, and what only the consumer protocol does."""

from __future__ import annotations

from typing import Literal

import pytest

import klamm
from klamm.assignors.server import GroupAssignor, GroupSpec, Target
from klamm.client.consumer.group.listener import RebalanceListener
from klamm.protocol.types import TopicPartition
from klamm.testing import ScriptedGroup, check_rebalances
from unit.testing.scripted import heard, numbers

ALL = [0, 1, 2, 3, 4, 5]
Protocol = Literal["classic", "consumer"]
BOTH = pytest.mark.parametrize("protocol", ["classic", "consumer"])


def a_group(protocol: Protocol, **options: object) -> ScriptedGroup:
    return ScriptedGroup({"orders": 6}, protocol=protocol, **options)  # type: ignore[arg-type]  # passed on


def sizes(group: ScriptedGroup) -> list[int]:
    return sorted(map(len, group.assignment.values()))


@BOTH
def test_members_share_the_partitions_and_take_over_from_one_that_died(protocol: Protocol) -> None:
    group = a_group(protocol)
    group.join("a", "b")
    group.settle()
    assert sizes(group) == [3, 3]
    group.die("a")
    group.advance("40s")
    assert sizes(group) == [3]  # the session of a is not over
    group.settle()
    assert numbers(group) == {"b": ALL}
    assert group.history[-1].cause == "a member was silent for its session timeout"


@BOTH
def test_a_static_member_that_returns_in_time_gets_what_it_had(protocol: Protocol) -> None:
    group = a_group(protocol)
    group.join("a", "b", static=True)
    group.settle()
    generation, before = group.generation, numbers(group)
    group.leave("b")
    group.advance("30s")
    group.restart("b")
    group.settle()
    assert (group.generation, numbers(group)) == (generation, before)


@BOTH
def test_a_stalled_member_loses_its_partitions_and_learns_it_when_it_goes_on(protocol: Protocol) -> None:
    group = a_group(protocol)
    group.join("a", "b")
    group.settle()
    group.stall("b")
    group.settle()
    assert numbers(group)["a"] == ALL
    assert len(numbers(group)["b"]) == 3  # b believes so
    group.resume("b")
    group.settle()
    assert "lost" in {kind for kind, _ in heard(group, "b")}
    assert sizes(group) == [3, 3]


@BOTH
def test_a_member_that_does_not_poll_leaves_after_its_interval(protocol: Protocol) -> None:
    group = a_group(protocol, settings={"max.poll.interval.ms": 60_000})
    group.join("a", "b")
    group.settle()
    group.stop_polling("b")
    group.settle()
    assert numbers(group)["a"] == ALL


@BOTH
def test_another_subscription_more_partitions_and_a_pattern_are_followed(protocol: Protocol) -> None:
    group = ScriptedGroup({"orders": 2, "payments": 2}, protocol=protocol)
    group.join("a", topics=["orders"])
    group.settle()
    group.subscribe("a", "orders", "payments")
    group.settle()
    assert len(group.assignment["a"]) == 4
    group.add_partitions("orders", 3)
    group.settle()
    assert TopicPartition("orders", 2) in group.assignment["a"]
    group.leave("a")
    group.join("b", pattern="orders.*")
    group.settle()
    group.create_topic("orders-eu", 1)
    group.settle()
    assert TopicPartition("orders-eu", 0) in group.assignment["b"]


@BOTH
def test_a_restarted_broker_knows_the_group_and_nobody_loses_anything(protocol: Protocol) -> None:
    group = a_group(protocol)
    group.join("a", "b")
    group.settle()
    before, calls = numbers(group), len(group.callbacks())
    group.restart_coordinator()
    group.advance("1m")
    assert (numbers(group), len(group.callbacks())) == (before, calls)


class CommitsOnRevoke(RebalanceListener):
    def __init__(self, consumer: klamm.Consumer[bytes, bytes]) -> None:
        self.consumer = consumer

    def on_revoked(self, partitions: list[TopicPartition]) -> None:
        self.consumer.commit({each: 100 + each.partition for each in partitions})


@BOTH
def test_a_listener_commits_what_goes_and_the_next_owner_finds_it(protocol: Protocol) -> None:
    group = a_group(protocol, listener=CommitsOnRevoke)
    group.join("a")
    group.settle()
    group.join("b")
    group.settle()
    owned = list(group.assignment["b"])
    found = group.consumer("b").committed(owned)
    assert [each and each.offset for each in found.values()] == [100 + each.partition for each in owned]


@BOTH
@pytest.mark.parametrize("assignor", ["range", None])
def test_random_scripts_keep_the_promises_with_either_protocol(
    protocol: Protocol, assignor: str | None
) -> None:
    check_rebalances(
        lambda seed: ScriptedGroup({"orders": 6, "payments": 3}, assignor, protocol=protocol, seed=seed),
        seeds=range(5),
        check=lambda group: group.check(),
    )


# --- the consumer protocol ---------------------------------------------------------------------------------


def test_who_keeps_a_partition_is_never_interrupted() -> None:
    group = a_group("consumer")
    group.join("a")
    group.settle()
    group.join("b")
    group.settle()
    (assigned, revoked, nothing) = heard(group, "a")
    assert (assigned, nothing) == (("assigned", ALL), ("assigned", []))
    assert revoked == ("revoked", numbers(group)["b"])
    assert (group.moved, group.stickiness) == (3, 0.5)
    assert group.history[-1].leader == "the coordinator"


class Heaviest(GroupAssignor):
    """Gives everything to the last member."""

    name = "heaviest"

    def assign(self, group: GroupSpec) -> Target:
        share = {topic_id: range(topic.partition_count) for topic_id, topic in group.topics.items()}
        return {max(group.members, key=lambda each: group.members[each].rack_id or ""): share}


def test_an_assignor_of_your_own_runs_in_the_coordinator() -> None:
    group = ScriptedGroup({"orders": 6}, Heaviest(), protocol="consumer")
    group.join("a", client_rack="r1")
    group.join("b", client_rack="r2")
    group.settle()
    assert numbers(group) == {"a": [], "b": ALL}
    assert group.history[-1].assignor == "heaviest"


def test_what_members_would_run_is_no_assignor_of_the_coordinator() -> None:
    with pytest.raises(TypeError, match="with protocol='consumer' the coordinator assigns"):
        ScriptedGroup({"orders": 6}, ["range"], protocol="consumer").join("a")
    with pytest.raises(ValueError, match="invalid protocol 'share': expected 'classic' or 'consumer'"):
        a_group("share")  # type: ignore[arg-type]  # the point of the test


def test_a_listener_that_dawdles_longer_than_its_poll_interval_loses_its_membership() -> None:
    group = a_group("consumer", settings={"max.poll.interval.ms": 20_000})
    group.join("a")
    group.settle()
    group.stop_polling("a")  # before it has revoked anything
    group.join("b")
    group.settle()
    assert numbers(group)["b"] == ALL
    group.resume("a")
    group.settle()
    assert sizes(group) == [3, 3]
