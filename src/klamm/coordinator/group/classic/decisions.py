"""What the classic protocol decides, by request and by signal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from klamm.coordinator.group.classic.capacity import over_capacity
from klamm.coordinator.group.classic.describe_groups import describe_groups
from klamm.coordinator.group.classic.heartbeat import heartbeat
from klamm.coordinator.group.classic.join_group import join_group
from klamm.coordinator.group.classic.leave_group import leave_group
from klamm.coordinator.group.classic.membership import Member
from klamm.coordinator.group.classic.rebalance import check_join, emptying_refused, join_time_up
from klamm.coordinator.group.classic.signals import (
    AssignmentDurable,
    AssignmentRefused,
    EmptyingRefused,
    JoinCheck,
    JoinTimeUp,
    OverCapacity,
    ReplacementRefused,
    SyncTimeUp,
)
from klamm.coordinator.group.classic.static_members import replacement_refused
from klamm.coordinator.group.classic.sync_group import assignment_durable, assignment_refused, sync_group
from klamm.coordinator.group.classic.timeouts import session_over, sync_time_up
from klamm.coordinator.group.outcomes import GroupOutcome
from klamm.coordinator.group.state import GroupState
from klamm.coordinator.runtime.outcome import Context
from klamm.protocol.messages.describe_groups import DescribeGroupsRequest
from klamm.protocol.messages.heartbeat import HeartbeatRequest
from klamm.protocol.messages.join_group import JoinGroupRequest
from klamm.protocol.messages.leave_group import LeaveGroupRequest
from klamm.protocol.messages.sync_group import SyncGroupRequest

# Any: each function takes the type under which it is listed.
CLASSIC_DECISIONS: Final[Mapping[type, Callable[[GroupState, Any, Context], GroupOutcome]]] = {
    HeartbeatRequest: heartbeat,
    JoinGroupRequest: join_group,
    SyncGroupRequest: sync_group,
    LeaveGroupRequest: leave_group,
    DescribeGroupsRequest: describe_groups,
    Member: session_over,
    JoinTimeUp: join_time_up,
    SyncTimeUp: sync_time_up,
    JoinCheck: check_join,
    OverCapacity: over_capacity,
    AssignmentDurable: assignment_durable,
    AssignmentRefused: assignment_refused,
    EmptyingRefused: emptying_refused,
    ReplacementRefused: replacement_refused,
}
