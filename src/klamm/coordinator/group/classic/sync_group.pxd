cimport cython

from klamm.coordinator.group.classic.draft cimport Draft
from klamm.coordinator.group.classic.membership cimport ClassicMembership, Member
from klamm.coordinator.group.state cimport Group, GroupState
from klamm.coordinator.runtime.outcome cimport Context, Outcome
from klamm.protocol.messages.sync_group cimport SyncGroupRequest


@cython.locals(group=Group, live=ClassicMembership, member=Member, outcome=Outcome)
cpdef Outcome sync_group(GroupState state, SyncGroupRequest request, Context context)
cdef object _sync_error(ClassicMembership live, SyncGroupRequest request)

@cython.locals(group=Group, live=ClassicMembership, member=Member, draft=Draft)
cpdef Outcome assignment_durable(GroupState state, object signal, Context context)
