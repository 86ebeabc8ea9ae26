cimport cython


cdef class Memory:
    cdef public Py_ssize_t _misses
    cdef public dict values

    cpdef add(self, bytes key, object value)


cdef class HeartbeatDecoder:
    cdef public object _decode
    cdef public Memory _memory

    @cython.locals(written=bytes)
    cpdef decode(self, bytes frame, Py_ssize_t position)


cdef class CommitDecoder:
    cdef public object _decode
    cdef public Memory _memory
    cdef public object _read

    @cython.locals(group=bytes, last=tuple, start=bytes, end=Py_ssize_t)
    cpdef decode(self, bytes frame, Py_ssize_t position)
