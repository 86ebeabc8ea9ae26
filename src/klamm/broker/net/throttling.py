"""Throttle times in responses. There are no quotas yet: this is where they will act."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from klamm.broker.net.context import RequestContext
    from klamm.protocol.api import ApiKey


class Quotas(Protocol):
    """The throttle time of a client that exceeds its quota."""

    def throttle_ms(self, context: RequestContext, api_key: ApiKey, response: Any, /) -> int: ...


def throttled(response: Any, throttle_ms: int) -> Any:
    """The response with a throttle time; handlers may share response objects, so the original is kept."""
    if not throttle_ms or not hasattr(response, "throttle_time_ms"):
        return response
    response = copy(response)
    response.throttle_time_ms = throttle_ms
    return response
