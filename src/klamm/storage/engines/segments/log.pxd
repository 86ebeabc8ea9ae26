cimport cython

from klamm.storage.engines.segments.reading cimport ReadableLog
from klamm.storage.engines.segments.segment cimport Segment
from klamm.storage.engines.segments.sync cimport SegmentSyncTicket
from klamm.storage.producer_state cimport ProducerEntry


cdef class SegmentLog(ReadableLog):
    cdef public object topic
    cdef public object topic_id
    cdef public object partition
    cdef public object config
    cdef public int leader_epoch
    cdef public object _clock
    cdef public object _keeper
    cdef public bint _flush_on_commit
    cdef public object _journal
    cdef public bint is_always_journaled
    cdef public bint _has_tail_to_cut
    cdef public object _refusal
    cdef public object cleaned_to

    @cython.locals(
        active=Segment, base_offset=cython.longlong, last_offset=cython.longlong, delta=cython.longlong,
        size_bytes=cython.longlong, batch_length=cython.longlong, attributes=cython.long,
        max_timestamp_ms=cython.longlong, known=ProducerEntry, producer=ProducerEntry, chunks=list,
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
    @cython.locals(active=Segment, base_offset=cython.longlong, last_offset=cython.longlong, delta=cython.longlong)
    cpdef object append_own(self, bytes batch, object now_ms)
    cpdef object _checked_marker(self, object batch, object header, bint marker_bumps_epoch)
    cpdef _remember(self, object header, long long base_offset, object marker)
    cpdef bint has_open_transaction(self, object producer_id, object producer_epoch)
    cpdef object begin_verification(
        self, object producer_id, object producer_epoch, object sequence, bint begins_at_zero
    )
    cpdef end_verification(self, object producer_id, object guard)
    cpdef bint sync_is_due(self, object now_ms)
    cpdef object start_sync(self)
    cpdef SegmentSyncTicket _ticket(self, object journal)
    cpdef object finish_sync(self, object ticket)


cpdef bint _keeps_much_alive(object batch)
