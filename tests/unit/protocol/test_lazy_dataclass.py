"""Lazy dataclasses behave as those of the standard library."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import subprocess
import sys
from typing import Any, ClassVar

import pytest

from klamm.protocol.lazy_dataclass import dataclass, field, field_names, replace


@dataclass(frozen=True, slots=True)
class Place:
    """Where a record is."""

    kind: ClassVar[str] = "place"

    topic: str
    partition: int = 0
    notes: list[str] = field(default_factory=list, compare=False)
    text: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", f"{self.topic}-{self.partition}")


@dataclasses.dataclass(frozen=True, slots=True)
class StandardPlace:
    """The same, by the standard library."""

    kind: ClassVar[str] = "place"

    topic: str
    partition: int = 0
    notes: list[str] = dataclasses.field(default_factory=list, compare=False)
    text: str = dataclasses.field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", f"{self.topic}-{self.partition}")


@dataclass(slots=True, kw_only=True)
class Count:
    """A mutable one, whose fields are given by name."""

    requests: int = 0
    errors: int


@dataclasses.dataclass(slots=True, kw_only=True)
class StandardCount:
    """The same, by the standard library."""

    requests: int = 0
    errors: int


PLACES = pytest.mark.parametrize("place", [Place, StandardPlace])
COUNTS = pytest.mark.parametrize("count", [Count, StandardCount])


@PLACES
def test_an_object_has_what_was_given_defaults_and_what_follows(place: Any) -> None:
    made = place("orders", notes=["new"])
    assert (made.topic, made.partition, made.notes, made.text) == ("orders", 0, ["new"], "orders-0")
    assert place("orders").notes == []
    assert place("orders").notes is not place("orders").notes
    assert place.kind == made.kind == "place"


@PLACES
def test_equality_and_hash_leave_out_what_is_not_compared(place: Any) -> None:
    assert place("orders", 1, ["new"]) == place("orders", 1)
    assert hash(place("orders", 1, ["new"])) == hash(place("orders", 1))
    assert place("orders", 1) != place("orders", 2)
    assert place("orders") != ("orders", 0)


@PLACES
def test_it_prints_its_fields(place: Any) -> None:
    assert repr(place("orders", 1)) == f"{place.__name__}(topic='orders', partition=1, notes=[])"


@PLACES
def test_a_frozen_one_does_not_change(place: Any) -> None:
    made = place("orders")
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'topic'"):
        made.topic = "other"
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'topic'"):
        del made.topic


@PLACES
def test_copies_have_the_same_fields(place: Any) -> None:
    made = place("orders", 1)
    copies = (copy.copy(made), copy.deepcopy(made), pickle.loads(pickle.dumps(made)))
    assert all(each == made and each.text == "orders-1" for each in copies)


@PLACES
def test_the_functions_of_the_standard_library_accept_it(place: Any) -> None:
    made = place("orders", 1)
    assert dataclasses.is_dataclass(type(made))
    assert [each.name for each in dataclasses.fields(place)] == ["topic", "partition", "notes", "text"]
    assert dataclasses.replace(made, topic="other") == place("other", 1)
    assert dataclasses.asdict(made) == {"topic": "orders", "partition": 1, "notes": [], "text": "orders-1"}


@PLACES
def test_wrong_arguments_are_refused_by_name(place: Any) -> None:
    with pytest.raises(TypeError, match=rf"{place.__name__}.__init__\(\) missing 1 .* 'topic'"):
        place()
    with pytest.raises(TypeError, match="'text'"):
        place("orders", text="orders-0")


@PLACES
def test_patterns_match_its_fields(place: Any) -> None:
    match place("orders", 1):
        case place(topic, partition):
            assert (topic, partition) == ("orders", 1)
        case _:
            pytest.fail("no match")


@COUNTS
def test_fields_by_name_only(count: Any) -> None:
    assert count(errors=1) == count(requests=0, errors=1)
    with pytest.raises(TypeError, match="positional"):
        count(1, 2)
    assert count.__match_args__ == ()


@COUNTS
def test_a_mutable_one_changes_and_has_no_hash(count: Any) -> None:
    made = count(errors=1)
    made.errors += 1
    assert made == count(errors=2)
    with pytest.raises(TypeError, match="unhashable"):
        hash(made)
    with pytest.raises(AttributeError):
        made.other = 1


def test_an_object_with_other_values() -> None:
    assert replace(Place("orders", 1, ["new"]), partition=2) == Place("orders", 2)
    assert replace(Place("orders", 1), partition=2).text == "orders-2"


def test_the_names_of_its_fields() -> None:
    assert list(field_names(Place)) == ["topic", "partition", "notes", "text"]


def test_it_needs_no_other_module() -> None:
    code = "import sys; import klamm.protocol.lazy_dataclass; print('dataclasses' in sys.modules)"
    path = {"PYTHONPATH": ":".join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=path, check=True)
    assert done.stdout == "False\n"


@pytest.mark.parametrize("made", [Place, Count], ids=["positional", "by name"])
def test_the_first_objects_are_made_as_those_of_compiled_classes(made: Any) -> None:
    fields = made.__lazy_fields__
    compiled = fields.compile_init()
    good: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        (("t",), {}), (("t", 1), {}), (("t",), {"partition": 2}), ((), {"topic": "t", "notes": ["n"]}),
        ((), {"errors": 1}), ((), {"errors": 1, "requests": 2}),
    ]  # fmt: skip
    bad: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        ((), {}), (("t", 1, [], 4), {}), (("t",), {"topic": "u"}), (("t",), {"text": "t-0"}),
        ((), {"other": 1}), ((1,), {}), ((), {"errors": 1, "other": 2}),
    ]  # fmt: skip
    results = []
    for arguments, named in [*good, *bad]:
        filled, initialized = object.__new__(made), object.__new__(made)
        try:
            compiled(initialized, *arguments, **named)
        except TypeError:
            assert not fields.fill(filled, arguments, named)
            results.append(False)
        else:
            assert fields.fill(filled, arguments, named)
            assert filled == initialized
            assert repr(filled) == repr(initialized)
            results.append(True)
    assert True in results
    assert False in results
