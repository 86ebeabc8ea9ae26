cimport cython

from klamm.broker.partitions.registry cimport Partition


cdef class FlushOrder:
    cdef public dict _earlier
    cdef public dict _held_back
    cdef public set _late

    cpdef bint takes(self, Partition partition)
    cpdef add(self, Partition partition, Partition after)
    @cython.locals(known=dict, each=Partition)
    cpdef object waits_for(self, Partition partition)
    @cython.locals(each=Partition)
    cpdef bint is_lost(self, Partition partition)
    cpdef settle(self, Partition partition)
