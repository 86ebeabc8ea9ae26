from klamm.coordinator.runtime.fields cimport Fields


cdef class Timer(Fields):
    cdef public object signal
    cdef public object due_at_ms
    cdef public object renewed_at_ms
    cdef public object looked_at_ms


cdef class TimerQueue:
    cdef list _heap
    cdef long long _pushed

    cpdef bint change(self, Timer timer, object due_at_ms)
    cpdef bint renew(self, Timer timer, object now_ms)
    cpdef object next_look_ms(self)
    cpdef Timer pop_due(self, object now_ms)
    cdef _push(self, Timer timer, object due_at_ms)
