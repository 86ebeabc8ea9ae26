from __future__ import annotations

import gc
import weakref
from collections.abc import Iterable, Mapping

import pytest

import klamm
from klamm.assignors import COOPERATIVE, MemberSubscription, TopicAssignor, TopicPartition
from klamm.assignors.base import Assignment, ClusterView, GroupView
from klamm.assignors.range import RangeAssignor
from klamm.client.consumer.group.listener import RebalanceListener
from klamm.errors import IllegalStateError, RebalanceListenerError
from klamm.testing import ScriptedGroup
from unit.testing.scripted import a_group, heard, numbers

Members = Mapping[str, MemberSubscription]
Shares = Mapping[str, Iterable[TopicPartition]]

# --- members come and go -------------------------------------------------------------------------------


def test_members_share_the_partitions_and_take_over_from_one_that_died() -> None:
    group = a_group()
    group.join("a", "b")
    group.settle()
    assert numbers(group) == {"a": [0, 1, 2], "b": [3, 4, 5]}
    group.die("a")
    group.advance("44s")
    assert numbers(group) == {"b": [3, 4, 5]}  # the session of a is not over
    group.settle()
    assert numbers(group) == {"b": [0, 1, 2, 3, 4, 5]}
    assert group.history[-1].cause == "a member was silent for its session timeout"


def test_an_eager_member_gives_up_everything_and_a_cooperative_one_what_moves() -> None:
    told = {}
    for assignor in ("sticky", "cooperative-sticky"):
        group = a_group(assignor)
        group.join("a")
        group.settle()
        group.join("b")
        group.settle()
        told[assignor] = heard(group, "a")[1:]
        assert group.moved == 3
    assert told == {
        "sticky": [("revoked", [0, 1, 2, 3, 4, 5]), ("assigned", [0, 1, 2])],
        "cooperative-sticky": [("revoked", [3, 4, 5]), ("assigned", []), ("assigned", [])],
    }


def test_a_closed_consumer_leaves_at_once_and_its_listener_hears_of_it() -> None:
    group = a_group()
    group.join("a", "b")
    group.settle()
    before = group.now
    group.leave("b")
    assert heard(group, "b")[-1] == ("revoked", [3, 4, 5])
    group.settle()
    assert numbers(group) == {"a": [0, 1, 2, 3, 4, 5]}
    assert (group.now - before).total_seconds() <= 3  # a heartbeat


def test_a_static_member_that_returns_in_time_causes_no_rebalance() -> None:
    group = a_group()
    group.join("a", "b", static=True)
    group.settle()
    generation = group.generation
    group.die("b")
    group.advance("30s")
    group.restart("b")
    group.settle()
    assert group.generation == generation
    assert heard(group, "b") == [("assigned", [3, 4, 5])] * 2


def test_a_stalled_member_loses_its_partitions_and_learns_it_when_it_goes_on() -> None:
    group = a_group()
    group.join("a", "b")
    group.settle()
    group.stall("b")
    group.settle()
    assert numbers(group) == {"a": [0, 1, 2, 3, 4, 5], "b": [3, 4, 5]}  # b believes so
    group.resume("b")
    group.settle()
    assert heard(group, "b") == [("assigned", [3, 4, 5]), ("lost", [3, 4, 5]), ("assigned", [3, 4, 5])]


def test_a_member_that_does_not_poll_leaves_after_its_interval() -> None:
    group = a_group(settings={"max.poll.interval.ms": 60_000})
    group.join("a", "b")
    group.settle()
    generation = group.generation
    group.stop_polling("b")
    group.advance("59s")
    assert group.generation == generation
    group.settle()
    assert numbers(group)["a"] == [0, 1, 2, 3, 4, 5]
    assert group.history[-1].cause == "a member left: max.poll.interval.ms of 60000 exceeded"


def test_another_subscription_and_a_topic_with_more_partitions_cause_rebalances() -> None:
    group = ScriptedGroup({"orders": 2, "payments": 2}, "roundrobin")
    group.join("a", topics=["orders"])
    group.settle()
    group.subscribe("a", "orders", "payments")
    group.settle()
    assert [str(each) for each in group.assignment["a"]] == [
        "orders-0",
        "orders-1",
        "payments-0",
        "payments-1",
    ]
    group.add_partitions("orders", 3)
    group.advance("4m")
    assert TopicPartition("orders", 2) not in group.assignment["a"]
    group.settle()  # the leader's metadata is five minutes old
    assert TopicPartition("orders", 2) in group.assignment["a"]


def test_a_pattern_matches_a_new_topic() -> None:
    group = a_group()
    group.join("a", pattern="orders.*")
    group.settle()
    group.create_topic("orders-eu", 1)
    group.settle()
    assert ("orders-eu", 0) in group.assignment["a"]


def test_a_restarted_broker_knows_the_group_and_nobody_rejoins() -> None:
    group = a_group()
    group.join("a", "b")
    group.settle()
    generation = group.generation
    group.restart_coordinator()
    group.advance("1m")
    assert group.generation == generation
    group.join("c")
    group.settle()
    assert numbers(group) == {"a": [0, 1], "b": [2, 3], "c": [4, 5]}


def test_a_group_goes_from_eager_to_cooperative_one_member_after_the_other() -> None:
    group = a_group()
    group.join("a", "b", assignor="range")
    group.settle()
    for assignor in (["cooperative-sticky", "range"], "cooperative-sticky"):
        for name in ("a", "b"):
            group.leave(name)
            group.join(name, assignor=assignor)
            group.settle()
    assert group.history[-1].assignor == "cooperative-sticky"
    assert sorted(map(len, group.assignment.values())) == [3, 3]


def test_members_get_partitions_of_their_rack() -> None:
    group = ScriptedGroup({"orders": 4}, "range", racks=("north", "south"))
    group.join("a", client_rack="south")
    group.join("b", client_rack="north")
    group.settle()
    assert numbers(group) == {"a": [1, 3], "b": [0, 2]}


# --- listeners -----------------------------------------------------------------------------------------


class CommitsOnRevoke(RebalanceListener):
    def __init__(self, consumer: klamm.Consumer[bytes, bytes]) -> None:
        self.consumer = consumer
        self.found: dict[TopicPartition, int | None] = {}

    def on_revoked(self, partitions: list[TopicPartition]) -> None:
        self.consumer.commit({each: 100 + each.partition for each in partitions})

    def on_assigned(self, partitions: list[TopicPartition]) -> None:
        committed = self.consumer.committed(partitions)
        self.found = {each: found and found.offset for each, found in committed.items()}


def test_a_listener_commits_and_the_next_owner_finds_it() -> None:
    group = a_group("cooperative-sticky", listener=CommitsOnRevoke)
    group.join("a")
    group.settle()
    group.join("b")
    group.settle()
    listener = group.listener("b")
    assert isinstance(listener, CommitsOnRevoke)
    assert {each.partition: offset for each, offset in listener.found.items()} == {3: 103, 4: 104, 5: 105}


def test_a_listener_that_commits_what_it_has_lost_is_refused() -> None:
    class CommitsLate(CommitsOnRevoke):
        def on_lost(self, partitions: list[TopicPartition]) -> None:
            self.on_revoked(partitions)

    group = a_group(listener=CommitsLate)
    group.join("a", "b")
    group.settle()
    group.stall("b")
    group.settle()
    with pytest.raises(RebalanceListenerError, match="on_lost") as caught:
        group.resume("b")
    assert "raised by the poll of b" in caught.value.__notes__[0]
    assert "stall b" in caught.value.__notes__[0]


def test_a_group_may_go_on_after_errors() -> None:
    class Fails(RebalanceListener):
        def on_assigned(self, partitions: list[TopicPartition]) -> None:
            raise ValueError("no room")

    group = a_group(listener=Fails, errors="keep")
    group.join("a")
    group.settle()
    ((name, error),) = group.poll_errors
    assert (name, str(error.__cause__)) == ("a", "no room")
    assert numbers(group) == {"a": [0, 1, 2, 3, 4, 5]}


def test_a_listener_is_a_rebalance_listener() -> None:
    with pytest.raises(TypeError, match="makes a RebalanceListener"):
        a_group(listener=lambda: {}).join("a")


# --- assignors that break promises ---------------------------------------------------------------------


class ToAll(TopicAssignor):
    name = "to-all"

    def assign_partitions(self, partitions_per_topic: Mapping[str, int], members: Members) -> Shares:
        return {each: [TopicPartition("orders", 0)] for each in members}


class Forgetful(TopicAssignor):
    name = "forgetful"

    def assign_partitions(self, partitions_per_topic: Mapping[str, int], members: Members) -> Shares:
        return {each: [TopicPartition("orders", number)] for number, each in enumerate(members)}


class Hasty(TopicAssignor):
    """Gives all partitions to the last member, whoever has them."""

    name = "hasty"
    supported_protocols = (COOPERATIVE,)

    def assign_partitions(self, partitions_per_topic: Mapping[str, int], members: Members) -> Shares:
        return {max(members): [TopicPartition("orders", number) for number in range(6)]}


class Restless(TopicAssignor):
    """Always gives a member another partition than it has."""

    name = "restless"
    supported_protocols = (COOPERATIVE,)

    def assign_partitions(self, partitions_per_topic: Mapping[str, int], members: Members) -> Shares:
        shares = {}
        for number, (each, member) in enumerate(members.items()):
            one, other = TopicPartition("orders", 2 * number), TopicPartition("orders", 2 * number + 1)
            shares[each] = [other if one in member.owned else one]
        return shares


def test_a_partition_with_two_owners_is_an_error_with_the_story() -> None:
    group = a_group(ToAll)
    group.join("a", "b")
    with pytest.raises(AssertionError, match=r"orders-0 is given to [ab] while [ab] has it") as caught:
        group.settle()
    assert "0.000 s  join a" in str(caught.value)
    shared = a_group(ToAll, exclusive=False, complete=False)
    shared.join("a", "b")
    shared.settle()
    assert numbers(shared) == {"a": [0], "b": [0]}


def test_a_partition_without_an_owner_is_an_error_unless_that_is_intended() -> None:
    group = a_group(Forgetful)
    group.join("a", "b")
    with pytest.raises(AssertionError, match="no member has orders-2, orders-3, orders-4, orders-5"):
        group.settle()
    a_group(Forgetful, complete=False).settle()


def test_an_assignor_that_breaks_the_cooperative_protocol_is_an_error_of_the_leader() -> None:
    group = a_group(Hasty)
    group.join("a")
    group.settle()
    group.join("b")
    with pytest.raises(IllegalStateError, match=r"gives orders-0 to b-.* while a-.* still owns it"):
        group.settle()


def test_a_group_that_never_comes_to_rest_is_an_error() -> None:
    group = a_group(Restless, complete=False)
    group.join("a")
    group.settle()
    group.join("b")
    with pytest.raises(AssertionError, match="messages in one instant, and no end") as caught:
        group.settle()
    assert "lines before)" in str(caught.value)


def test_a_group_that_is_not_at_rest_in_time_is_an_error() -> None:
    group = a_group()
    group.join("a", "b")
    group.settle()
    group.die("b")
    with pytest.raises(AssertionError, match=r"not at rest after 10s: coordinator: Stable, generation 1"):
        group.settle("10s")


# --- arguments -----------------------------------------------------------------------------------------


def test_steps_that_make_no_sense_are_refused() -> None:
    group = a_group()
    group.join("a")
    with pytest.raises(ValueError, match="a is running"):
        group.join("a")
    with pytest.raises(ValueError, match="b is not running; running are: a"):
        group.die("b")
    with pytest.raises(ValueError, match="b has never joined"):
        group.restart("b")
    with pytest.raises(ValueError, match="orders cannot have 6 partitions: it has 6"):
        group.add_partitions("orders", 6)
    with pytest.raises(ValueError, match="orders exists"):
        group.create_topic("orders", 1)
    with pytest.raises(ValueError, match="unknown setting 'group_size' of the coordinator"):
        a_group(coordinator={"group.size": 3})
    with pytest.raises(ValueError, match="invalid errors 'ignore'"):
        a_group(errors="ignore")


def test_a_scripted_group_has_no_records() -> None:
    group = a_group()
    group.join("a")
    group.settle()
    with pytest.raises(NotImplementedError, match=r"has no records; use klamm\.testing\.Broker"):
        group.consumer("a").end_offsets([TopicPartition("orders", 0)])


def test_an_assignor_with_a_memory_is_not_shared_by_members() -> None:
    class Counting(Forgetful):
        name = "counting"

        def __init__(self) -> None:
            self.calls = 0

        def assign_partitions(self, partitions_per_topic: Mapping[str, int], members: Members) -> Shares:
            self.calls += 1
            return super().assign_partitions(partitions_per_topic, members)

    given = Counting()
    group = a_group(given, complete=False)
    group.join("a", "b")
    group.settle()
    assert given.calls == 0


def test_a_restarted_coordinator_has_the_last_generation_and_what_was_committed_in_earlier_ones() -> None:
    group = a_group()
    group.join("a")
    group.settle()
    partition = klamm.TopicPartition("orders", 0)
    for offset in (7, 8):
        group.consumer("a").commit({partition: offset})
        group.join("b")
        group.settle()
        group.leave("b")
        group.settle()
    generation, assignment = group.generation, group.assignment
    group.restart_coordinator()
    group.settle()
    assert (group.generation, group.assignment) == (generation, assignment)
    found = group.consumer("a").committed([partition])[partition]
    assert found is not None
    assert found.offset == 8


@pytest.mark.parametrize("end", ["leave", "die"])
def test_a_process_that_another_one_follows_is_freed_without_the_garbage_collector(end: str) -> None:
    group = a_group("cooperative-sticky")
    group.join("a", "b")
    group.settle()
    process = weakref.ref(group.consumer("b"))
    getattr(group, end)("b")
    group.settle()
    gc.disable()
    try:
        group.join("b")
        assert process() is None
    finally:
        gc.enable()
    group.settle()
    assert [len(owned) for owned in group.assignment.values()] == [3, 3]


class Untidy(RangeAssignor):
    """Changes what it was given."""

    name = "untidy"

    def assign(self, cluster: ClusterView, group: GroupView) -> dict[str, Assignment]:
        assert list(cluster.topics) == ["orders"]
        assert isinstance(cluster.topics, dict)  # though nobody should change it
        cluster.topics["unknown"] = ()
        return super().assign(cluster, group)


def test_an_assignor_that_changes_its_view_of_the_cluster_changes_that_of_no_later_rebalance() -> None:
    group = ScriptedGroup({"orders": 4}, Untidy)
    group.join("a", "b")
    group.settle()
    for _ in range(2):
        group.leave("b")
        group.settle()
        group.join("b")
        group.settle()
    assert [len(owned) for owned in group.assignment.values()] == [2, 2]


def test_a_story_can_have_the_requests_and_their_answers() -> None:
    group = a_group()
    group.join("a")
    group.settle()
    lines = [line.split("s  ", 1)[1] for line in group.story(requests=True).splitlines()]
    asked = [line.split()[2] for line in lines if line.startswith("a →")]
    assert asked == ["FindCoordinator", "JoinGroup", "JoinGroup", "SyncGroup"]
    assert lines[4].startswith("a ← MEMBER_ID_REQUIRED")
    assert lines[5].endswith("[Empty → PreparingRebalance]")
    assert set(group.story().splitlines()) <= set(group.story(requests=True).splitlines())
    assert [each["api"] for each in group.requests if each["kind"] == "request"] == asked
    told = [each["type"] for each in group.requests if each["kind"] == "event"]
    assert told == ["rebalance_started", "rebalance_completed"]


def test_metrics_of_a_consumer_say_how_long_the_last_join_and_sync_took() -> None:
    group = a_group()
    group.join("a")
    assert group.consumer("a").metrics()["join_ms"] is None
    group.settle()
    assert group.consumer("a").metrics()["join_ms"] == 0
    group.join("b")
    group.settle()
    found = group.consumer("b").metrics()  # it has waited for the next heartbeat of a
    assert (found["join_ms"], found["sync_ms"]) == (3_000, 0)
