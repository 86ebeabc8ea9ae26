"""The record of a generation: its members and their assignments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Final

from klamm.coordinator.group.classic.membership import ClassicMembership, Member
from klamm.coordinator.group.classic.vote import with_metadata
from klamm.coordinator.group.remembered import GroupRegistered, RegisteredMember

_REGISTERED: Final = partial(tuple.__new__, RegisteredMember)  # twice as fast as calling the class


def registration(
    live: ClassicMembership,
    members: Iterable[Member],
    assignments: Mapping[str, bytes],
    *,
    leader_id: str | None,
    timestamp_ms: int,
) -> GroupRegistered:
    """These members with these assignments, in the current generation and protocol."""
    return GroupRegistered(
        group_id=live.group_id,
        protocol_type=live.protocol_type or "",
        generation=live.generation,
        protocol_name=live.protocol_name,
        leader_id=leader_id,
        state_timestamp_ms=timestamp_ms,
        members=tuple(
            [
                _REGISTERED(
                    (
                        member.member_id,
                        member.group_instance_id,
                        member.client_id,
                        member.client_host,
                        member.rebalance_timeout_ms,
                        member.session_timeout_ms,
                        subscription,
                        assignments.get(member.member_id, b""),
                    )
                )
                for member, subscription in with_metadata(members, live.protocol_name)
            ]
        ),
    )
