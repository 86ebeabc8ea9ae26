cdef class Flushing:
    cdef public long long recovery_point
    cdef public long long durable_offset
    cdef public tuple recovery_place
    cdef public tuple durable_place
    cdef public dict _paths
    cdef public dict _directories
    cdef public object _changes
    cdef public object _generation
    cdef public object _appends
    cdef public object _started_at_ms
