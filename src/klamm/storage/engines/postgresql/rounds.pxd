cdef class PostgresTicket:
    cdef public object _rounds
    cdef public object batches
    cdef public Py_ssize_t chunk_bytes
    cdef public Py_ssize_t chunk_count
    cdef public long long durable_end
    cdef public long long end_offset
    cdef public long long generation
    cdef public int leader_epoch
    cdef public object name
    cdef public object partition_id
