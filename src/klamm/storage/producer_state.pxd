cimport cython


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


cdef class _Verification:
    cdef public bint begins_at_zero
    cdef public object epoch
    cdef public long long guard
    cdef public object lowest_sequence
    cdef public Py_ssize_t requests


cdef class ProducerState:
    cdef public dict _awaited
    cdef public dict _entries
    cdef public long long _last_guard
    cdef public dict _open
    cdef public dict _verifications
    cdef public object completed
    cdef public long long unstable_offset

    cpdef ProducerEntry get(self, object producer_id)
    @cython.locals(entry=ProducerEntry, is_of_client=bint, attributes=cython.long)
    cpdef object check(self, object header, object origin, object guard=*)
    cpdef _check_guard(self, object header, object guard)
    @cython.locals(verification=_Verification, is_unknown=bint)
    cpdef _check_unconfirmed(self, object header, ProducerEntry entry)
    @cython.locals(entry=ProducerEntry, is_open=bint)
    cpdef check_marker(self, object header, object marker, bint epoch_was_bumped)
    @cython.locals(entry=ProducerEntry)
    cpdef bint has_open_transaction(self, object producer_id, object producer_epoch)
    @cython.locals(entry=ProducerEntry, verification=_Verification)
    cpdef object begin_verification(self, object producer_id, object epoch, object sequence, bint begins_at_zero)
    @cython.locals(verification=_Verification)
    cpdef bint is_verified(self, object producer_id, object guard)
    @cython.locals(verification=_Verification)
    cpdef end_verification(self, object producer_id, object guard)
    @cython.locals(entry=ProducerEntry, attributes=cython.long)
    cpdef object update(self, object header, long long base_offset, object marker)
    @cython.locals(verification=_Verification)
    cpdef _end_verifications(self, object producer_id, object epoch)
    @cython.locals(entry=ProducerEntry, first_offset=cython.longlong, last_offset=cython.longlong)
    cpdef object _end(self, object header, long long base_offset, object marker)
    cpdef advance(self, long long high_watermark)
    cpdef long long _first_unstable_offset(self)


cpdef _check_sequence(object header, ProducerEntry entry)
