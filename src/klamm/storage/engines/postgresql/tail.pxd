cimport cython


cdef class TailBatch:
    cdef public long long base_offset
    cdef public bytes data
    cdef public long long last_offset
    cdef public long long max_timestamp_ms


cdef class Tail:
    cdef public list batches
    cdef public Py_ssize_t durable_count
    cdef public Py_ssize_t size_bytes
    cdef public long long start_offset

    cpdef add(self, TailBatch batch)
    cpdef object pending(self)
    @cython.locals(low=Py_ssize_t, high=Py_ssize_t, middle=Py_ssize_t, batch=TailBatch)
    cpdef Py_ssize_t index_of(self, long long offset)
    @cython.locals(count=Py_ssize_t, batch=TailBatch)
    cpdef made_durable(self, long long end_offset)
    @cython.locals(count=Py_ssize_t, batch=TailBatch)
    cpdef trim(self, Py_ssize_t limit_bytes)
