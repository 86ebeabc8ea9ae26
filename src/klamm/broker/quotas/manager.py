"""Counts what clients use, and tells how long those above their quota have to wait."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from klamm.access.acls import CLUSTER_NAME
from klamm.broker.cluster.topic_names import ADMIN_CLIENT_ID
from klamm.broker.net.throttling import Quotas, throttled
from klamm.broker.quotas.buckets import MOST_BUCKETS, Buckets
from klamm.broker.quotas.mutations import MutationQuota
from klamm.broker.quotas.rates import WINDOW_MS, Rate, TokenBucket
from klamm.broker.quotas.table import (
    CONSUMER_RATE,
    MUTATION_RATE,
    PRODUCER_RATE,
    REQUEST_PERCENTAGE,
    STORED_AS,
    Applied,
    QuotaTable,
)
from klamm.broker.security.permissions import CLUSTER_ACTION
from klamm.clock import instants_of
from klamm.protocol.api import ApiKey

if TYPE_CHECKING:
    from klamm.broker.net.context import RequestContext
    from klamm.broker.services import Services
    from klamm.storage.cluster import ClusterChanges


class QuotaManager(Quotas):
    """The quotas of one broker. It is in the way of requests only while any quota is set."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self.table = QuotaTable(services.image)
        self._rates: Buckets[Rate] = Buckets()
        self._mutations: Buckets[TokenBucket] = Buckets()
        self._known: dict[tuple[str, str, str], Applied | None] = {}  # what the table says of a client
        self._now_s = instants_of(services.clock)
        self._take_effect()

    def __call__(self, changes: ClusterChanges) -> None:
        """The image has applied changes."""
        if changes.is_complete or any(kind is STORED_AS for kind, _ in changes.configs):
            self.table.read()
            self._take_effect()

    def _take_effect(self) -> None:
        self._known.clear()
        self._services.quotas = self if self.table else None

    # --- requests --------------------------------------------------------------------------------------

    def settle(
        self, context: RequestContext, api_key: ApiKey, request_bytes: int, response: Any, /
    ) -> tuple[Any, int]:
        """Count a request that is about to be answered; a handler may have throttled it already."""
        throttle_ms = getattr(response, "throttle_time_ms", 0)
        if api_key is ApiKey.PRODUCE:
            throttle_ms = max(throttle_ms, self._used(PRODUCER_RATE, context, request_bytes))
        throttle_ms = max(throttle_ms, self._busy_ms(context))
        if not throttle_ms:
            return response, 0
        return throttled(response, throttle_ms), throttle_ms

    def fetched(self, context: RequestContext, response_bytes: int, /) -> int:
        busy_ms = self._busy_ms(context)
        return max(
            busy_ms,
            self._used(CONSUMER_RATE, context, 0 if busy_ms else response_bytes, counts_if_throttled=False),
        )

    def now_s(self) -> float:
        return self._now_s()

    def spent(self, context: RequestContext, since_s: float, /) -> None:
        applied = self._applied(REQUEST_PERCENTAGE, context)
        if applied is not None:
            percent = (self._now_s() - since_s) * 100
            self._rate(REQUEST_PERCENTAGE, applied).record(percent, self._services.clock.now_ms())

    def _busy_ms(self, context: RequestContext) -> int:
        """How long a client waits for the time that its requests took: a window at most, as in Kafka."""
        applied = self._applied(REQUEST_PERCENTAGE, context)
        if applied is None:
            return 0
        now_ms = self._services.clock.now_ms()
        return min(WINDOW_MS, self._rate(REQUEST_PERCENTAGE, applied).throttle_ms(applied.limit, now_ms))

    def mutations(self, context: RequestContext, /, *, is_strict: bool) -> MutationQuota | None:
        applied = self._applied(MUTATION_RATE, context)
        if applied is None:
            return None
        now_ms = self._services.clock.now_ms()
        bucket = self._mutations.get(applied.shared_by)
        if bucket is None:
            bucket = self._mutations.put(applied.shared_by, TokenBucket(applied.limit, now_ms))
        return MutationQuota(bucket, applied.limit, now_ms, is_strict=is_strict)

    def _used(
        self, key: str, context: RequestContext, amount: int, *, counts_if_throttled: bool = True
    ) -> int:
        applied = self._applied(key, context)
        if applied is None:
            return 0
        rate = self._rate(key, applied)
        now_ms = self._services.clock.now_ms()
        rate.record(amount, now_ms)
        throttle_ms = rate.throttle_ms(applied.limit, now_ms)
        if throttle_ms and not counts_if_throttled:
            rate.record(-amount, now_ms)
        return throttle_ms

    def _rate(self, key: str, applied: Applied) -> Rate:
        owner = (key, *applied.shared_by)
        return self._rates.get(owner) or self._rates.put(owner, Rate())

    def _applied(self, key: str, context: RequestContext) -> Applied | None:
        client = (key, context.principal.name, context.client_id)
        if client not in self._known:
            if len(self._known) >= MOST_BUCKETS:
                self._known.clear()
            self._known[client] = None if self._is_broker(context) else self.table.find(*client)
        return self._known[client]

    def _is_broker(self, context: RequestContext) -> bool:
        """Brokers are not throttled: markers and verifications of all clients would wait."""
        return context.client_id == ADMIN_CLIENT_ID and self._services.authorizer.shows(
            context, CLUSTER_ACTION, CLUSTER_NAME
        )
