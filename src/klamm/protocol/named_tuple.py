"""Named tuples that compile nothing.

The standard library compiles a constructor for every named tuple, which takes a quarter of a millisecond. A
broker imports forty of them when it starts. Here the constructors of all classes with the same number of
fields share one code, except for the names of their parameters; they are as fast.

For type checkers these are the named tuples of the standard library, and a class has the same attributes. It
cannot be generic, and there is no call of `NamedTuple` that makes one.

It is in this package because nearly all others may import it.
"""

from __future__ import annotations

import sys
from collections import _tuplegetter, namedtuple  # type: ignore[attr-defined]
from types import FunctionType

__all__ = ["NamedTuple"]

TYPE_CHECKING = False  # type checkers know the name; importing typing takes two milliseconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, NamedTuple

_new: Any = tuple.__new__

# One for each number of fields. Classes with more of them have the standard library's.
_CONSTRUCTORS: tuple[Callable[..., Any], ...] = (
    lambda _cls: _new(_cls, ()),
    lambda _cls, a: _new(_cls, (a,)),
    lambda _cls, a, b: _new(_cls, (a, b)),
    lambda _cls, a, b, c: _new(_cls, (a, b, c)),
    lambda _cls, a, b, c, d: _new(_cls, (a, b, c, d)),
    lambda _cls, a, b, c, d, e: _new(_cls, (a, b, c, d, e)),
    lambda _cls, a, b, c, d, e, f: _new(_cls, (a, b, c, d, e, f)),
    lambda _cls, a, b, c, d, e, f, g: _new(_cls, (a, b, c, d, e, f, g)),
    lambda _cls, a, b, c, d, e, f, g, h: _new(_cls, (a, b, c, d, e, f, g, h)),
    lambda _cls, a, b, c, d, e, f, g, h, i: _new(_cls, (a, b, c, d, e, f, g, h, i)),
    lambda _cls, a, b, c, d, e, f, g, h, i, j: _new(_cls, (a, b, c, d, e, f, g, h, i, j)),
    lambda _cls, a, b, c, d, e, f, g, h, i, j, k: _new(_cls, (a, b, c, d, e, f, g, h, i, j, k)),
    lambda _cls, a, b, c, d, e, f, g, h, i, j, k, m: _new(_cls, (a, b, c, d, e, f, g, h, i, j, k, m)),
    lambda _cls, a, b, c, d, e, f, g, h, i, j, k, m, n: _new(_cls, (a, b, c, d, e, f, g, h, i, j, k, m, n)),
)


def _constructor(name: str, fields: tuple[str, ...], defaults: tuple[object, ...]) -> Any:
    if len(fields) >= len(_CONSTRUCTORS):
        return namedtuple(name, fields, defaults=defaults).__new__
    code = _CONSTRUCTORS[len(fields)].__code__.replace(
        co_name="__new__", co_qualname=f"{name}.__new__", co_varnames=("_cls", *fields)
    )
    return FunctionType(
        code, {"_new": _new, "__builtins__": {}, "__name__": f"namedtuple_{name}"}, None, defaults
    )


class _Maker(type):
    """Turns the body of a class into a named tuple, whose type is `type`."""

    def __new__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> Any:
        if not bases:
            return super().__new__(cls, name, bases, body)
        assert len(bases) == 1, f"{name} has other bases than NamedTuple"
        fields = tuple(map(sys.intern, body.get("__annotations__", ())))
        defaults = {field: body.pop(field) for field in fields if field in body}
        assert fields[len(fields) - len(defaults) :] == tuple(defaults), (
            f"{name}: a field without a default follows"
        )
        assert not _METHODS.keys() & body.keys(), f"{name} replaces an attribute of a named tuple"
        for index, field in enumerate(fields):
            assert not field.startswith("_"), f"{name}: field names cannot start with an underscore"
            body[field] = _tuplegetter(index, f"Alias for field number {index}")
        body.update(_METHODS)
        body["__new__"] = _constructor(name, fields, tuple(defaults.values()))
        body["__slots__"] = ()
        body["_fields"] = body["__match_args__"] = fields
        body["_field_defaults"] = defaults
        body.setdefault("__repr__", _repr)
        body.setdefault("__doc__", f"{name}({', '.join(fields)})")
        return type(name, (tuple,), body)


def _make(cls: Any, iterable: Iterable[object]) -> Any:
    """Make an object from a sequence or an iterable."""
    made = _new(cls, iterable)
    if len(made) != len(cls._fields):
        raise TypeError(f"Expected {len(cls._fields)} arguments, got {len(made)}")
    return made


def _replace(self: Any, /, **changes: object) -> Any:
    """A copy with other values of some fields."""
    made = self._make(map(changes.pop, self._fields, self))
    if changes:
        raise ValueError(f"Got unexpected field names: {list(changes)!r}")
    return made


def _asdict(self: Any) -> dict[str, Any]:
    """The values by the names of their fields."""
    return dict(zip(self._fields, self, strict=True))


def _repr(self: Any) -> str:
    shown = ", ".join(f"{field}={value!r}" for field, value in zip(self._fields, self, strict=True))
    return f"{type(self).__name__}({shown})"


def _arguments(self: Any) -> tuple[object, ...]:
    """What pickle and copy give to the constructor."""
    return tuple(self)


_METHODS: dict[str, Any] = {
    "__getnewargs__": _arguments,
    "_asdict": _asdict,
    "_make": classmethod(_make),
    "_replace": _replace,
}

if not TYPE_CHECKING:

    class NamedTuple(metaclass=_Maker):
        """As `typing.NamedTuple`."""
