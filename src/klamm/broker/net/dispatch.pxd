cdef class Endpoint:
    cdef public object api_key
    cdef public dict bodies
    cdef public object decode
    cdef public object encode
    cdef public object failed
    cdef public object handle
    cdef public object head_bytes
    cdef public bint header_has_tags
    cdef public object pack_head
    cdef public object response_type
    cdef public bint streams
    cdef public object version

    cpdef bytes whole(self, object correlation_id, object response)
    cpdef tuple parts(self, object correlation_id, object response)
    cpdef bytes _new_body(self, object response)
