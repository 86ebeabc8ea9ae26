cdef class Verification:
    cdef public bint _add
    cdef public object _promise
    cdef public tuple _question
    cdef public bint _retries
    cdef public object _services
    cdef public object _verifier

    cpdef bint _is_concurrent(self, object error_codes)
    cpdef _count(self, object error_codes, object took_ms)
