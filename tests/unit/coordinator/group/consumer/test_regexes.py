"""Subscriptions by regular expression, which the broker resolves."""

from __future__ import annotations

import pytest

from klamm.coordinator.group.consumer.regexes import matching_topics
from klamm.protocol.errors import ErrorCode
from unit.coordinator.group.consumer.driver import GroupWorld
from unit.coordinator.group.consumer.names import ALL


@pytest.fixture
def world() -> GroupWorld:
    return GroupWorld()


def test_the_topics_come_with_the_next_heartbeat(world: GroupWorld) -> None:
    # scenario 47 of consumer groups
    assert world.beat("A", 0, regex="t.*").got == ""
    world.pass_ms(1)
    beat = world.beat("A", 1)
    assert (beat.epoch, beat.got) == (2, ALL)
    (member,) = world.described().members
    assert member.subscribed_topic_regex == "t.*"


@pytest.mark.parametrize("regex", [r"(a)\1", "t(?=x)", "(", "a" * 2_000])
def test_what_is_no_regular_expression_of_re2_is_refused(world: GroupWorld, regex: str) -> None:
    # scenario 48 of consumer groups
    world.beat("A", 0)
    assert world.beat("A", 1, regex=regex).error is ErrorCode.invalid_regular_expression
    assert world.members().memory.members["A"].regex == ""
    assert world.beat("A", 1).epoch == 1


def test_whole_names_match() -> None:
    # scenario 49 of consumer groups
    found = matching_topics(["foo", "foo.*"], ["foobar", "foo", "xfoo"])
    assert found == {"foo": ("foo",), "foo.*": ("foo", "foobar")}


def test_no_expression_takes_long() -> None:
    # scenario 55 of consumer groups
    assert matching_topics(["(a+)+$"], ["a" * 60 + "b"] * 1_000) == {"(a+)+$": ()}


def test_a_new_topic_that_matches_raises_the_epoch_once(world: GroupWorld) -> None:
    # scenario 50 of consumer groups
    world.beat("A", 0, regex="t.*")
    world.pass_ms(1)
    world.beat("A", 1)
    world.topics.create("t2", 1)
    assert world.beat("A", 2).epoch == 2  # the last pass was a moment ago
    world.pass_ms(10_000)
    world.beat("A", 2)
    world.pass_ms(1)
    beat = world.beat("A", 2)
    assert (beat.epoch, beat.got) == (3, f"{ALL} t2-0")
    assert world.beat("A", 3).epoch == 3


def test_a_second_member_with_the_same_expression_gets_its_share_at_once(world: GroupWorld) -> None:
    # scenario 51 of consumer groups
    world.beat("A", 0, regex="t.*")
    world.pass_ms(1)
    world.beat("A", 1)
    assert world.beat("B", 0, regex="t.*").epoch == 3


def test_names_and_expressions_add_up_and_one_that_is_given_up_goes(world: GroupWorld) -> None:
    # scenario 52 of consumer groups
    world.beat("A", 0, regex="t.*", topics="u")
    world.pass_ms(1)
    assert world.beat("A", 1).got == f"{ALL} u-0 u-1 u-2"
    records = world.log.end_offset
    beat = world.beat("A", 2, regex="", owned="u-0 u-1 u-2")
    assert (beat.epoch, beat.got) == (3, "u-0 u-1 u-2")
    assert 16 in world.kinds(records)
    assert not world.members().memory.regexes


def test_the_last_user_takes_the_expression_along(world: GroupWorld) -> None:
    # scenario 53 of consumer groups
    world.beat("A", 0, regex="t.*")
    world.beat("B", 0)
    world.pass_ms(1)
    records = world.log.end_offset
    world.beat("A", -1)
    assert world.kinds(records) == [8, 7, 5, 16, 3]


def test_expressions_survive_a_restart(world: GroupWorld) -> None:
    world.beat("A", 0, regex="t.*")
    world.pass_ms(1)
    world.beat("A", 1)
    world.restart()
    assert world.beat("A", 2).epoch == 2
    world.pass_ms(1)
    assert world.beat("A", 2).epoch == 2


def test_a_match_that_cannot_be_written_is_found_again(world: GroupWorld) -> None:
    world.beat("A", 0, regex="t.*")
    world.log.refuse_with = ErrorCode.kafka_storage_error
    world.pass_ms(1)
    world.log.refuse_with = None
    world.pass_ms(10_000)
    world.beat("A", 1)
    world.pass_ms(1)
    assert world.beat("A", 1).got == ALL
