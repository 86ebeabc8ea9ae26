"""From `group.consumer.assignors` to the assignors that a coordinator runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from klamm.assignors.loading import Finder
from klamm.assignors.server.model import GroupAssignor
from klamm.assignors.server.rack import LeaderRackGroupAssignor, RackGroupAssignor
from klamm.assignors.server.ranges import RangeGroupAssignor
from klamm.assignors.server.uniform import UniformAssignor

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

SETTING: Final = "group.consumer.assignors"
ENTRY_POINT_GROUP: Final = "klamm.group_assignors"

BUILT_IN: Final[Mapping[str, type[GroupAssignor]]] = {
    assignor.name: assignor
    for assignor in (UniformAssignor, RangeGroupAssignor, RackGroupAssignor, LeaderRackGroupAssignor)
}
JAVA_CLASSES: Final = {  # configurations of Kafka may name its built-in assignors like this
    "org.apache.kafka.coordinator.group.assignor.UniformAssignor": UniformAssignor.name,
    "org.apache.kafka.coordinator.group.assignor.RangeAssignor": RangeGroupAssignor.name,
}


def load_group_assignors(
    names: str | Sequence[str], installed: Mapping[str, EntryPoint] | None = None
) -> dict[str, GroupAssignor]:
    """The configured assignors by the name that members ask for; the first is the default.

    A name is that of a built-in or installed assignor, or "package.module:Class"; text may hold several,
    separated by commas. `installed` is for tests; by default the entry points of this environment are used.
    """
    if isinstance(names, str):
        names = names.split(",")
    names = [name.strip() for name in names if name.strip()]
    finder = Finder(SETTING, BUILT_IN, installed, ENTRY_POINT_GROUP)
    if not names:
        raise finder.error(f"must name at least one assignor, such as {UniformAssignor.name}")
    assignors = [
        finder.made(finder.find(JAVA_CLASSES.get(name, name)), GroupAssignor, name)  # type: ignore[type-abstract]
        for name in names
    ]
    finder.check_names(assignors)
    return {assignor.name: assignor for assignor in assignors}
