"""DescribeTransactions, ListTransactions, placement. Numbers are the specification's scenarios."""

from __future__ import annotations

import pytest

from klamm.protocol.errors import ErrorCode
from klamm.protocol.placement import java_hash, partition_for
from unit.coordinator.transaction.driver import FIRST_PRODUCER_ID, OUT_0, OUT_1, T, World

P = FIRST_PRODUCER_ID


@pytest.mark.parametrize(
    ("transactional_id", "expected"),
    [
        ("txn-A", 26),
        ("my-transactional-id", 46),
        ("transactionalId", 8),
        ("polygenelubricants", 0),
        ("事务-1", 14),
    ],
)
def test_ids_live_where_kafka_looks_for_them(transactional_id: str, expected: int) -> None:
    assert partition_for(transactional_id, 50) == expected
    assert java_hash("polygenelubricants") == -(2**31)


def names(world: World, **filters: object) -> set[str]:
    return {each.transactional_id for each in world.list_all(**filters).transaction_states}


def three_ids() -> World:
    world = World(partition_count=2)
    world.init("empty")
    world.clock.advance(1_000)
    world.open(transactional_id="open")
    world.clock.advance(1_000)
    world.end(world.open(transactional_id="done"), transactional_id="done")
    return world


# scenario 97 of transactions
def test_unknown_states_are_named_and_the_others_count() -> None:
    world = three_ids()
    response = world.list_all(state_filters=["Ongoing", "Foo"])
    assert response.unknown_state_filters == ["Foo"]
    (listed,) = response.transaction_states
    assert (listed.transactional_id, listed.transaction_state) == ("open", "Ongoing")
    assert names(world, state_filters=["Foo"]) == set()
    assert world.list_all(state_filters=["Dead"]).unknown_state_filters == []


def test_every_filter_must_be_passed() -> None:
    world = three_ids()
    assert names(world) == {"empty", "open", "done"}
    assert names(world, producer_id_filters=[P]) == {"empty"}
    assert names(world, transactional_id_pattern="") == {"empty", "open", "done"}
    assert names(world, transactional_id_pattern="op") == set()
    assert names(world, transactional_id_pattern="o.*|done") == {"open", "done"}
    # What has no beginning passes: its start is -1.
    assert names(world, duration_filter=500) == {"empty", "open"}
    assert names(world, duration_filter=1_000) == {"empty"}
    assert names(world, duration_filter=0) == {"empty", "open"}


@pytest.mark.parametrize(
    "pattern",
    ["(", "(a+)+", "(a*b?)*", "(?:x|y+){1,9}", r"(a)\1", "(?=a)a", ".*.*.*.*.*", "(" * 2_000 + ")" * 2_000],
)
def test_patterns_that_make_no_sense_or_take_too_long_are_refused(pattern: str) -> None:
    world = World()
    world.init("a" * 40 + "!")
    assert world.list_all(transactional_id_pattern=pattern).error_code == ErrorCode.invalid_regular_expression


@pytest.mark.parametrize(
    "pattern",
    [
        "ord.*-[0-9]+",
        "(orders|o)?-?r?d?.*",
        "orders-1",
        "^orders.1$",
        "[^x]{8}",
        r"\Qorders-\E.",
        r"\Qorders-1",
        r"orders-1\z",
        r"\w+-\d",
    ],
)
def test_patterns_as_people_write_them_match_the_whole_id(pattern: str) -> None:
    world = World()
    world.init("orders-1")
    assert names(world, transactional_id_pattern=pattern) == {"orders-1"}


def test_while_a_shard_loads_the_list_is_not_known() -> None:
    world = World(elect=False)
    assert world.list_all().transaction_states == []
    world.elect()
    assert world.list_all().error_code == ErrorCode.coordinator_load_in_progress
    world.coordinator.shards.stop()
    assert world.list_all().error_code == ErrorCode.coordinator_not_available


def test_a_transaction_is_described_as_it_is() -> None:
    world = World()
    started_ms = world.clock.timestamp_ms()
    identity = world.open(OUT_0, OUT_1)
    described = world.describe()
    assert (described.transaction_state, described.transaction_timeout_ms) == ("Ongoing", 60_000)
    assert (described.producer_id, described.producer_epoch) == identity
    assert described.transaction_start_time_ms == started_ms
    assert [(topic.topic, topic.partitions) for topic in described.topics] == [("out", [0, 1])]
    world.end(identity)
    done = world.describe(T)
    assert (done.transaction_state, done.topics) == ("CompleteCommit", [])
    assert done.transaction_start_time_ms == started_ms


def test_an_unknown_id_is_not_found() -> None:
    assert World().describe().error_code == ErrorCode.transactional_id_not_found
