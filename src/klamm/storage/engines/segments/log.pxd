cimport cython

from klamm.storage.engines.segments.reading cimport ReadableLog
from klamm.storage.engines.segments.segment cimport Segment


cdef class SegmentLog(ReadableLog):
    cdef public object topic
    cdef public object topic_id
    cdef public object partition
    cdef public object config
    cdef public object leader_epoch
    cdef public object _clock
    cdef public object _keeper
    cdef public bint _flush_on_commit
    cdef public object _journal
    cdef public bint is_always_journaled
    cdef public bint _has_tail_to_cut
    cdef public object _refusal
    cdef public object cleaned_to

    @cython.locals(active=Segment, base_offset=cython.longlong, last_offset=cython.longlong, delta=cython.longlong)
    cpdef object append_own(self, bytes batch, object now_ms)
    cpdef bint sync_is_due(self, object now_ms)
    cpdef object start_sync(self)
    cpdef object finish_sync(self, object ticket)
