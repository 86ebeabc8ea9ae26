cimport cython

from klamm.coordinator.runtime.outcome cimport Context, Outcome


cdef class Shard:
    cdef public object name
    cdef public object epoch
    cdef public object status
    cdef public object machine
    cdef public object _make_machine
    cdef public object _log
    cdef public object _host
    cdef public object _timers
    cdef public object _held
    cdef public object _held_until
    cdef public object _patience_ms
    cdef public object _patience
    cdef public object _waiting
    cdef public object _postponed
    cdef public object _loaded_offset
    cdef public bint is_awaiting_flush
    cdef public bint _has_tail_to_cut
    cdef public object failure
    cdef public long long _end_offset
    cdef public long long _durable_offset
    cdef public bint _has_unawaited

    @cython.locals(outcome=Outcome)
    cpdef handle(self, object request, Context context)
    @cython.locals(seen_offset=cython.longlong, is_durable=bint)
    cpdef _run(self, Outcome outcome, Context context)
    cpdef _append(self, object records, bint is_awaited, Context context)
