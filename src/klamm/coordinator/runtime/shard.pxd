cimport cython

from klamm.coordinator.runtime.held cimport Held
from klamm.coordinator.runtime.outcome cimport Context, Outcome
from klamm.coordinator.runtime.timers cimport Timer, TimerQueue


cdef class Shard:
    cdef public object name
    cdef public object epoch
    cdef public object status
    cdef public object machine
    cdef public object _make_machine
    cdef public object _log
    cdef public object _host
    cdef public TimerQueue _timers
    cdef public object _held
    cdef public long long _held_until
    cdef public object _patience_ms
    cdef public Timer _patience
    cdef public object _waiting
    cdef public object _loaded_offset
    cdef public bint is_awaiting_flush
    cdef public bint _has_tail_to_cut
    cdef public object failure
    cdef public long long _end_offset
    cdef public long long _durable_offset
    cdef public bint _has_unawaited

    @cython.locals(outcome=Outcome)
    cpdef handle(self, object request, Context context)
    @cython.locals(outcome=Outcome)
    cpdef signal(self, object signal, Context context)
    @cython.locals(durable_offset=cython.longlong, held=Held)
    cpdef on_durable(self, object now)
    @cython.locals(seen_offset=cython.longlong, is_durable=bint, renewed=Timer)
    cpdef _run(self, Outcome outcome, Context context)
    cpdef _hold(self, Outcome outcome, long long seen_offset, object now_ms)
    cpdef bint is_durable(self, long long offset)
    @cython.locals(durable_offset=cython.longlong)
    cpdef _look_what_is_durable(self)
    cpdef _append(self, object records, bint is_awaited, Context context)
