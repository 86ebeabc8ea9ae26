cdef class RequestMemory:
    cdef public object _clock
    cdef public bint _is_checking
    cdef public bint _is_waking
    cdef public object _loop
    cdef public Py_ssize_t held_bytes
    cdef public Py_ssize_t limit_bytes
    cdef public dict pending
    cdef public Py_ssize_t pending_bytes
    cdef public dict waiting

    cpdef released(self)


cdef class Share:
    cdef public RequestMemory _memory
    cdef public object connection
    cdef public bint is_admitted
    cdef public Py_ssize_t pending_bytes
