"""From `partition.assignment.strategy` to assignors that are ready to use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from klamm.assignors.base import Assignor, RebalanceProtocol
from klamm.assignors.broadcast import BroadcastAssignor
from klamm.assignors.cooperative_sticky import CooperativeStickyAssignor
from klamm.assignors.loading import Finder
from klamm.assignors.rack_leader import RackLeaderAssignor
from klamm.assignors.random_assignor import RandomAssignor
from klamm.assignors.range import RangeAssignor
from klamm.assignors.roundrobin import RoundRobinAssignor
from klamm.assignors.sticky import StickyAssignor
from klamm.config import ConfigError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

SETTING: Final = "partition.assignment.strategy"
ENTRY_POINT_GROUP: Final = "klamm.assignors"

JAVA_CLASSES: Final = {  # programs for Kafka's Java client name its assignors like this
    f"org.apache.kafka.clients.consumer.{java_name}": assignor.name
    for java_name, assignor in (
        ("RangeAssignor", RangeAssignor),
        ("RoundRobinAssignor", RoundRobinAssignor),
        ("StickyAssignor", StickyAssignor),
        ("CooperativeStickyAssignor", CooperativeStickyAssignor),
    )
}

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
    finder = Finder(SETTING, BUILT_IN, installed, ENTRY_POINT_GROUP)
    found = [
        finder.find(JAVA_CLASSES.get(each, each)) if isinstance(each, str) else each for each in strategies
    ]
    assignors: list[Assignor] = [
        finder.made(each, Assignor, strategy)  # type: ignore[type-abstract]  # made from what is concrete
        for each, strategy in zip(found, strategies, strict=True)
    ]
    finder.check_names(assignors)
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
