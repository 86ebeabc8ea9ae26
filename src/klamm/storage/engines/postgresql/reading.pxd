from klamm.storage.engines.postgresql.tail cimport Tail
from klamm.storage.producer_state cimport ProducerState


cdef class ReadablePostgresLog:
    cdef object __weakref__
    cdef dict __dict__  # checkers of a simulation watch a log by its methods
    cdef public object on_change
    cdef public object name
    cdef public object partition_id
    cdef public object _reader
    cdef public dict _found
    cdef public long long _log_start
    cdef public long long log_end_offset
    cdef public long long high_watermark
    cdef public long long _last_stable
    cdef public long long _size_bytes
    cdef public Tail _tail
    cdef public object _epochs
    cdef public list _aborted
    cdef public long long _snapshot_end
    cdef public ProducerState _producers

    cpdef _refresh_stable(self)
