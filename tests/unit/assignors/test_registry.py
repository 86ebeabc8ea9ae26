"""From the setting to assignors: names, classes, instances, paths, entry points."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

from klamm.assignors import COOPERATIVE, EAGER, Assignor, RebalanceProtocol
from klamm.assignors.cooperative_sticky import CooperativeStickyAssignor
from klamm.assignors.loading import installed
from klamm.assignors.range import RangeAssignor
from klamm.assignors.registry import (
    BUILT_IN,
    ENTRY_POINT_GROUP,
    common_protocol,
    load_assignors,
)
from klamm.config import ConfigError
from unit.assignors.own import HalfAssignor, NamelessAssignor, WeightedAssignor

OWN_PATH = "unit.assignors.own:WeightedAssignor"


class OnlyCooperative(RangeAssignor):
    """Cannot do without the cooperative protocol."""

    name = "only-cooperative"
    supported_protocols = (COOPERATIVE,)


def test_the_built_in_assignors_have_kafkas_names_and_klamms_own() -> None:
    assert set(BUILT_IN) == {
        "range",
        "roundrobin",
        "sticky",
        "cooperative-sticky",
        "random",
        "broadcast",
        "rack-leader",
    }


@pytest.mark.parametrize(
    "strategies",
    [
        "range,cooperative-sticky",
        " range , cooperative-sticky ",
        ["range", "cooperative-sticky"],
        [RangeAssignor, CooperativeStickyAssignor()],
        (RangeAssignor(), "cooperative-sticky"),
    ],
)
def test_assignors_come_from_text_classes_and_instances_in_the_order_of_preference(
    strategies: str | list[str | type[Assignor] | Assignor],
) -> None:
    assert [type(each) for each in load_assignors(strategies)] == [RangeAssignor, CooperativeStickyAssignor]


@pytest.mark.parametrize("strategy", [RangeAssignor, RangeAssignor()])
def test_one_class_or_instance_needs_no_list(strategy: type[Assignor] | Assignor) -> None:
    assert [each.name for each in load_assignors(strategy)] == ["range"]


def test_an_instance_is_used_as_it_is() -> None:
    mine = WeightedAssignor(3)
    assert load_assignors([mine])[0] is mine


def test_an_assignor_is_loaded_by_its_path_and_configured() -> None:
    (assignor,) = load_assignors(OWN_PATH, {"weight": "5"})
    assert assignor.name == "weighted"
    assert assignor.subscription_user_data(frozenset()) == b"\x05"


def test_an_assignor_is_found_by_the_name_of_its_entry_point() -> None:
    points = {"heavy": EntryPoint("heavy", OWN_PATH, ENTRY_POINT_GROUP)}
    (assignor,) = load_assignors("heavy", {}, points)
    assert isinstance(assignor, WeightedAssignor)


def test_the_entry_points_of_this_environment_can_be_listed() -> None:
    assert all(point.group == ENTRY_POINT_GROUP for point in installed(ENTRY_POINT_GROUP).values())


def test_no_strategy_is_no_assignor() -> None:
    assert load_assignors("") == []
    assert load_assignors([]) == []


@pytest.mark.parametrize(
    ("strategies", "hint"),
    [
        ("rnage", "did you mean range"),
        ("xyz", "known are .*cooperative-sticky"),
        ("no.such.module:Thing", "No module named"),
        ("unit.assignors.own:Missing", "has no attribute 'Missing'"),
        (":Thing", "cannot load ':Thing'"),
        ("unit.assignors.own:NOT_AN_ASSIGNOR", "derive it from"),
        ([NamelessAssignor], "NamelessAssignor needs a name"),
        ([HalfAssignor], "assign_partitions"),
        ([42], "42 is not an Assignor"),
        ("range,sticky,range", "'range' is used twice, by RangeAssignor and RangeAssignor"),
        ([WeightedAssignor, WeightedAssignor(2)], "'weighted' is used twice"),
        (["range", OnlyCooperative], r"range \(EAGER\), only-cooperative \(COOPERATIVE\)"),
    ],
)
def test_a_strategy_that_cannot_be_used_is_refused_with_a_way_out(
    strategies: str | list[str | type[Assignor] | Assignor], hint: str
) -> None:
    with pytest.raises(ConfigError, match=hint) as refused:
        load_assignors(strategies, {}, {})
    assert refused.value.name == "partition.assignment.strategy"
    assert "partition.assignment.strategy" in str(refused.value)


def test_a_broken_entry_point_says_where_it_points() -> None:
    points = {"heavy": EntryPoint("heavy", "no.such:Thing", ENTRY_POINT_GROUP)}
    with pytest.raises(ConfigError, match=r"heavy is installed as no\.such:Thing"):
        load_assignors("heavy", {}, points)


@pytest.mark.parametrize(
    ("strategies", "protocol"),
    [
        ("range", EAGER),
        ("range,cooperative-sticky", EAGER),
        ("cooperative-sticky", COOPERATIVE),
        ([CooperativeStickyAssignor, OnlyCooperative], COOPERATIVE),
    ],
)
def test_the_protocol_is_the_highest_that_all_support(
    strategies: str | list[type[Assignor]], protocol: RebalanceProtocol
) -> None:
    assert common_protocol(load_assignors(strategies)) is protocol


def test_kafkas_assignors_are_known_by_their_java_classes() -> None:
    package = "org.apache.kafka.clients.consumer"
    classes = f"{package}.RangeAssignor,{package}.CooperativeStickyAssignor"
    assert [each.name for each in load_assignors(classes)] == ["range", "cooperative-sticky"]
