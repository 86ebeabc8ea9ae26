"""Placement: who leads new partitions, those of a dead broker, and what moves for balance."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from klamm.broker.cluster.placement import (
    MOST_MOVES,
    leader_counts,
    place_partitions,
    plan_balance,
    plan_take_over,
)
from klamm.storage.cluster import PartitionRegistration, TopicState

brokers = st.dictionaries(st.integers(1, 9), st.sampled_from([None, "r1", "r2", "r3"]), min_size=1)


def a_topic(name: str, *rows: tuple[int, ...], leaders: dict[int, int] | None = None) -> TopicState:
    """Rows are the preferred brokers of each partition; the first one leads unless `leaders` differs."""
    led = leaders or {}
    states = [
        PartitionRegistration(number, row, led.get(number, row[0]), 3) for number, row in enumerate(rows)
    ]
    return TopicState(name, name.encode().ljust(16), tuple(states))


@given(brokers, st.integers(1, 40), st.integers(0, 2**32), st.data())
def test_each_broker_leads_as_many_as_any_other_or_one_more(
    racks: dict[int, str | None], partitions: int, seed: int, data: st.DataObject
) -> None:
    factor = data.draw(st.integers(1, len(racks)))
    counts = {broker_id: data.draw(st.integers(0, 5)) for broker_id in racks}
    rows = place_partitions(racks, counts, partitions, factor, Random(seed))
    led = [sum(row[0] == broker_id for row in rows) for broker_id in racks]
    assert max(led) - min(led) <= 1
    assert all(len(set(row)) == len(row) == factor and set(row) <= racks.keys() for row in rows)
    # The first leader is one of those that lead the fewest.
    assert counts[rows[0][0]] == min(counts.values())


@given(brokers, st.integers(1, 12), st.data())
def test_a_list_has_every_rack_before_it_has_one_twice(
    racks: dict[int, str | None], partitions: int, data: st.DataObject
) -> None:
    factor = data.draw(st.integers(1, len(racks)))
    for row in place_partitions(racks, dict.fromkeys(racks, 0), partitions, factor, Random(1)):
        used = {racks[broker_id] for broker_id in row}
        assert len(used) == min(factor, len(set(racks.values())))


def test_brokers_that_do_not_run_fill_the_list_and_lead_nothing() -> None:
    rows = place_partitions({1: None, 3: None}, {1: 0, 3: 0}, 4, 3, Random(1), fenced=[2])
    assert {row[0] for row in rows} == {1, 3}
    assert all(row[2] == 2 for row in rows)
    # A smaller factor does without them.
    assert all(
        2 not in row
        for row in place_partitions({1: None, 3: None}, {1: 0, 3: 0}, 4, 2, Random(1), fenced=[2])
    )


def test_a_dead_brokers_partitions_go_to_preferred_brokers_evenly() -> None:
    topics = {
        "a": a_topic("a", (1, 2, 3), (1, 3, 2), (2, 3, 1), (1, 2, 3)),
        "b": a_topic("b", (1,), (3, 1)),
    }
    changes = plan_take_over(topics, 1, {2, 3})
    assert [(each.topic, each.partition) for each in changes] == [("a", 0), ("a", 1), ("a", 3), ("b", 0)]
    assert all((each.leader_id, each.leader_epoch) == (1, 3) for each in changes)
    assert all(each.next_leader_id in (2, 3) for each in changes)
    in_a = [each.next_leader_id for each in changes if each.topic == "a"]
    assert sorted([*in_a, 2]) == [2, 2, 3, 3]


def test_nothing_is_planned_when_no_broker_runs() -> None:
    assert plan_take_over({"a": a_topic("a", (1, 2))}, 1, ()) == []


@given(st.integers(1, 5), st.integers(1, 5), st.integers(0, 30), st.data())
def test_balance_ends_within_one_and_with_as_few_moves_as_can_be(
    running: int, topics: int, partitions: int, data: st.DataObject
) -> None:
    ids = range(1, running + 1)
    leaders = st.sampled_from(list(ids))
    states = {}
    for name in [f"t{number}" for number in range(topics)]:
        rows = [(data.draw(leaders),) for _ in range(partitions)]
        states[name] = a_topic(name, *rows)
    before = leader_counts(states.values(), ids)
    total, share = sum(before.values()), sum(before.values()) // running
    fewest = sum(max(0, count - share - 1) for count in before.values())
    moved = 0
    while moves := plan_balance(states, ids):
        assert len(moves) <= MOST_MOVES
        moved += len(moves)
        for change in moves:
            topic = states[change.topic]
            new = [
                PartitionRegistration(each.partition, (change.next_leader_id,), change.next_leader_id, 4)
                if each.partition == change.partition
                else each
                for each in topic.partitions
            ]
            states[change.topic] = TopicState(topic.name, topic.topic_id, tuple(new))
    after = leader_counts(states.values(), ids)
    assert sum(after.values()) == total
    assert max(after.values()) - min(after.values()) <= 1
    assert fewest <= moved <= sum(abs(count - share) for count in before.values())


def test_a_broker_that_is_back_gets_its_partitions_back() -> None:
    topics = {"a": a_topic("a", (1, 2), (2, 1), (1, 2), (2, 1), leaders={0: 2, 2: 2})}
    moves = plan_balance(topics, {1, 2})
    assert [(each.partition, each.next_leader_id) for each in moves] == [(0, 1), (2, 1)]


def test_internal_topics_move_last() -> None:
    # scenario 39
    topics = {
        "__consumer_offsets": a_topic("__consumer_offsets", (1,), (1,), (1,)),
        "a": a_topic("a", (1,), (1,)),
    }
    assert [each.topic for each in plan_balance(topics, {1, 2})] == ["a", "a"]
