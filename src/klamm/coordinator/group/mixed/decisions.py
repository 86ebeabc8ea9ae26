"""What is decided about groups with members of both protocols, by signal; requests come through `classic`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from klamm.coordinator.group.classic.signals import RebalanceUnfinished
from klamm.coordinator.group.mixed.downgrade import rebalance_unfinished
from klamm.coordinator.group.mixed.join_group import join_refused
from klamm.coordinator.group.mixed.leave_group import leave_refused
from klamm.coordinator.group.mixed.signals import JoinRefused, LeaveRefused
from klamm.coordinator.group.outcomes import GroupOutcome
from klamm.coordinator.group.state import GroupState
from klamm.coordinator.runtime.outcome import Context

# Any: each function takes the type under which it is listed.
MIXED_DECISIONS: Final[Mapping[type, Callable[[GroupState, Any, Context], GroupOutcome]]] = {
    JoinRefused: join_refused,
    LeaveRefused: leave_refused,
    RebalanceUnfinished: rebalance_unfinished,
}
