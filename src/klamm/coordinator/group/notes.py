"""Every change of transient state, and `apply`, the only function that makes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from klamm.coordinator.group.classic.notes import CLASSIC_CHANGES, ClassicNote
from klamm.coordinator.group.consumer.notes import CONSUMER_CHANGES, ConsumerNote
from klamm.coordinator.group.membership import Membership
from klamm.coordinator.group.offsets.notes import OFFSET_CHANGES, OffsetNote
from klamm.coordinator.group.state import GroupState


class GroupOpened(NamedTuple):
    """A group gets its membership: with its first member, or after a load."""

    group_id: str
    membership: Membership


class GroupDropped(NamedTuple):
    """A group is removed."""

    group_id: str


Note = ClassicNote | ConsumerNote | OffsetNote | GroupOpened | GroupDropped


def _open(state: GroupState, note: GroupOpened) -> None:
    state.of(note.group_id).membership = note.membership


def _drop(state: GroupState, note: GroupDropped) -> None:
    del state.groups[note.group_id]


# Any: each function takes the type under which it is listed.
CHANGES: Final[Mapping[type, Callable[[GroupState, Any], None]]] = {
    **CLASSIC_CHANGES,
    **CONSUMER_CHANGES,
    **OFFSET_CHANGES,
    GroupOpened: _open,
    GroupDropped: _drop,
}


def apply(state: GroupState, note: Note) -> None:
    """Carry out one note. Nothing else changes what is true only now."""
    CHANGES[type(note)](state, note)
