"""The quota of requests that create or delete partitions (KIP-599)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from klamm.broker.cluster.refusal import Refusal
from klamm.broker.quotas.rates import TokenBucket
from klamm.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from klamm.broker.net.context import RequestContext
    from klamm.broker.services import Services

EXCEEDED: Final = Refusal(ErrorCode.throttling_quota_exceeded, "The throttling quota has been exceeded.")
_Item = TypeVar("_Item")


class MutationQuota:
    """What one request may still do; clients that do not know the refusal are only told to wait."""

    def __init__(self, bucket: TokenBucket, limit: float, now_ms: int, *, is_strict: bool) -> None:
        self._bucket = bucket
        self._limit = limit
        self._now_ms = now_ms
        self._is_strict = is_strict
        self.throttle_ms = 0  # for the response

    def takes(self, partitions: int) -> bool:
        """Count partitions; False, and they are not counted, if the quota is exceeded already."""
        if self._is_strict:
            self.throttle_ms = self._bucket.throttle_ms(self._limit, self._now_ms)
            if self.throttle_ms:
                return False
        self._bucket.take(partitions, self._limit, self._now_ms)
        if not self._is_strict:
            self.throttle_ms = self._bucket.throttle_ms(self._limit, self._now_ms)
        return True


def within_quota(
    services: Services,
    context: RequestContext,
    items: Sequence[_Item],
    partitions: Callable[[_Item], int],
    *,
    is_strict: bool,
) -> tuple[Sequence[_Item], Sequence[_Item], int]:
    """The items that may be changed now, the others, and the throttle time of the response."""
    quotas = services.quotas
    quota = None if quotas is None else quotas.mutations(context, is_strict=is_strict)
    if quota is None:
        return items, (), 0
    admitted: list[_Item] = []
    refused: list[_Item] = []
    for each in items:
        (admitted if quota.takes(partitions(each)) else refused).append(each)
    return admitted, refused, quota.throttle_ms
