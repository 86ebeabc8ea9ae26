"""How fast connections may be opened: of the broker, of a listener, by an address (KIP-612)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from klamm.broker.quotas.buckets import Buckets
from klamm.broker.quotas.rates import WINDOW_MS, Rate
from klamm.config import INT_MAX

if TYPE_CHECKING:
    from klamm.broker.quotas.table import QuotaTable
    from klamm.broker.services import Services

_SETTING: Final = "max.connection.creation.rate"


class Delay(NamedTuple):
    """How long a connection that was opened just now waits, and whether it is served then or closed."""

    wait_ms: int
    is_served: bool


_NONE: Final = Delay(0, is_served=True)


class ConnectionRates:
    """Those of one broker; ten seconds of a rate may be used at once."""

    def __init__(self, services: Services, table: QuotaTable) -> None:
        self._services = services
        self._table = table
        self._of_broker = Rate()
        self._of_listener: dict[str, Rate] = {}
        self._of_address: Buckets[Rate] = Buckets()

    def are_limited(self, listener: str) -> bool:
        """Whether there is any limit for a connection of this listener."""
        return min(self._limits(listener)) < INT_MAX or self._table.has_connection_rates

    def opened(self, listener: str, address: str) -> Delay:
        """Count a connection. One above the rate of its address is not counted, and closed."""
        now_ms = self._services.clock.now_ms()
        limit = self._table.connection_rate(address)
        if limit is not None:
            rate = self._of_address.get((address,)) or self._of_address.put((address,), Rate())
            rate.record(1, now_ms)
            wait_ms = rate.throttle_ms(limit, now_ms)
            if wait_ms:
                rate.record(-1, now_ms)
                return Delay(min(wait_ms, WINDOW_MS), is_served=False)
        of_all, of_listener = self._limits(listener)
        wait_ms = 0
        for rate, most in (
            (self._of_broker, of_all),
            (self._of_listener.setdefault(listener, Rate()), of_listener),
        ):
            rate.record(1, now_ms)
            if most < INT_MAX:
                wait_ms = max(wait_ms, rate.throttle_ms(most, now_ms))
        return Delay(wait_ms, is_served=True) if wait_ms else _NONE

    def _limits(self, listener: str) -> tuple[int, int]:
        """Of all listeners, which does not hold back other brokers, and of this one."""
        config = self._services.config
        is_for_brokers = listener == config.inter_broker_listener_name and len(config.listeners) > 1
        own = config.listener_values[listener].own.get(_SETTING, INT_MAX)
        assert isinstance(own, int)
        return INT_MAX if is_for_brokers else config.max_connection_creation_rate, own
