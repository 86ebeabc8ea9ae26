cimport cython

from klamm.coordinator.runtime.outcome cimport Context, Outcome


cdef class Ending:
    cdef public object client_version
    cdef public bint is_fence
    cdef public bint raises_epoch
    cdef public object target

    cpdef bint needs_producer_id(self, object stored, bint is_kept)


cpdef object client_identity(object stored)
@cython.locals(is_kept=bint)
cpdef object prepare(object stored, Ending ending, object timestamp_ms, object fresh_producer_id)
@cython.locals(is_kept=bint)
cpdef object complete(object prepared, object timestamp_ms)
cpdef Outcome end(
    object stored, Ending ending, Context context, object fresh_producer_id, object last_epoch=*
)
cpdef Outcome answered(
    Outcome outcome, object transactional_id, object request, Context context, object response
)
