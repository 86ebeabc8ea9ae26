cimport cython

from klamm.coordinator.runtime.fields cimport Fields
from klamm.coordinator.runtime.outcome cimport Context, Outcome
from klamm.coordinator.runtime.timers cimport Timer


cdef class Transaction(Fields):
    cdef public object last_epoch
    cdef public set missing
    cdef public object owner
    cdef public object stored
    cdef public object stored_until


cdef class TransactionState(Fields):
    cdef public object config
    cdef public object expiry_queue
    cdef public Timer expiry_timer
    cdef public dict held_ends
    cdef public dict ongoing
    cdef public dict parked
    cdef public Timer timeout_timer
    cdef public dict transactions
    cdef public object version


cpdef long long replay_all(TransactionState state, object records, long long offset)
@cython.locals(transaction=Transaction)
cpdef replay(TransactionState state, object record, long long offset)
@cython.locals(transaction=Transaction)
cpdef apply(TransactionState state, object note)
cpdef Outcome reply(Context context, object response, Transaction seen=*)
