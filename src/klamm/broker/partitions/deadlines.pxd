cimport cython


cdef class Deadlines:
    cdef public object _loop
    cdef public object _time
    cdef public dict _queues
    cdef public object _timer
    cdef public double _timer_at_s

    @cython.locals(due_at_s=cython.double, queue=dict)
    cpdef add(self, object waiter)
    @cython.locals(queue=dict)
    cpdef discard(self, object waiter)
