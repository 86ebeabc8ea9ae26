cdef class PartitionCoordinatorLog:
    cdef public object _partition
    cdef public object _flusher
    cdef public object _run_blocking
