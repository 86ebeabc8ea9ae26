from klamm.coordinator.group.remembered cimport GroupMemory
from klamm.coordinator.runtime.fields cimport Fields
from klamm.coordinator.runtime.timers cimport Timer


cdef class StagedCommit(Fields):
    cdef public long long end_offset
    cdef public object topic
    cdef public object replaced


cdef class Group(Fields):
    cdef public object group_id
    cdef public bint is_mixing_reported
    cdef public object membership
    cdef public GroupMemory memory
    cdef public object plain_commit_generation
    cdef public list staged
    cdef public object txn_commit_generation

    cpdef bint is_mixing(self, object other_generation)


cdef class GroupState(Fields):
    cdef public object commit_answers
    cdef public object config
    cdef public long long durable_offset
    cdef public long long end_offset
    cdef public object expiry_queue
    cdef public Timer expiry_timer
    cdef public dict groups
    cdef public dict open_transactions
    cdef public object topics

    cpdef Group of(self, object group_id)
