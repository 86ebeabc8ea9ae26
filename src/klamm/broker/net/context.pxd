cimport cython


cdef class HeldResponse:
    cdef public object listener
    cdef public object response
    cdef public bint is_done

    cpdef keep(self, object response)


cdef class ParkedResponse(HeldResponse):
    pass
