cdef class Outbox:
    cdef public bint _is_turn_due
    cdef public Py_ssize_t _left_bytes
    cdef public object _loop
    cdef public dict _streaming
    cdef public list _waiting
    cdef public Py_ssize_t blocked

    cpdef add(self, object connection)
