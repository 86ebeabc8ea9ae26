from klamm.storage.engines.segments.segment cimport Segment


cdef class SegmentChain:
    cdef public object _pool
    cdef public list _bases
    cdef public Segment active
    cdef public object directory
    cdef public object files
    cdef public list segments
