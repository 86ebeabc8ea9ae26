cimport cython

from klamm.broker.partitions.registry cimport Partition


cdef class _Earlier:
    cdef public long long end_offset
    cdef public long long flush_failures
    cdef public object log


cdef class FlushOrder:
    cdef public dict _earlier
    cdef public dict _held_back
    cdef public set _late

    cpdef bint takes(self, Partition partition)
    @cython.locals(known=dict, before=_Earlier)
    cpdef add(self, Partition partition, Partition after)
    @cython.locals(known=dict, each=Partition, earlier=_Earlier, durable=list)
    cpdef object waits_for(self, Partition partition)
    @cython.locals(each=Partition, earlier=_Earlier)
    cpdef bint is_lost(self, Partition partition)
    cpdef settle(self, Partition partition)
