"""InitProducerId: an identity for a producer. With a transactional id the coordinator decides on it."""

from __future__ import annotations

from typing import Final

from klamm.broker.cluster.producer_ids import NoProducerIdError
from klamm.broker.net.context import HandlerResult, RequestContext
from klamm.broker.services import Services
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

_NONE: Final = -1  # no id, no epoch: they come together


def handle(
    services: Services, context: RequestContext, request: InitProducerIdRequest
) -> HandlerResult[InitProducerIdResponse]:
    """For an idempotent producer: a fresh id at epoch 0, whatever it had before."""
    if request.transactional_id is not None:
        return services.transactions.ask(request, context)
    if (request.producer_id == _NONE) != (request.producer_epoch == _NONE):
        return _refused(ErrorCode.invalid_request)
    producer_id = services.producer_ids.take()
    if producer_id is None:
        return _waited(services)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


async def _waited(services: Services) -> InitProducerIdResponse:
    try:
        return InitProducerIdResponse(producer_id=await services.producer_ids.wait(), producer_epoch=0)
    except NoProducerIdError as error:
        exhausted, later = ErrorCode.unknown_server_error, ErrorCode.coordinator_load_in_progress
        return _refused(exhausted if error.is_exhausted else later)


def _refused(error_code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=int(error_code), producer_id=-1, producer_epoch=-1)
