cimport cython

from klamm.storage.engines.segments.chain cimport SegmentChain
from klamm.storage.engines.segments.segment cimport Segment


cdef class HoldingBack:
    cdef public SegmentChain _chain

    @cython.locals(active=Segment)
    cpdef begin(self)
    @cython.locals(segment=Segment)
    cpdef end(self)
