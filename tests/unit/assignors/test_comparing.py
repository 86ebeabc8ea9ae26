"""Assignors side by side: what they give, what moves, how uneven they are; and `klamm assign`."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from klamm.assignors.comparing import SERVER_NAMES, Scenario, compare
from klamm.assignors.registry import BUILT_IN
from klamm.cli.app import app
from klamm.config import ConfigError

EVERY = [*BUILT_IN, *SERVER_NAMES]
EXAMPLE = ("assign", "--topics", "t0:2,t1:2,t2:2,t3:2", "--members", "C0,C1,C2", "--leave", "C1")


def scenario(members: str = "C0 C1 C2", racks: dict[str, str] | None = None, **topics: int) -> Scenario:
    every = frozenset(topics)
    return Scenario(topics=topics, subscriptions=dict.fromkeys(members.split(), every), racks=racks or {})


def shown(shares: object) -> dict[str, list[str]]:
    assert isinstance(shares, dict)
    return {member: [str(each) for each in held] for member, held in shares.items()}


@pytest.mark.parametrize("name", EVERY)
def test_every_assignor_gives_every_partition_before_and_after(name: str) -> None:
    (result,) = compare([name], scenario(t0=2, t1=3), leave=["C1"])
    for shares in (result.before, result.final):
        assert {str(each) for held in shares.values() for each in held} == {
            "t0-0", "t0-1", "t1-0", "t1-1", "t1-2",
        }  # fmt: skip
    assert list(result.final) == ["C0", "C2"]


def test_sticky_keeps_what_round_robin_moves() -> None:
    group = scenario(t0=2, t1=2, t2=2, t3=2)
    found = {each.assignor: each for each in compare(["roundrobin", "sticky"], group, ["C1"])}
    assert found["sticky"].before == found["roundrobin"].before
    assert [str(each) for each in found["roundrobin"].moved] == ["t1-0", "t1-1"]
    assert found["sticky"].moved == []
    assert shown(found["sticky"].final) == {
        "C0": ["t0-0", "t0-1", "t1-1", "t3-0"],
        "C2": ["t1-0", "t2-0", "t2-1", "t3-1"],
    }


def test_a_cooperative_assignor_takes_two_rebalances_where_something_moves() -> None:
    cooperative, eager = compare(["cooperative-sticky", "sticky"], scenario(t=6), join=["C2"])
    assert (cooperative.rounds, eager.rounds) == (2, 1)
    assert len(cooperative.moved) == len(eager.moved) == 2


def test_unevenness_is_that_of_the_result() -> None:
    (result,) = compare(["range"], scenario("a b", t0=3, t1=3))
    assert (result.unevenness, result.after, result.moved) == (2, None, [])


def test_racks_decide_where_an_assignor_looks_at_them() -> None:
    racks = {"a": "east", "b": "west"}
    for name in ("rack-leader", "server:rack-leader"):
        (result,) = compare([name], scenario("a b", racks, t=4))
        assert shown(result.before) == {"a": ["t-0", "t-2"], "b": ["t-1", "t-3"]}


def test_an_unknown_assignor_is_an_error() -> None:
    with pytest.raises(ConfigError, match="nosuch"):
        compare(["nosuch"], scenario(t=1))


def test_the_command_prints_tables_and_draws_a_picture(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, [*EXAMPLE, "--svg", str(tmp_path / "out.svg")])
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert lines[0] == "at first:"
    assert lines[1].split() == ["MEMBER", "RANGE", "ROUNDROBIN", "STICKY", "COOPERATIVE-STICKY", "UNIFORM"]
    assert "C1 left:" in lines
    assert any(line.split()[:3] == ["roundrobin", "0", "2:"] for line in lines)
    drawn = ElementTree.parse(tmp_path / "out.svg").getroot()
    texts = ["".join(each.itertext()) for each in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert texts.count("after the change") == 5
    assert texts.count("t0-0") == 10


def test_the_command_prints_json() -> None:
    done = CliRunner().invoke(app, [*EXAMPLE, "--compare", "sticky", "--json"])
    (found,) = json.loads(done.stdout)
    assert (found["assignor"], found["moved"], found["unevenness"]) == ("sticky", [], 0)


@pytest.mark.parametrize(
    "arguments",
    [
        "--topics t --members a",
        "--topics t:0 --members a",
        "--topics t:1 --members a --leave b",
        "--topics t:1 --members a --join a",
        "--topics t:1 --members a --subscribe b=t",
        "--topics t:1 --members a --subscribe a=u",
        "--topics t:1 --members a --racks b=east",
        "--topics t:1 --members a --compare nosuch",
    ],
)
def test_what_cannot_be_compared_is_refused(arguments: str) -> None:
    done = CliRunner().invoke(app, ["assign", *arguments.split()])
    assert done.exit_code == 2, done.output
    assert done.stderr.startswith("klamm: ")
