"""`klamm demo` where something is missing, and what its screens show."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from klamm.cli.demo.command import is_spark_here
from klamm.cli.demo.screen import LiveScreen, PlainScreen
from klamm.cli.demo.watching import GenerationFollower, View
from klamm.client.admin.model import GroupDescription, MemberDescription
from klamm.client.diagnosis.lag import GroupLag
from klamm.groups.lag import LogRange, PartitionLag
from klamm.protocol.types import TopicPartition
from klamm.spark.setup import sessions
from klamm.spark.setup.java import SparkSetupError


def test_without_spark_the_demo_says_so_in_one_line_and_goes_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing() -> None:
        raise SparkSetupError("the pipeline needs pyspark: pip install 'klamm[spark]'")

    monkeypatch.setattr(sessions, "check_versions", missing)
    assert not is_spark_here()
    said = capsys.readouterr()
    assert said.err == "without Spark: the pipeline needs pyspark: pip install 'klamm[spark]'\n"
    assert said.out == ""


def test_a_long_step_is_told_in_lines(capsys: pytest.CaptureFixture[str]) -> None:
    with PlainScreen() as screen:
        screen.say("Spark starts")
        screen.still("5 s: Java starts")
    assert capsys.readouterr().out == "Spark starts\n  5 s: Java starts\n"


def test_a_long_step_is_told_in_the_picture_until_the_next_one() -> None:
    screen = LiveScreen()
    screen.say("Spark starts")
    screen.still("5 s: Java starts")
    assert "Spark starts (5 s: Java starts)" in drawn(screen)
    screen.say("Spark is done")
    assert "Java starts" not in drawn(screen)


FOUR, THREE = {"orders-0": "anna", "orders-1": "carl"}, {"orders-0": "anna", "orders-1": "bert"}


def test_an_assignment_has_no_generation_before_its_event() -> None:
    generations = GenerationFollower()
    assert generations.of(FOUR, 3) is None  # seen once: the event of a later generation may be on its way
    assert generations.of(FOUR, 3) == 3
    # When a member has left, and the event of generation 4 is not there
    assert [generations.of(THREE, 3) for _ in range(3)] == [None, None, None]
    assert generations.of(THREE, 4) == 4


def test_a_rebalance_that_moves_nothing_has_a_generation() -> None:
    generations = GenerationFollower()
    assert [generations.of(FOUR, told) for told in (3, 3, 4)] == [None, 3, 4]


def test_of_two_rebalances_in_a_row_the_second_one_is_named() -> None:
    generations = GenerationFollower()
    assert [generations.of(FOUR, told) for told in (1, 1)] == [None, 1]
    # The event of generation 2 is there when the assignment is already that of generation 3
    assert [generations.of(THREE, told) for told in (2, 3)] == [None, 3]


def test_a_line_has_the_assignment_of_its_generation(capsys: pytest.CaptureFixture[str]) -> None:
    anna = MemberDescription("anna-1", None, "anna", "/127.0.0.1", ("orders",), ())
    rows = [PartitionLag(TopicPartition("orders", 0), 7, LogRange(0, 9), "anna-1")]
    group = GroupLag(GroupDescription("billing", "Stable", "consumer", "range", 1, (anna,)), rows, {}, {})
    with PlainScreen() as screen:
        for generation in (None, None, 4, 4):
            screen.show(View(state="Stable", group=group, generation=generation), {})
    assert capsys.readouterr().out == "  generation 4, lag 2: orders-0 anna\n"


def drawn(screen: LiveScreen) -> str:
    console = Console(file=io.StringIO(), width=100, record=True)
    console.print(screen.picture())
    return console.export_text()
