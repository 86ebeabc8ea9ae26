cimport cython

from klamm.broker.partitions.flush_order cimport FlushOrder
from klamm.broker.partitions.flushes cimport Flush, PendingSync, give_to_kernel
from klamm.broker.partitions.pauses cimport Pauses
from klamm.broker.partitions.registry cimport Partition


cdef class Flusher:
    cdef public object _loop
    cdef public object _clock
    cdef public object _run_blocking
    cdef public object _open_kernel
    cdef public object _wake
    cdef public object send
    cdef public object _kernel
    cdef public dict _dirty
    cdef public dict _dirty_later
    cdef public object _later
    cdef public dict _under_way
    cdef public dict _by_tag
    cdef public dict _journals
    cdef public set _rounds_in_journals
    cdef public object _journaled
    cdef public FlushOrder _order
    cdef public long long _next_tag
    cdef public set _lanes
    cdef public set _busy
    cdef public list _for_threads
    cdef public bint _starts_soon
    cdef public Py_ssize_t _appends
    cdef public Pauses _pauses
    cdef public bint _has_failed
    cdef public object _idle
    cdef public dict _settling
    cdef public object _progress
    cdef public object rounds
    cdef public object flushes
    cdef public object journal_rounds
    cdef public object flush_ms

    cpdef mark(self, Partition partition)
    cpdef bint can_put_after(self, Partition partition)
    cpdef put_after(self, Partition partition, Partition earlier)
    cpdef mark_later(self, Partition partition)
    cpdef _start_soon(self)
    @cython.locals(partition=Partition)
    cpdef list _begin_all(self)
    @cython.locals(flush=Flush)
    cpdef list _shared(self, object flushes)
    @cython.locals(flush=Flush, partition=Partition)
    cpdef _part_is_done(self, PendingSync sync, object error, object now_ms)
    cpdef _settle(self, Partition partition)
