from klamm.coordinator.runtime.fields cimport Fields


cdef class GroupMemory(Fields):
    cdef public object registration
    cdef public object registered_until
    cdef public object changed_until
    cdef public dict offsets
    cdef public dict pending


cpdef object table_of(GroupMemory memory, object topic)
cpdef object pending_table_of(GroupMemory memory, object producer_id, object topic)
cpdef object record_count(object record)
