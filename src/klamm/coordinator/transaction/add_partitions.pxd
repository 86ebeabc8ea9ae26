cimport cython

from klamm.coordinator.runtime.outcome cimport Context, Outcome
from klamm.coordinator.transaction.requests cimport AddPartitions
from klamm.coordinator.transaction.state cimport Transaction, TransactionState


@cython.locals(transaction=Transaction, outcome=Outcome)
cpdef Outcome add_partitions(TransactionState state, AddPartitions request, Context context)
cpdef object all_refused(AddPartitions request, object error_code)
cpdef object _refusal(TransactionState state, Transaction transaction, AddPartitions request)
cpdef object _verified(object stored, AddPartitions request)
