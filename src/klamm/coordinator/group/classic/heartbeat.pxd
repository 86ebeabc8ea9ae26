cimport cython

from klamm.coordinator.group.classic.membership cimport ClassicMembership, Member
from klamm.coordinator.group.state cimport Group, GroupState
from klamm.coordinator.runtime.outcome cimport Context, Outcome
from klamm.protocol.messages.heartbeat cimport HeartbeatRequest


@cython.locals(group=Group, live=ClassicMembership, member=Member)
cpdef Outcome heartbeat(GroupState state, HeartbeatRequest request, Context context)
