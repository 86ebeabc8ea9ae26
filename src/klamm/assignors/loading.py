"""Finding assignors by name or as "package.module:Class", with errors that say what to write instead."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from importlib import import_module
from typing import TYPE_CHECKING, Protocol, TypeVar

from klamm.config import ConfigError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

T = TypeVar("T")


class HasName(Protocol):
    """Whatever has the name of an assignor."""

    name: str


def installed(entry_point_group: str) -> dict[str, EntryPoint]:
    """What other installed packages offer, by name."""
    from importlib.metadata import entry_points  # noqa: PLC0415 - takes as long as a tenth of klamm

    return {point.name: point for point in entry_points(group=entry_point_group)}


class Finder:
    """Finds the assignors of one setting."""

    def __init__(
        self,
        setting: str,
        built_in: Mapping[str, object],
        points: Mapping[str, EntryPoint] | None,
        group: str,
    ) -> None:
        self._setting = setting
        self._built_in = built_in
        self._points = points
        self._group = group

    def find(self, strategy: str) -> object:
        """What is built in, installed or imported under this text."""
        if strategy in self._built_in:
            return self._built_in[strategy]
        if ":" in strategy:
            return self._import(strategy)
        points = installed(self._group) if self._points is None else self._points
        if strategy in points:
            try:
                return points[strategy].load()
            except (ImportError, AttributeError) as error:
                point = points[strategy].value
                raise self.error(f"{strategy} is installed as {point}: {error}") from error
        known = sorted([*self._built_in, *points])
        near = get_close_matches(strategy, known, n=1)
        hint = (
            f"did you mean {near[0]}?"
            if near
            else f"known are {', '.join(known)}, or write package.module:Class"
        )
        raise self.error(f"unknown assignor {strategy!r}; {hint}")

    def made(self, found: object, kind: type[T], strategy: object) -> T:
        """An assignor of this kind, from its class or as it is."""
        if isinstance(found, type) and issubclass(found, kind):
            try:
                found = found()
            except TypeError as error:  # an abstract method left out, or an argument without default
                raise self.error(f"cannot make {strategy!r}: {error}") from error
        if not isinstance(found, kind):
            base = f"{kind.__module__.rpartition('.')[0]}.{kind.__name__}"
            raise self.error(f"{strategy!r} is not {_a(kind)}; derive it from {base}")
        name = getattr(found, "name", None)
        if not isinstance(name, str) or not name:
            raise self.error(f"{type(found).__name__} needs a name, it goes over the wire")
        return found

    def check_names(self, assignors: Iterable[HasName]) -> None:
        """On the wire a name means one assignor."""
        seen: dict[str, HasName] = {}
        for assignor in assignors:
            if assignor.name in seen:
                first, second = type(seen[assignor.name]).__name__, type(assignor).__name__
                raise self.error(
                    f"the name {assignor.name!r} is used twice, by {first} and {second}; "
                    "on the wire a name means one assignor, rename one or leave it out"
                )
            seen[assignor.name] = assignor

    def error(self, said: str) -> ConfigError:
        return ConfigError(self._setting, f"{self._setting}: {said}")

    def _import(self, path: str) -> object:
        module_name, _, attribute = path.partition(":")
        try:
            found: object = import_module(module_name)
            for part in attribute.split("."):
                found = getattr(found, part)
        except (ImportError, AttributeError, ValueError) as error:
            raise self.error(f"cannot load {path!r}: {error}") from error
        except Exception as error:  # code of the user, run by its import
            raise self.error(f"cannot load {path!r}: {type(error).__name__}: {error}") from error
        return found


def _a(kind: type) -> str:
    return f"{'an' if kind.__name__[0] in 'AEIOU' else 'a'} {kind.__name__}"
