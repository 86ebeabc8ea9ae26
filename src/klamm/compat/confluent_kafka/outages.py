"""Telling a program's `error_cb` that brokers cannot be reached."""

from __future__ import annotations

from collections.abc import Callable

from klamm.client.runtime import Core
from klamm.compat.confluent_kafka.error import KafkaError
from klamm.compat.confluent_kafka.error_codes import CODES
from klamm.errors import AuthenticationError, KlammError


class Outages:
    """A component of the client's core: reports each outage once, and when no broker is left."""

    def __init__(
        self, core: Core, report: Callable[[KafkaError], None], fatal: Callable[[], KlammError | None]
    ) -> None:
        self._core = core
        self._report = report
        self._fatal = fatal
        self._told: set[tuple[str, int]] = set()
        self._told_all = False
        self._told_fatal = False

    def tick(self, _now_ms: int) -> None:
        """Compare with what was told before."""
        network = self._core.network
        for address, error in list(network.unreachable.items()):
            if address not in self._told:
                self._told.add(address)
                is_refusal = isinstance(error, AuthenticationError)
                transport = KafkaError(CODES["_TRANSPORT"], str(error), retriable=True)
                self._report(KafkaError.of(error) if is_refusal else transport)
        self._told &= network.unreachable.keys()
        known = {*network.config.bootstrap}
        known |= {(broker.host, broker.port) for broker in self._core.metadata.cluster.brokers.values()}
        is_down = bool(self._told) and known <= self._told
        if is_down and not self._told_all:
            count = len(known)
            self._report(
                KafkaError(CODES["_ALL_BROKERS_DOWN"], f"{count}/{count} brokers are down", retriable=True)
            )
        self._told_all = is_down
        fatal = self._fatal()
        if fatal is not None and not self._told_fatal:
            self._told_fatal = True
            self._report(KafkaError(CODES["_FATAL"], str(fatal), fatal=True))
