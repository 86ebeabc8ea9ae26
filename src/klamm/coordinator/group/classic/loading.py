"""The members of a group, from the record of its last generation."""

from __future__ import annotations

from klamm.coordinator.group.classic.membership import ClassicMembership, Member
from klamm.coordinator.group.classic.phases import Phase
from klamm.coordinator.group.classic.vote import topics_of
from klamm.coordinator.group.remembered import GroupRegistered
from klamm.protocol.messages.join_group import JoinGroupRequestProtocol


def revived(registration: GroupRegistered) -> ClassicMembership:
    """Stable if it has members: an unfinished rebalance is not recorded."""
    live = ClassicMembership(
        registration.group_id, phase=Phase.STABLE if registration.members else Phase.EMPTY
    )
    if registration.state_timestamp_ms >= 0:
        live.phase_timestamp_ms = registration.state_timestamp_ms
    live.generation = registration.generation
    live.protocol_type = registration.protocol_type or None
    live.protocol_name = registration.protocol_name
    live.leader_id = registration.leader_id
    protocol_name = registration.protocol_name or ""
    for known in registration.members:
        member = live.members[known.member_id] = Member(registration.group_id, known.member_id)
        member.group_instance_id = known.group_instance_id
        member.client_id, member.client_host = known.client_id, known.client_host
        member.session_timeout_ms = known.session_timeout_ms
        member.rebalance_timeout_ms = known.rebalance_timeout_ms
        member.protocols = (JoinGroupRequestProtocol(protocol_name, known.subscription),)
        member.assignment = known.assignment
        member.is_new = False
        if known.group_instance_id is not None:
            live.static_members[known.group_instance_id] = known.member_id
    if live.leader_id not in live.members:
        live.leader_id = next(iter(live.members), None)
    if live.members:
        live.supported = {protocol_name: len(live.members)}
        live.subscribed_topics = topics_of(live.protocol_type, protocol_name, list(live.members.values()))
    return live
