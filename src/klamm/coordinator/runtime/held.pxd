cimport cython


@cython.freelist(64)
cdef class Held:
    cdef public long long offset
    cdef public object replies
    cdef public object signals
    cdef public object actions
    cdef public object since_ms
