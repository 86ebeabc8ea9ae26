"""Changes of what is true of a group in the consumer protocol only now. They are not logged."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from klamm.coordinator.group.consumer.membership import ConsumerGroupMembership, MemberSession
from klamm.coordinator.group.consumer.signals import ComputeTarget
from klamm.coordinator.group.state import GroupState


@dataclass(slots=True)
class ConsumerGroupOpened:
    """The group has, from its records, members in the consumer protocol."""

    group_id: str


@dataclass(slots=True)
class SessionOpened:
    """A member joined, or speaks another protocol than before."""

    group_id: str
    session: MemberSession


@dataclass(slots=True)
class SessionsClosed:
    """Members are gone."""

    group_id: str
    member_ids: tuple[str, ...]


@dataclass(slots=True)
class SessionPeriodSet:
    """The session timeout of the group, or of a member of the classic protocol, was changed."""

    group_id: str
    session: MemberSession
    session_timeout_ms: int


@dataclass(slots=True)
class TopicsChecked:
    """The hash of the topics was compared with what they are at this version."""

    group_id: str
    version: int


@dataclass(slots=True)
class TargetComputed:
    """A target was computed."""

    group_id: str
    at_ms: int


@dataclass(slots=True)
class ComputingBegun:
    """A target is being computed outside the shard."""

    group_id: str
    asked: ComputeTarget
    at_ms: int


@dataclass(slots=True)
class ComputingEnded:
    """It was, or there is none for this epoch."""

    group_id: str
    at_ms: int
    failed_epoch: int = -1
    not_before_ms: int = 0  # when the next computation may begin


@dataclass(slots=True)
class ResolvingBegun:
    """Regular expressions are being matched, with the topics of this version."""

    group_id: str
    version: int


@dataclass(slots=True)
class ResolvingEnded:
    """They were."""

    group_id: str
    at_ms: int


ConsumerNote = (
    ConsumerGroupOpened
    | SessionOpened
    | SessionsClosed
    | SessionPeriodSet
    | TopicsChecked
    | TargetComputed
    | ComputingBegun
    | ComputingEnded
    | ResolvingBegun
    | ResolvingEnded
)


def _open(state: GroupState, note: ConsumerGroupOpened) -> None:
    group = state.groups[note.group_id]
    assert group.memory.consumer is not None, f"{note}: nothing of it is logged"
    group.membership = ConsumerGroupMembership(note.group_id, group.memory.consumer)


def _open_session(live: ConsumerGroupMembership, note: SessionOpened) -> None:
    live.sessions[note.session.member_id] = note.session


def _close_sessions(live: ConsumerGroupMembership, note: SessionsClosed) -> None:
    for member_id in note.member_ids:
        live.sessions.pop(member_id, None)


def _set_period(live: ConsumerGroupMembership, note: SessionPeriodSet) -> None:
    note.session.session_timeout_ms = note.session_timeout_ms


def _check_topics(live: ConsumerGroupMembership, note: TopicsChecked) -> None:
    live.checked_version = note.version


def _compute(live: ConsumerGroupMembership, note: TargetComputed) -> None:
    live.assigned_at_ms = note.at_ms
    live.waiting_since_ms = None


def _begin_computing(live: ConsumerGroupMembership, note: ComputingBegun) -> None:
    live.computing, live.computing_since_ms = note.asked, note.at_ms
    if live.waiting_since_ms is None:
        live.waiting_since_ms = note.at_ms


def _end_computing(live: ConsumerGroupMembership, note: ComputingEnded) -> None:
    live.computing, live.not_before_ms = None, note.not_before_ms
    live.failed_epoch, live.failed_at_ms = note.failed_epoch, note.at_ms


def _begin_resolving(live: ConsumerGroupMembership, note: ResolvingBegun) -> None:
    live.is_resolving = True
    live.resolved_version = note.version


def _end_resolving(live: ConsumerGroupMembership, note: ResolvingEnded) -> None:
    live.is_resolving = False
    live.resolved_at_ms = note.at_ms


# Any: each function takes the type under which it is listed.
_CHANGES: Final[Mapping[type, Callable[[ConsumerGroupMembership, Any], None]]] = {
    SessionOpened: _open_session,
    SessionsClosed: _close_sessions,
    SessionPeriodSet: _set_period,
    TopicsChecked: _check_topics,
    TargetComputed: _compute,
    ComputingBegun: _begin_computing,
    ComputingEnded: _end_computing,
    ResolvingBegun: _begin_resolving,
    ResolvingEnded: _end_resolving,
}


def _in_group(change: Callable[[ConsumerGroupMembership, Any], None]) -> Callable[[GroupState, Any], None]:
    def apply(state: GroupState, note: Any) -> None:
        live = state.groups[note.group_id].membership
        assert type(live) is ConsumerGroupMembership, (
            f"{note}: the group has no members in the consumer protocol"
        )
        change(live, note)

    return apply


CONSUMER_CHANGES: Final[Mapping[type, Callable[[GroupState, Any], None]]] = {
    ConsumerGroupOpened: _open,
    **{note: _in_group(change) for note, change in _CHANGES.items()},
}
