cimport cython


cdef class FrameReader:
    cdef public bint _are_requests
    cdef public Py_ssize_t _came
    cdef public bytes _head
    cdef public Py_ssize_t _max_bytes
    cdef public list _parts
    cdef public Py_ssize_t _size
    cdef public Py_ssize_t _smallest

    @cython.locals(size=Py_ssize_t)
    cpdef bytes only(self, bytes data)
    @cython.locals(position=Py_ssize_t, end=Py_ssize_t, largest=Py_ssize_t, start=Py_ssize_t, size=Py_ssize_t)
    cpdef list several(self, bytes data)
