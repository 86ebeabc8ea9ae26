"""The audit log: logins, what was denied, and who changed access. Never a password, a token or a proof."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from klamm.printable import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from klamm.access.acls import Principal
    from klamm.broker.net.context import RequestContext
    from klamm.broker.security.permissions import Permission

DENIAL_WINDOW_MS: Final = 60_000
_MOST_DENIALS: Final = 10_000  # that are counted at once

_log = logging.getLogger("klamm.audit")


def logged_in(principal: Principal, mechanism: str, peer: str, listener: str) -> None:
    _log.info("login of %s from %s: %s, listener %s", printable(str(principal)), peer, mechanism, listener)


def login_refused(user: str, mechanism: str, peer: str, listener: str, cause: str) -> None:
    _log.warning(
        "login of User:%s from %s refused: %s, listener %s: %s",
        printable(user) if user else "?",
        peer,
        mechanism,
        listener,
        printable(cause),
    )


def changed(context: RequestContext, what: Iterable[str]) -> None:
    """Access was changed: ACLs, credentials, quotas. One line for each change."""
    who, host = printable(str(context.principal)), context.client_host.removeprefix("/")
    for each in what:
        _log.info("%s from %s, listener %s: %s", who, host, context.listener, printable(each, 1000))


class Denials:
    """What was denied: a line for each principal, operation and resource in a minute, and how often."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._counts: dict[tuple[str, Permission, str], list[int]] = {}  # when the first was, how many since

    def record(self, context: RequestContext, permission: Permission, name: str) -> None:
        now_ms, key = self._now_ms(), (str(context.principal), permission, name)
        known = self._counts.get(key)
        if known is not None and now_ms - known[0] < DENIAL_WINDOW_MS:
            known[1] += 1
            return
        self._forget(now_ms)
        self._counts[key] = [now_ms, 0]
        host = context.client_host.removeprefix("/")
        _log.warning("denied %s, from %s, listener %s", _in_words(*key), host, context.listener)

    def _forget(self, now_ms: int) -> None:
        """Tell and drop those whose minute is over; the oldest, too, if there are too many."""
        for key, (since_ms, more) in list(self._counts.items()):
            is_over = now_ms - since_ms >= DENIAL_WINDOW_MS
            if not is_over and len(self._counts) < _MOST_DENIALS:
                return  # they are in order
            del self._counts[key]
            if more:
                _log.warning("denied %s, %d times more in a minute", _in_words(*key), more)


def _in_words(principal: str, permission: Permission, name: str) -> str:
    resource_type, operation = permission
    return f"{printable(principal)}: {operation.name} on {resource_type.name} {printable(name)}"
