cimport cython

from klamm.coordinator.runtime.outcome cimport Context, Outcome
from klamm.coordinator.transaction.ending cimport Ending, answered, client_identity, end
from klamm.coordinator.transaction.state cimport Transaction, TransactionState
from klamm.protocol.messages.end_txn cimport EndTxnRequest


@cython.locals(transaction=Transaction, ending=Ending, outcome=Outcome, is_parked=bint)
cpdef Outcome end_txn(
    TransactionState state, EndTxnRequest request, Context context, object fresh_producer_id=*
)
cpdef Outcome _held(Outcome outcome, object transactional_id, Context context)
cpdef object _response(object error_code, object identity)
cpdef object _table_for(object stored, EndTxnRequest request)
