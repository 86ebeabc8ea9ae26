"""Named tuples that compile nothing, beside those of the standard library."""

from __future__ import annotations

import copy
import inspect
import pickle
import typing
from typing import Any

import pytest

from klamm.protocol.named_tuple import _CONSTRUCTORS, NamedTuple


class Pair(NamedTuple):
    """Two numbers."""

    first: int
    second: int = 7

    @property
    def total(self) -> int:
        return self.first + self.second


class StandardPair(typing.NamedTuple):
    """Two numbers."""

    first: int
    second: int = 7

    @property
    def total(self) -> int:
        return self.first + self.second


def test_it_has_all_that_a_named_tuple_of_the_standard_library_has() -> None:
    assert set(dir(StandardPair)) - set(dir(Pair)) <= {"__orig_bases__"}
    for name in ("_fields", "_field_defaults", "__match_args__", "__doc__", "__slots__"):
        assert getattr(Pair, name, ()) == getattr(StandardPair, name, ()), name
    assert type(Pair) is type
    assert Pair.__bases__ == (tuple,)
    assert typing.get_type_hints(Pair) == typing.get_type_hints(StandardPair)
    assert list(inspect.signature(Pair).parameters) == ["first", "second"]


def test_objects_are_made_compared_and_shown_as_those_of_the_standard_library() -> None:
    for arguments, named in (((1,), {}), ((1, 2), {}), ((), {"second": 3, "first": 1})):
        ours: Any = Pair(*arguments, **named)
        standard: Any = StandardPair(*arguments, **named)
        assert ours == standard
        assert hash(ours) == hash(standard)
        assert ours.total == standard.total
        assert repr(ours) == repr(standard).replace("Standard", "")
        assert ours._asdict() == standard._asdict()
        assert ours._replace(second=9) == standard._replace(second=9)
    assert Pair._make([4, 5]) == (4, 5)
    match Pair(1, 2):
        case Pair(first, second):
            assert (first, second) == (1, 2)


def test_wrong_arguments_are_refused() -> None:
    made: Any = Pair
    with pytest.raises(TypeError, match=r"Pair.__new__\(\) missing 1 required positional argument: 'first'"):
        made()
    with pytest.raises(TypeError, match="unexpected keyword argument 'third'"):
        made(1, third=3)
    with pytest.raises(TypeError, match="Expected 2 arguments, got 3"):
        made._make([1, 2, 3])
    with pytest.raises(ValueError, match="third"):
        made(1)._replace(third=3)
    with pytest.raises(AttributeError):
        made(1).first = 2


def test_objects_can_be_copied_and_pickled() -> None:
    pair = Pair(1, 2)
    assert copy.deepcopy(pair) == pair
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        found = pickle.loads(pickle.dumps(pair, protocol))
        assert found == pair
        assert type(found) is Pair


@pytest.mark.parametrize("count", range(len(_CONSTRUCTORS) + 2))
def test_each_number_of_fields_has_its_constructor(count: int) -> None:
    names = [f"field_{number}" for number in range(count)]
    body = {"__module__": __name__, "__annotations__": dict.fromkeys(names, "int")}
    base: Any = NamedTuple
    made: Any = type(base)("Made", (base,), body)
    assert made(*range(count)) == tuple(range(count))
    found = made(**{name: number for number, name in enumerate(names)})
    assert [getattr(found, name) for name in names] == list(range(count))
    with pytest.raises(TypeError):
        made(*range(count + 1))
