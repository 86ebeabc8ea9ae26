"""How many connections there may be: in all, of a listener, of an address."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from klamm.config import INT_MAX

if TYPE_CHECKING:
    from klamm.broker.services import Services


class ConnectionLimits:
    """Counts the connections of a broker, with those that have not logged in."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._of_listener: Counter[str] = Counter()
        self._of_address: Counter[str] = Counter()

    def exceeded(self, listener: str, address: str) -> str | None:
        """The limit that one more connection would exceed."""
        config = self._services.config
        # Other brokers connect whatever clients do; with a single listener they are not told apart.
        is_for_brokers = listener == config.inter_broker_listener_name and len(config.listeners) > 1
        if not is_for_brokers and self._of_listener.total() >= config.max_connections:
            return "max.connections"
        limit = config.listener_values[listener].own.get("max.connections", INT_MAX)
        assert isinstance(limit, int)
        if self._of_listener[listener] >= limit:
            return f"listener.name.{listener.lower()}.max.connections"
        overrides = config.max_connections_per_ip_overrides
        if self._of_address[address] < overrides.get(address, config.max_connections_per_ip):
            return None
        return "max.connections.per.ip.overrides" if address in overrides else "max.connections.per.ip"

    def opened(self, listener: str, address: str) -> None:
        self._of_listener[listener] += 1
        self._of_address[address] += 1

    def closed(self, listener: str, address: str) -> None:
        self._of_listener[listener] -= 1
        self._of_address[address] -= 1
        if not self._of_address[address]:
            del self._of_address[address]
