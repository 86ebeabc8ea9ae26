"""What the consumer protocol decides, by request and by signal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from klamm.coordinator.group.consumer.computing import target_found, target_refused
from klamm.coordinator.group.consumer.describe import describe_consumer_group
from klamm.coordinator.group.consumer.heartbeat import consumer_group_heartbeat, heartbeat_refused
from klamm.coordinator.group.consumer.leaving import (
    rejoin_time_up,
    removal_refused,
    revocation_time_up,
    session_over,
    sync_missed,
)
from klamm.coordinator.group.consumer.membership import ClassicMemberSession, ConsumerSession
from klamm.coordinator.group.consumer.resolving import regexes_resolved, resolved_refused
from klamm.coordinator.group.consumer.signals import (
    HeartbeatRefused,
    RegexesResolved,
    RejoinTimeUp,
    RemovalRefused,
    ResolvedRefused,
    RevocationTimeUp,
    SyncMissed,
    TargetFound,
    TargetRefused,
)
from klamm.coordinator.group.outcomes import GroupOutcome
from klamm.coordinator.group.state import GroupState
from klamm.coordinator.runtime.outcome import Context
from klamm.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from klamm.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

# Any: each function takes the type under which it is listed.
CONSUMER_DECISIONS: Final[Mapping[type, Callable[[GroupState, Any, Context], GroupOutcome]]] = {
    ConsumerGroupHeartbeatRequest: consumer_group_heartbeat,
    ConsumerGroupDescribeRequest: describe_consumer_group,
    ConsumerSession: session_over,
    ClassicMemberSession: session_over,
    RejoinTimeUp: rejoin_time_up,
    SyncMissed: sync_missed,
    RevocationTimeUp: revocation_time_up,
    RegexesResolved: regexes_resolved,
    TargetFound: target_found,
    HeartbeatRefused: heartbeat_refused,
    RemovalRefused: removal_refused,
    ResolvedRefused: resolved_refused,
    TargetRefused: target_refused,
}
