"""Who may use the HTTP ports of a broker, and how many connections they have."""

from __future__ import annotations

import hmac
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from klamm.broker.net.listeners import is_loopback

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from klamm.broker.net.newcomers import Newcomer
    from klamm.config import Password

FAILURE_DELAY_S: Final = 0.1  # of the answer to a wrong token: guessing is slow
MOST_CONNECTIONS: Final = 100
MOST_OF_ADDRESS: Final = 20
REQUEST_TIMEOUT_S: Final = 10
RESPONSE_TIMEOUT_S: Final = 120
NOT_FOR_PAGES: Final = "this port is not for web pages: ask for 127.0.0.1 or localhost, not another name"


@dataclass(frozen=True, slots=True)
class HttpAccess:
    """What a request must have."""

    token: Password | None = None
    only_local_names: bool = False  # in the field Host: a web page's name may resolve to this machine

    def refusal(self, authorization: str | None, host: str | None) -> tuple[int, str] | None:
        """The status and the reason for refusing a request with these fields; None if it is allowed."""
        if self.token is not None:
            scheme, _, given = (authorization or "").partition(" ")
            # Bytes: compare_digest takes no text beyond ASCII.
            is_right = hmac.compare_digest(given.strip().encode(), self.token.secret.encode())
            if scheme.lower() != "bearer" or not is_right:
                return 401, "this port needs its token: send `Authorization: Bearer TOKEN`"
        elif self.only_local_names and host is not None and not _is_local(host):
            return 403, NOT_FOR_PAGES
        return None


def _is_local(host: str) -> bool:
    return is_loopback(host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0])


class HttpAdmission:
    """Connections of an HTTP port: how many there may be, and for how long."""

    def __init__(self, loop: asyncio.AbstractEventLoop, report: Callable[[str, str], None]) -> None:
        """`report` is told peer and reason of a refusal."""
        self.loop = loop
        self.report = report
        self._admitted: dict[Newcomer, tuple[str, asyncio.TimerHandle]] = {}
        self._by_address: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._admitted)

    def admit(self, newcomer: Newcomer, transport: asyncio.Transport, listener: str) -> bool:
        """Whether there is room; else its transport is aborted."""
        peer = transport.get_extra_info("peername")
        address = str(peer[0]) if peer else "?"
        if len(self) >= MOST_CONNECTIONS or self._by_address[address] >= MOST_OF_ADDRESS:
            self.report(address, f"the port {listener} has as many connections as it serves")
            transport.abort()
            return False
        self._by_address[address] += 1
        self._admitted[newcomer] = address, self.loop.call_later(REQUEST_TIMEOUT_S, newcomer.abort)
        return True

    def answering(self, newcomer: Newcomer) -> None:
        """Its request is complete: the answer may take longer than the request."""
        if newcomer in self._admitted:
            address, timer = self._admitted[newcomer]
            timer.cancel()
            self._admitted[newcomer] = address, self.loop.call_later(RESPONSE_TIMEOUT_S, newcomer.abort)

    def leave(self, newcomer: Newcomer) -> None:
        """It is gone."""
        address, timer = self._admitted.pop(newcomer, (None, None))
        if address is None or timer is None:
            return
        timer.cancel()
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]
