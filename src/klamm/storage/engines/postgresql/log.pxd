cimport cython

from klamm.storage.engines.postgresql.reading cimport ReadablePostgresLog
from klamm.storage.producer_state cimport ProducerEntry, ProducerState


cdef class PostgresLog(ReadablePostgresLog):
    cdef public object _keeper
    cdef public object _rounds
    cdef public object rounds
    cdef public object held_back
    cdef public object topic
    cdef public object topic_id
    cdef public object partition
    cdef public object config
    cdef public int leader_epoch
    cdef public long long _generation
    cdef public object _refusal
    cdef public object _updates
    cdef public ProducerState _durable_producers
    cdef public long long _chunks_since_snapshot
    cdef public long long _saved_start
    cdef public long long _clean_bytes

    @cython.locals(
        base_offset=cython.longlong, last_offset=cython.longlong, delta=cython.longlong,
        size_bytes=cython.longlong, batch_length=cython.longlong, attributes=cython.long,
        max_timestamp_ms=cython.longlong, known=ProducerEntry, producer=ProducerEntry,
    )
    cpdef object append(
        self,
        object batch,
        object now_ms,
        object timestamp_ms,
        object origin=*,
        bint marker_bumps_epoch=*,
        object guard=*,
        object header=*,
        bint write_later=*,
        bint must_continue=*,
    )
    @cython.locals(
        base_offset=cython.longlong, last_offset=cython.longlong, delta=cython.longlong,
        size_bytes=cython.longlong, batch_length=cython.longlong, max_timestamp_ms=cython.longlong,
    )
    cpdef object append_own(self, bytes batch, object now_ms)
    cpdef object _checked_marker(self, object batch, object header, bint marker_bumps_epoch)
    cpdef bint has_open_transaction(self, object producer_id, object producer_epoch)
    cpdef object begin_verification(
        self, object producer_id, object producer_epoch, object sequence, bint begins_at_zero
    )
    cpdef end_verification(self, object producer_id, object guard)
    cpdef bint sync_is_due(self, object now_ms)
    cpdef object start_sync(self)
    cpdef object finish_sync(self, object ticket)
    cpdef _made_durable(self, long long end_offset)
