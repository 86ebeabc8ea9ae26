cdef class ResponseSender:
    cdef public object _backlog
    cdef public object _descriptor
    cdef public bint _has_slices
    cdef public bint _is_lost
    cdef public bint _is_new
    cdef public object _outbox
    cdef public object _transport
    cdef public Py_ssize_t _unsent_bytes
    cdef public object connection
    cdef public bint is_blocked
    cdef public bint is_paused
    cdef public list unsent

    cpdef put(self, bytes response)
    cpdef put_parts(self, object parts, Py_ssize_t size_bytes)
    cpdef flush(self)
