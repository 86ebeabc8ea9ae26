cimport cython

from klamm.broker.partitions.registry cimport Partition


cdef class Flush:
    cdef public object log
    cdef public Partition partition
    cdef public object started_at_ms
    cdef public object ticket


cdef class PendingSync:
    cdef public object error
    cdef public object flushes
    cdef public object journal
    cdef public object parts_left
    cdef public object work


@cython.locals(
    sync=PendingSync, number=cython.longlong, taken=cython.longlong, next_tag=cython.longlong, owners=list
)
cpdef tuple give_to_kernel(object kernel, object syncs, dict by_tag, long long first_tag)
