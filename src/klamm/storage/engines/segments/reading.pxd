from klamm.storage.engines.segments.chain cimport SegmentChain
from klamm.storage.engines.segments.segment cimport Segment
from klamm.storage.engines.segments.sync cimport Flushing
from klamm.storage.producer_state cimport ProducerState


cdef class ReadableLog:
    cdef object __weakref__
    cdef dict __dict__  # checkers of a simulation watch a log by its methods
    cdef public object on_change
    cdef public object rounds
    cdef public object held_back
    cdef public SegmentChain _chain
    cdef public object _snapshots
    cdef public object _epochs
    cdef public ProducerState _producers
    cdef public Flushing _flushing
    cdef public long long _log_start
    cdef public long long log_end_offset
    cdef public long long high_watermark
    cdef public tuple _high_watermark_place
    cdef public long long _last_stable

    cpdef _raise_high_watermark(self, long long offset, Segment segment, long long position)
    cpdef _refresh_stable(self)
