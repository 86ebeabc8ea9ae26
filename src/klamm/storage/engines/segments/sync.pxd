cimport cython

from klamm.storage.engines.segments.chain cimport SegmentChain
from klamm.storage.engines.segments.segment cimport Segment


cdef class SegmentSyncTicket:
    cdef public bint _are_kept
    cdef public object _chunks
    cdef public object _epochs_path
    cdef public object _failure
    cdef public object _files
    cdef public object _handles
    cdef public tuple _until
    cdef public Segment active
    cdef public object changes
    cdef public object directories
    cdef public long long end_offset
    cdef public object epochs
    cdef public long long first_offset
    cdef public object generation
    cdef public bint holds_back
    cdef public bint is_journaled
    cdef public object journal
    cdef public long long journal_at
    cdef public object log
    cdef public object paths
    cdef public tuple place
    cdef public list segments
    cdef public list sizes_bytes

    @cython.locals(only=Segment)
    cpdef use(self, object journal, object log, long long first_offset, long long position)
    @cython.locals(segment=Segment)
    cpdef object write_out(self)
    @cython.locals(only=Segment)
    cpdef write_behind(self)
    @cython.locals(size_bytes=cython.longlong)
    cpdef bytes batches(self)
    cpdef release(self)


cdef class Flushing:
    cdef public long long recovery_point
    cdef public long long durable_offset
    cdef public tuple recovery_place
    cdef public tuple durable_place
    cdef public dict _paths
    cdef public dict _directories
    cdef public dict _suspects
    cdef public object _changes
    cdef public object _generation
    cdef public object _appends
    cdef public object _started_at_ms

    @cython.locals(active=Segment, segment=Segment, unsynced=list, ticket=SegmentSyncTicket)
    cpdef SegmentSyncTicket start(
        self,
        SegmentChain chain,
        object epochs,
        long long log_end_offset,
        object now_ms,
        object journal=*,
        object log=*,
    )
    @cython.locals(segment=Segment, position=cython.longlong)
    cpdef bint finish(self, SegmentSyncTicket ticket, SegmentChain chain, object epochs)
    cpdef bint _is_durable(self, SegmentSyncTicket ticket)


@cython.locals(segment=Segment, unsynced=list)
cpdef list _unsynced(SegmentChain chain, long long recovery_point)
