"""From `partition.assignment.strategy` to assignors that are ready to use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import TYPE_CHECKING, Final, TypeAlias

from klamm.client.assignors.base import Assignor, RebalanceProtocol
from klamm.client.assignors.broadcast import BroadcastAssignor
from klamm.client.assignors.cooperative_sticky import CooperativeStickyAssignor
from klamm.client.assignors.rack_leader import RackLeaderAssignor
from klamm.client.assignors.random_assignor import RandomAssignor
from klamm.client.assignors.range import RangeAssignor
from klamm.client.assignors.roundrobin import RoundRobinAssignor
from klamm.client.assignors.sticky import StickyAssignor
from klamm.config import ConfigError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

SETTING: Final = "partition.assignment.strategy"
ENTRY_POINT_GROUP: Final = "klamm.assignors"

Strategy: TypeAlias = str | type[Assignor] | Assignor

BUILT_IN: Final[Mapping[str, type[Assignor]]] = {
    assignor.name: assignor
    for assignor in (
        RangeAssignor,
        RoundRobinAssignor,
        StickyAssignor,
        CooperativeStickyAssignor,
        RandomAssignor,
        RackLeaderAssignor,
        BroadcastAssignor,
    )
}


def installed_assignors() -> dict[str, EntryPoint]:
    """The assignors that other installed packages offer, by name."""
    from importlib.metadata import entry_points  # noqa: PLC0415 - takes as long as a tenth of klamm

    return {point.name: point for point in entry_points(group=ENTRY_POINT_GROUP)}


def load_assignors(
    strategies: Strategy | Sequence[Strategy],
    config: Mapping[str, object] | None = None,
    installed: Mapping[str, EntryPoint] | None = None,
) -> list[Assignor]:
    """Make the assignors a consumer is configured with, most preferred first.

    A strategy is a name, a class, an instance, or "package.module:Class"; text may hold several, separated
    by commas. `installed` is for tests; by default the entry points of this environment are used.
    """
    if isinstance(strategies, str):
        strategies = [name.strip() for name in strategies.split(",") if name.strip()]
    elif isinstance(strategies, Assignor | type):
        strategies = [strategies]
    assignors = [_make(strategy, installed) for strategy in strategies]
    _check_names(assignors)
    if assignors:
        common_protocol(assignors)
    for assignor in assignors:
        assignor.configure(config or {})
    return assignors


def common_protocol(assignors: Iterable[Assignor]) -> RebalanceProtocol:
    """The highest rebalance protocol that all of these assignors support."""
    assignors = list(assignors)
    common = set(RebalanceProtocol).intersection(*(each.supported_protocols for each in assignors))
    if not common:
        said = ", ".join(
            f"{each.name} ({' and '.join(protocol.name for protocol in each.supported_protocols)})"
            for each in assignors
        )
        raise ConfigError(
            SETTING, f"{SETTING}: no rebalance protocol is common to {said}; remove one of them"
        )
    return max(common)


def _make(strategy: object, installed: Mapping[str, EntryPoint] | None) -> Assignor:
    found = _find(strategy, installed) if isinstance(strategy, str) else strategy
    if isinstance(found, type) and issubclass(found, Assignor):
        found = _construct(found, strategy)
    if not isinstance(found, Assignor):
        raise ConfigError(
            SETTING,
            f"{SETTING}: {strategy!r} is not an Assignor; derive it from klamm.client.assignors.Assignor",
        )
    name = getattr(found, "name", None)
    if not isinstance(name, str) or not name:
        raise ConfigError(SETTING, f"{SETTING}: {type(found).__name__} needs a name, it goes over the wire")
    return found


def _construct(assignor: type[Assignor], strategy: object) -> Assignor:
    try:
        return assignor()
    except TypeError as error:  # an abstract method left out, or an argument without default
        raise ConfigError(SETTING, f"{SETTING}: cannot make {strategy!r}: {error}") from error


def _find(strategy: str, installed: Mapping[str, EntryPoint] | None) -> object:
    if strategy in BUILT_IN:
        return BUILT_IN[strategy]
    if ":" in strategy:
        return _import(strategy)
    points = installed_assignors() if installed is None else installed
    if strategy in points:
        try:
            return points[strategy].load()
        except (ImportError, AttributeError) as error:
            point = points[strategy].value
            raise ConfigError(SETTING, f"{SETTING}: {strategy} is installed as {point}: {error}") from error
    known = sorted([*BUILT_IN, *points])
    near = get_close_matches(strategy, known, n=1)
    hint = (
        f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}, or write package.module:Class"
    )
    raise ConfigError(SETTING, f"{SETTING}: unknown assignor {strategy!r}; {hint}")


def _import(path: str) -> object:
    module_name, _, attribute = path.partition(":")
    try:
        found: object = import_module(module_name)
        for part in attribute.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(SETTING, f"{SETTING}: cannot load {path!r}: {error}") from error
    return found


def _check_names(assignors: list[Assignor]) -> None:
    seen: dict[str, Assignor] = {}
    for assignor in assignors:
        if assignor.name in seen:
            first, second = type(seen[assignor.name]).__name__, type(assignor).__name__
            raise ConfigError(
                SETTING,
                f"{SETTING}: the name {assignor.name!r} is used twice, by {first} and {second}; "
                "on the wire a name means one assignor, rename one or leave it out",
            )
        seen[assignor.name] = assignor
