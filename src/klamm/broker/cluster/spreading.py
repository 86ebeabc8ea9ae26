"""A change is acknowledged when the other brokers have applied it: a client may go on with any of them.

Brokers follow the store on their own, some milliseconds behind. A client that had created a topic again at
one broker was shown the deleted one by another, and failed with its id.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from klamm.protocol.api import ApiKey

if TYPE_CHECKING:
    from klamm.broker.services import Services

PATIENCE_S: Final = 2.0  # a broker that takes longer is not waited for
_log = logging.getLogger(__name__)


async def spread(services: Services) -> None:
    """Wait until the other brokers have applied what is in the store by now.

    One that cannot be reached is not waited for: clients do not reach it either.
    """
    if services.membership is None:
        return
    # Imported here: not needed by a broker without others.
    from klamm.protocol.messages.describe_cluster import DescribeClusterRequest  # noqa: PLC0415

    others = [
        each.broker_id
        for each in services.image.running_brokers()
        if each.broker_id != services.image.broker_id
    ]
    asked = [
        services.peers.ask(
            broker_id,
            ApiKey.DESCRIBE_CLUSTER,  # answered when all that is in the store is applied
            DescribeClusterRequest(),
            kind="changes",  # markers do not wait while logs are opened
            timeout_ms=round(PATIENCE_S * 1000),
        )
        for broker_id in others
    ]
    answers = await asyncio.gather(*asked, return_exceptions=True)
    for broker_id, answer in zip(others, answers, strict=True):
        if isinstance(answer, BaseException):
            _log.info("broker %d learns of a change later: %s", broker_id, answer)
