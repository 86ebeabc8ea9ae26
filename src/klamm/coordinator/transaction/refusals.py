"""How each API reports an error: for a request that was not decided, and in place of a lost response."""

from __future__ import annotations

from klamm.coordinator.transaction.add_partitions import all_refused
from klamm.coordinator.transaction.describe import undescribed
from klamm.coordinator.transaction.init_producer_id import refused
from klamm.coordinator.transaction.requests import AddPartitions, PartitionErrors
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from klamm.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from klamm.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from klamm.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse


def error_response(request: object, error_code: ErrorCode) -> object:
    """The response to a request that was not decided."""
    match request:
        case AddPartitions():
            return all_refused(request, error_code)
        case EndTxnRequest():
            return EndTxnResponse(error_code=error_code)
        case InitProducerIdRequest():
            return refused(error_code)
        case DescribeTransactionsRequest():
            return DescribeTransactionsResponse(
                transaction_states=[undescribed(name, error_code) for name in request.transactional_ids]
            )
        case ListTransactionsRequest():
            return ListTransactionsResponse(error_code=error_code)
        case _:
            raise TypeError(f"{type(request).__name__} is not a request to the transaction coordinator")


def as_error(response: object, error_code: ErrorCode) -> object:
    """A response whose records were lost before it could be sent."""
    match response:
        case PartitionErrors():
            return PartitionErrors(dict.fromkeys(response.errors, error_code))
        case EndTxnResponse():
            return EndTxnResponse(error_code=error_code)
        case InitProducerIdResponse():
            return refused(error_code)
        case DescribeTransactionsResponse():
            return DescribeTransactionsResponse(
                transaction_states=[
                    undescribed(each.transactional_id, error_code) for each in response.transaction_states
                ]
            )
        case ListTransactionsResponse():
            return ListTransactionsResponse(error_code=error_code)
        case _:
            raise TypeError(f"{type(response).__name__} is not a response of the transaction coordinator")
