cimport cython


cdef class RequestHeaders:
    cdef public bytes _written_name
    cdef public bytes _tagged_name
    cdef public str _client_id
    cdef public Py_ssize_t _name_end

    cpdef tuple read(self, bytes frame, bint has_tags)


@cython.locals(value=cython.longlong)
cdef long long _int32_at_4(bytes frame)
