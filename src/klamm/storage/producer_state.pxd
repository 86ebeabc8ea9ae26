cdef class ProducerEntry:
    cdef public object batches
    cdef public object coordinator_epoch
    cdef public object epoch
    cdef public long kind_bits
    cdef public object last_timestamp_ms
    cdef public object next_sequence
    cdef public object producer_id
    cdef public long long txn_first_offset

    cpdef begin_transaction(self, long long first_offset)
    cpdef begin_epoch(self, object epoch)
    cpdef add(self, object last_sequence, object last_offset, object offset_delta, object timestamp_ms)


cdef class ProducerState:
    cdef public dict _awaited
    cdef public dict _entries
    cdef public object _last_guard
    cdef public dict _open
    cdef public dict _verifications
    cdef public object completed
    cdef public object get
    cdef public long long unstable_offset
