from klamm.coordinator.runtime.outcome cimport Context


cdef class CoordinatorHost:
    cdef public object _loop
    cdef public object _now_ms
    cdef public object _timestamp_ms
    cdef public object _events
    cdef public object _grace_ms
    cdef public object coordinator
    cdef public object shards
    cdef public object _handle
    cdef public object _timer
    cdef public object _timer_at_ms
    cdef public object _to_load
    cdef public bint _loads_soon
    cdef public dict _loading_since_ms
    cdef public dict _retries
    cdef public object longest_load_ms

    cpdef ask(self, object request, object context)
    cpdef ask_parked(self, object request, object context, object fresh_id=*)
    cpdef Context now(self)
    cpdef send(self, object token, object response)
