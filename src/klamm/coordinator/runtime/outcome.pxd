cimport cython


@cython.freelist(64)
cdef class Context:
    cdef public object now_ms
    cdef public object timestamp_ms
    cdef public object client_id
    cdef public object client_host
    cdef public object fresh_id
    cdef public object principal
    cdef public object token


@cython.freelist(64)
cdef class Outcome:
    cdef public object replies
    cdef public object seen_offset
    cdef public object renewed
    cdef public object notes
    cdef public object timers
    cdef public object then
    cdef public object records
    cdef public object actions
    cdef public object events
    cdef public object once_durable
    cdef public object if_refused
    cdef public bint are_replies_early
    cdef public bint is_awaited
    cdef public bint are_actions_early
    cdef public bint is_divisible
