from klamm.coordinator.runtime.fields cimport Fields


cdef class AddPartitions(Fields):
    cdef public object client_version
    cdef public object internal_partitions
    cdef public bint is_answered_early
    cdef public bint is_verify_only
    cdef public object partitions
    cdef public object producer_epoch
    cdef public object producer_id
    cdef public object transactional_id
