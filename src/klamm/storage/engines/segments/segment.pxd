cimport cython

from klamm.storage.engines.segments.indexed_file cimport IndexedFile


cdef class Segment(IndexedFile):
    cpdef bint must_roll(
        self, object config, long long size_bytes, long long last_offset, long long max_timestamp_ms, object now_ms
    )
    @cython.locals(position=cython.longlong)
    cpdef append(
        self,
        object chunks,
        long long size_bytes,
        long long last_offset,
        long long max_timestamp_ms,
        long long index_interval_bytes,
        bint write_later=*,
    )
    cpdef _index(
        self,
        long long position,
        long long size_bytes,
        long long last_offset,
        long long max_timestamp_ms,
        long long index_interval_bytes,
    )
    @cython.locals(position=cython.longlong, size_bytes=cython.longlong)
    cpdef bint append_pending(
        self, bytes batch, long long last_offset, long long max_timestamp_ms, object config, object now_ms
    )
    cpdef let_out(self, long long position)
    cpdef write_behind(self)
