from klamm.coordinator.group.classic.membership cimport Member
from klamm.coordinator.group.state cimport Group, GroupState
from klamm.coordinator.runtime.outcome cimport Context, Outcome


cdef class Draft(Outcome):
    cdef public Context context
    cdef public object group_id
    cdef public GroupState state

    cpdef Outcome outcome(self)
