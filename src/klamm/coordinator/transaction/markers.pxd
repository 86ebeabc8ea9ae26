cimport cython

from klamm.coordinator.runtime.outcome cimport Context, Outcome
from klamm.coordinator.transaction.ending cimport complete
from klamm.coordinator.transaction.state cimport Transaction, TransactionState


@cython.locals(transaction=Transaction, outcome=Outcome)
cpdef Outcome prepared(TransactionState state, object signal, Context context)
cpdef object markers_of(Transaction transaction)
@cython.locals(transaction=Transaction, outcome=Outcome, completed=Outcome, done=set, retried=set)
cpdef Outcome markers_written(TransactionState state, object signal, Context context)
cpdef Outcome end_complete(TransactionState state, object signal, Context context)
cpdef Transaction _ordered(TransactionState state, object order)
