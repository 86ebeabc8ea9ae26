"""From `group.consumer.assignors` to assignors: names, paths, entry points, and errors with a way out."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

from klamm.assignors.server import GroupAssignor, GroupSpec, Target, load_group_assignors
from klamm.assignors.server.registry import ENTRY_POINT_GROUP
from klamm.assignors.server.uniform import UniformAssignor
from klamm.config import ConfigError

OWN_PATH = f"{__name__}:OwnAssignor"


class OwnAssignor(UniformAssignor):
    """As a user would derive one."""

    name = "own"


class NamelessGroupAssignor(UniformAssignor):
    """Forgot the name."""

    name = ""


class HalfGroupAssignor(GroupAssignor):
    """Forgot to assign."""

    name = "half"


class ChoosyAssignor(GroupAssignor):
    """Wants an argument."""

    name = "choosy"

    def __init__(self, weight: int) -> None:
        self._weight = weight

    def assign(self, group: GroupSpec) -> Target:
        return {}


def test_the_first_name_is_the_default() -> None:
    assert list(load_group_assignors("uniform, range")) == ["uniform", "range"]
    assert list(load_group_assignors(["rack", "rack-leader"])) == ["rack", "rack-leader"]


def test_kafkas_class_names_mean_its_built_in_assignors() -> None:
    names = "org.apache.kafka.coordinator.group.assignor.UniformAssignor"
    assert list(load_group_assignors(names)) == ["uniform"]


def test_an_own_assignor_is_loaded_by_its_path_and_known_by_its_name() -> None:
    assert type(load_group_assignors(f"uniform,{OWN_PATH}", {})["own"]).__name__ == "OwnAssignor"


def test_an_own_assignor_is_found_by_the_name_of_its_entry_point() -> None:
    installed = {"mine": EntryPoint("mine", OWN_PATH, ENTRY_POINT_GROUP)}
    assert list(load_group_assignors("mine", installed)) == ["own"]


@pytest.mark.parametrize(
    ("names", "hint"),
    [
        ("", "must name at least one assignor, such as uniform"),
        (" , ", "must name at least one assignor"),
        ("unifrom", "did you mean uniform"),
        ("xyz", "known are rack, rack-leader, range, uniform, or write package.module:Class"),
        ("no.such.module:Thing", "cannot load 'no.such.module:Thing': No module named"),
        (f"{__name__}:Missing", "has no attribute 'Missing'"),
        (
            f"{__name__}:OWN_PATH",
            "is not a GroupAssignor; derive it from klamm.assignors.server.GroupAssignor",
        ),
        (f"{__name__}:NamelessGroupAssignor", "NamelessGroupAssignor needs a name"),
        (f"{__name__}:HalfGroupAssignor", "cannot make .*HalfGroupAssignor.*assign"),
        (f"{__name__}:ChoosyAssignor", "cannot make .*ChoosyAssignor.*weight"),
        ("uniform,range,uniform", "'uniform' is used twice, by UniformAssignor and UniformAssignor"),
        ("klamm.assignors.range:RangeAssignor", "is not a GroupAssignor"),
    ],
)
def test_a_name_that_cannot_be_used_is_refused_with_a_way_out(names: str, hint: str) -> None:
    with pytest.raises(ConfigError, match=hint) as refused:
        load_group_assignors(names, {})
    assert refused.value.name == "group.consumer.assignors"


def test_a_module_that_fails_while_it_is_imported_is_named(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path_factory.mktemp("broken")
    (folder / "broken_sharing.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(str(folder))
    with pytest.raises(ConfigError, match="cannot load 'broken_sharing:Mine': ZeroDivisionError"):
        load_group_assignors("broken_sharing:Mine", {})
