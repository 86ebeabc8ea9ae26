cdef class Fields:
    pass
