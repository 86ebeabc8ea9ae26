"""`klamm demo` where something is missing, and what its screens show."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from klamm.cli.demo.command import is_spark_here
from klamm.cli.demo.screen import LiveScreen, PlainScreen
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


def drawn(screen: LiveScreen) -> str:
    console = Console(file=io.StringIO(), width=100, record=True)
    console.print(screen.picture())
    return console.export_text()
