from klamm.broker.net.context cimport HeldResponse
from klamm.broker.partitions.registry cimport Partition


cdef class TransactionMarker:
    cdef public bint bumps_epoch
    cdef public object coordinator_epoch
    cdef public bint is_commit
    cdef public bint is_of_unknown_version
    cdef public object producer_epoch
    cdef public object producer_id


cdef class MarkerWrite(HeldResponse):
    cdef public dict _error_codes
    cdef public Py_ssize_t _pending

    cpdef hold(self, Partition partition, long long last_offset)
    cpdef settle(self, object name, object error_code)
    cpdef finish_one(self)


cdef class _HeldMarker:
    cdef public object _name
    cdef public MarkerWrite _write
    cdef public long long flush_failures
    cdef public long long last_offset

    cpdef release(self, object error_code)
