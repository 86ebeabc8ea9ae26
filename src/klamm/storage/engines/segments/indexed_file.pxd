cimport cython


cdef class IndexedFile:
    cdef public long long _bytes_since_entry
    cdef public object _files
    cdef public object _first_timestamp_ms
    cdef public object _handle
    cdef public bint _is_ready
    cdef public dict _known
    cdef public long long _latest_ms
    cdef public object _limits_of
    cdef public long long _max_timestamp_ms
    cdef public long long _max_timestamp_offset
    cdef public object _pinned
    cdef public object _pool
    cdef public object _stem
    cdef public list _unwritten
    cdef public Py_ssize_t _unwritten_bytes
    cdef public long long base_offset
    cdef public object created_at_ms
    cdef public object held_from
    cdef public bint is_recently_used
    cdef public bint is_suspect
    cdef public bint is_unsynced
    cdef public object modified_at_ms
    cdef public object offset_index
    cdef public long long size_bytes
    cdef public object suffix
    cdef public object time_index
    cdef public object txn_index

    @cython.locals(first=Py_ssize_t, start=cython.longlong, unwritten=list)
    cpdef list pending_from(self, long long position)
    cpdef write_out(self)
    cpdef object written_out(self)
    cpdef remember(self, object offset, object position)
    cpdef index_batch(
        self,
        long long position,
        long long size_bytes,
        long long last_offset,
        long long max_timestamp_ms,
        long long index_interval_bytes,
    )
