"""The session of a connection that logged in: who it is, until when, and how it logs in again (KIP-368)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from weakref import WeakSet

from klamm.access.acls import Principal
from klamm.broker.security.sasl import LoggedIn, LoginRefusedError
from klamm.broker.security.sasl_login import LoginProgress, LoginStep, MakeMechanism

if TYPE_CHECKING:
    from klamm.clock import Clock


@dataclass(frozen=True, slots=True)
class SaslListener:
    """What logins of one listener go by."""

    mechanisms: Mapping[str, MakeMechanism]
    max_receive_bytes: int
    failure_delay_ms: int
    max_session_ms: Mapping[str, int]  # by mechanism; 0: sessions end with what was shown, or never
    sessions: WeakSet[LoginSession] = field(default_factory=WeakSet)  # of connections that are open


class LoginSession:
    """One connection's logins."""

    def __init__(self, listener: SaslListener, clock: Clock) -> None:
        self.listener = listener
        self._clock = clock
        self.principal: Principal | None = None  # after the first login
        self.progress = LoginProgress(listener.mechanisms)
        self.mechanism = ""  # of the last login
        self.lifetime_ms = 0  # of the last session; 0: it does not end
        self._ends_at_ms: int | None = None
        self.on_begin: Callable[[], None] = lambda: None  # a new session
        self.on_login: Callable[[], None] = lambda: None  # the client logs in again
        self.end: Callable[[], None] = lambda: None  # closes the connection when what it owes is sent

    @property
    def may_renew(self) -> bool:
        """Whether the client has a reason to log in again."""
        return self._ends_at_ms is not None

    @property
    def has_ended(self) -> bool:
        return self._ends_at_ms is not None and self._clock.now_ms() >= self._ends_at_ms

    @property
    def is_logging_in(self) -> bool:
        return self.progress.step in (LoginStep.TOKENS, LoginStep.RAW_TOKENS)

    def renew(self) -> None:
        """The client wants to log in again."""
        self.progress = LoginProgress(self.listener.mechanisms, LoginStep.HANDSHAKE)

    def succeed(self, result: LoggedIn) -> None:
        """A login is complete. Raises LoginRefusedError when the client has become another one."""
        principal = Principal("User", result.user)
        progress = self.progress
        if self.principal is not None and self.principal != principal:
            raise LoginRefusedError(
                "Cannot change principals during re-authentication from "
                f"{self.principal.kind}.{self.principal.name}: {principal.kind}.{principal.name}",
                "another user logs in on the connection",
                result.user,
            )
        if self.mechanism not in ("", progress.mechanism):
            raise LoginRefusedError(
                f"Cannot change the mechanism during re-authentication from {self.mechanism}: "
                f"{progress.mechanism}",
                "another mechanism on the connection",
                result.user,
            )
        progress.take(result)
        self.principal, self.mechanism = principal, progress.mechanism
        self.lifetime_ms = self._lifetime_ms(result.expires_at_ms)
        self._ends_at_ms = self._clock.now_ms() + self.lifetime_ms if self.lifetime_ms else None
        self.listener.sessions.add(self)
        self.on_begin()

    def _lifetime_ms(self, expires_at_ms: int | None) -> int:
        limits = [limit for limit in (self.listener.max_session_ms[self.progress.mechanism],) if limit > 0]
        if expires_at_ms is not None:
            # A token may be taken a little after it expired: the session is over at once, and not endless.
            limits.append(max(1, expires_at_ms - self._clock.timestamp_ms()))
        return min(limits, default=0)
