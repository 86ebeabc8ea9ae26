cdef class Pauses:
    cdef public Py_ssize_t _answered
    cdef public double _began_at_s
    cdef public double _ended_at_s
    cdef public Py_ssize_t _in_round
    cdef public object _loop
    cdef public object _now_s
    cdef public object _over
    cdef public double _return_s
    cdef public double _round_s
    cdef public object _timer
    cdef public Py_ssize_t all_back_at
    cdef public bint is_on

    cpdef count_anew(self, Py_ssize_t appends)
    cpdef round_begins(self)
    cpdef round_ends(self, Py_ssize_t waiting)
    cpdef all_are_back(self)
    cpdef _are_back(self, Py_ssize_t count, double now_s)
