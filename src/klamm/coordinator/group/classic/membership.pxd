from klamm.coordinator.runtime.fields cimport Fields
from klamm.coordinator.runtime.timers cimport Timer


cdef class Member(Timer):
    cdef public object assignment
    cdef public object client_host
    cdef public object client_id
    cdef public object group_id
    cdef public object group_instance_id
    cdef public bint is_new
    cdef public object member_id
    cdef public object parked_join
    cdef public object parked_sync
    cdef public object protocols
    cdef public object rebalance_timeout_ms
    cdef public object session_timeout_ms

    cpdef bytes metadata(self, object protocol_name)


cpdef bytes metadata_of(object protocols, object protocol_name)
cpdef bint are_same(object known, object offered)


cdef class ClassicMembership(Fields):
    cdef public object awaiting_join
    cdef public object generation
    cdef public object group_id
    cdef public bint has_new_member
    cdef public object initial_delay
    cdef public Timer join_timer
    cdef public object leader_id
    cdef public dict members
    cdef public dict pending
    cdef public dict pending_sync
    cdef public object phase
    cdef public object phase_timestamp_ms
    cdef public object protocol_name
    cdef public object protocol_type
    cdef public object rebalance
    cdef public dict static_members
    cdef public object subscribed_topics
    cdef public dict supported
    cdef public Timer sync_timer

    cpdef object member_error(self, object member_id, object group_instance_id)
    cpdef object session_of(self, object member_id)
