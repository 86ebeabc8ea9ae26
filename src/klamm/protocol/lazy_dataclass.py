"""Dataclasses that compile nothing until they are used.

The standard library compiles five methods for every dataclass, which takes half a millisecond. A broker
imports fifty of them when it starts, and uses half of these before the first request, most of them once. Here
only `__init__` is compiled, and only for a class of which some objects were made; the other methods are the
same for all classes.

Of the options there are `slots`, which must be given, `frozen` and `kw_only`, and for fields
`default_factory`, `init=False`, `repr` and `compare`. Fields are not inherited. For type checkers and for the
functions of `dataclasses` these are dataclasses like any other.

It is in this package because nearly all others may import it.
"""

from __future__ import annotations

from operator import attrgetter

_FEW = 8  # objects that are made in less time than it takes to compile `__init__`

__all__ = ["dataclass", "field", "field_names", "replace"]

TYPE_CHECKING = False  # type checkers know the name; importing typing takes two milliseconds

if TYPE_CHECKING:
    from collections.abc import Callable
    from dataclasses import dataclass, field, replace
    from typing import Any
else:

    def dataclass(*, slots, frozen=False, kw_only=False):
        """As `dataclasses.dataclass`."""
        assert slots
        return lambda declared: _declare(declared, frozen=frozen, kw_only=kw_only)

    def field(**options):
        """As `dataclasses.field`."""
        return _Options(options)

    def replace(instance, /, **changes):
        """As `dataclasses.replace`."""
        fields = type(instance).__lazy_fields__
        values = {name: getattr(instance, name) for name in fields.names if fields.has(name, "init")}
        return type(instance)(**(values | changes))


def field_names(declared: type) -> list[str]:
    """The names of all fields of such a class, in their order."""
    fields: _Fields = declared.__lazy_fields__  # type: ignore[attr-defined]
    return fields.names


class _Options(dict[str, "Any"]):
    """The options of a field, in place of its default."""


_NO_OPTIONS = _Options()


class _Fields:
    """The fields of a class."""

    __slots__ = ("_key", "declared", "defaults", "is_frozen", "is_kw_only", "made", "names", "owner")

    def __init__(self, declared: type, *, frozen: bool, kw_only: bool) -> None:
        self.declared = declared  # as it was written, without slots
        self.owner = declared  # soon the class with slots
        self.is_frozen = frozen
        self.is_kw_only = kw_only
        namespace = declared.__dict__
        annotations: dict[str, str] = namespace.get("__annotations__", {})
        self.names = [name for name, kind in annotations.items() if not kind.startswith("ClassVar")]
        self.defaults = {name: namespace[name] for name in self.names if name in namespace}
        self.made = 0  # objects, as long as `__init__` is not compiled
        self._key: Callable[[object], object] | None = None

    def has(self, name: str, part: str) -> bool:
        """Whether a field is part of `init`, `repr` or `compare`."""
        default = self.defaults.get(name)
        return not isinstance(default, _Options) or bool(default.get(part, True))

    def key(self, instance: object) -> object:
        """What is compared and hashed."""
        if self._key is None:
            compared = [name for name in self.names if self.has(name, "compare")]
            self._key = attrgetter(*compared) if compared else type
        return self._key(instance)

    def fill(self, instance: object, arguments: tuple[object, ...], named: dict[str, Any]) -> bool:
        """Do as `__init__` does; False, and nothing is done, if the arguments are wrong."""
        in_init = [name for name in self.names if self.has(name, "init")]
        if len(arguments) > (0 if self.is_kw_only else len(in_init)):
            return False
        given = dict(zip(in_init, arguments, strict=False))
        missing = [name for name in in_init if name not in given and name not in named]
        if len(given) + len(named) + len(missing) != len(in_init):
            return False
        for name in missing:
            default = self.defaults.get(name, _NO_OPTIONS)
            if isinstance(default, _Options) and "default_factory" not in default:
                return False
        set_field = object.__setattr__ if self.is_frozen else setattr
        for name in in_init:
            if name in given:
                value = given[name]
            elif name in named:
                value = named[name]
            else:
                value = self.defaults[name]
                if isinstance(value, _Options):
                    value = value["default_factory"]()
            set_field(instance, name, value)
        if hasattr(self.owner, "__post_init__"):
            instance.__post_init__()  # type: ignore[attr-defined]
        return True

    def compile_init(self) -> Callable[..., None]:
        """The method `__init__`."""
        in_init = [name for name in self.names if self.has(name, "init")]
        parameters = ["self", "*"] if self.is_kw_only and in_init else ["self"]
        lines = ["pass"]
        scope: dict[str, Any] = {"_missing": object()}
        for name in in_init:
            default = self.defaults.get(name)
            value = name
            if isinstance(default, _Options) and "default_factory" in default:
                scope[f"_new_{name}"] = default["default_factory"]
                value = f"_new_{name}() if {name} is _missing else {name}"
                parameters.append(f"{name}=_missing")
            elif name in self.defaults and not isinstance(default, _Options):
                scope[f"_default_{name}"] = default
                parameters.append(f"{name}=_default_{name}")
            else:
                parameters.append(name)
            if self.is_frozen:
                scope[f"_set_{name}"] = self.owner.__dict__[name].__set__
                lines.append(f"_set_{name}(self, {value})")
            else:
                lines.append(f"self.{name} = {value}")
        if hasattr(self.owner, "__post_init__"):
            lines.append("self.__post_init__()")
        exec(f"def __init__({', '.join(parameters)}):\n " + "\n ".join(lines), scope)
        init: Callable[..., None] = scope["__init__"]
        init.__qualname__ = f"{self.owner.__qualname__}.__init__"
        return init


class _StandardFields:
    """The attribute `__dataclass_fields__`, made by the standard library when it is read."""

    __slots__ = ("_fields",)

    def __init__(self, fields: _Fields) -> None:
        self._fields = fields

    def __get__(self, instance: object, owner: type) -> dict[str, Any]:
        import dataclasses  # noqa: PLC0415 -- the rest works without

        fields = self._fields
        for name, default in fields.defaults.items():
            if isinstance(default, _Options):
                setattr(fields.declared, name, dataclasses.field(**default))
        made: Any = dataclasses.dataclass(frozen=fields.is_frozen, kw_only=fields.is_kw_only)(fields.declared)
        owner_of_both: Any = fields.owner
        owner_of_both.__dataclass_params__ = made.__dataclass_params__
        owner_of_both.__dataclass_fields__ = found = made.__dataclass_fields__
        return dict(found)


def _declare(declared: type, *, frozen: bool, kw_only: bool) -> type:
    assert not any(hasattr(base, "__dataclass_fields__") for base in declared.__bases__)
    assert "__eq__" not in declared.__dict__
    fields = _Fields(declared, frozen=frozen, kw_only=kw_only)
    namespace = {
        **_METHODS,
        **(_FROZEN_METHODS if frozen else {}),
        **{name: each for name, each in declared.__dict__.items() if name not in fields.defaults},
        "__dataclass_fields__": _StandardFields(fields),
        "__lazy_fields__": fields,
        "__match_args__": () if kw_only else tuple(fields.names),
        "__qualname__": declared.__qualname__,
        "__slots__": tuple(fields.names),
    }
    del namespace["__dict__"], namespace["__weakref__"]
    fields.owner = type(declared)(declared.__name__, declared.__bases__, namespace)
    return fields.owner


def _init(self: Any, *arguments: object, **named: object) -> None:
    fields: _Fields = self.__lazy_fields__
    fields.made += 1
    if fields.made <= _FEW and fields.fill(self, arguments, named):
        return
    init = fields.compile_init()
    fields.owner.__init__ = init  # type: ignore[misc]
    init(self, *arguments, **named)


def _repr(self: Any) -> str:
    fields: _Fields = self.__lazy_fields__
    shown = (f"{name}={getattr(self, name)!r}" for name in fields.names if fields.has(name, "repr"))
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _equals(self: Any, other: object) -> Any:
    fields: _Fields = self.__lazy_fields__
    return fields.key(self) == fields.key(other) if other.__class__ is self.__class__ else NotImplemented


def _hash(self: Any) -> int:
    fields: _Fields = self.__lazy_fields__
    return hash(fields.key(self))


def _refuse_to_set(self: object, name: str, value: object) -> None:
    from dataclasses import FrozenInstanceError  # noqa: PLC0415 -- it is a mistake in a program

    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(self: object, name: str) -> None:
    from dataclasses import FrozenInstanceError  # noqa: PLC0415 -- it is a mistake in a program

    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _get_state(self: Any) -> list[object]:
    return [getattr(self, name) for name in self.__lazy_fields__.names]


def _set_state(self: Any, state: list[object]) -> None:
    for name, value in zip(self.__lazy_fields__.names, state, strict=True):
        object.__setattr__(self, name, value)


_METHODS = {"__init__": _init, "__repr__": _repr, "__eq__": _equals, "__hash__": None}
_FROZEN_METHODS = {
    "__hash__": _hash,
    "__setattr__": _refuse_to_set,
    "__delattr__": _refuse_to_delete,
    "__getstate__": _get_state,
    "__setstate__": _set_state,
}
