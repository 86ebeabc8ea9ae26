"""One login of one connection: which request may come next, and what it is answered. Sans-IO."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Final, TypeAlias

from klamm.broker.security.sasl import LoggedIn, LoginResult, ServerMechanism

MakeMechanism: TypeAlias = Callable[[], ServerMechanism]


class LoginStep(Enum):
    """What a login waits for."""

    START = "start"  # ApiVersions or SaslHandshake
    HANDSHAKE = "handshake"  # SaslHandshake
    TOKENS = "tokens"  # SaslAuthenticate
    RAW_TOKENS = "raw tokens"  # after version 0 of SaslHandshake: frames without headers
    OPEN = "open"  # logged in
    FAILED = "failed"


NEXT_STEPS: Final[Mapping[LoginStep, frozenset[LoginStep]]] = {
    LoginStep.START: frozenset(
        {LoginStep.HANDSHAKE, LoginStep.TOKENS, LoginStep.RAW_TOKENS, LoginStep.FAILED}
    ),
    LoginStep.HANDSHAKE: frozenset({LoginStep.TOKENS, LoginStep.RAW_TOKENS, LoginStep.FAILED}),
    LoginStep.TOKENS: frozenset({LoginStep.OPEN, LoginStep.FAILED}),
    LoginStep.RAW_TOKENS: frozenset({LoginStep.OPEN, LoginStep.FAILED}),
    LoginStep.OPEN: frozenset(),
    LoginStep.FAILED: frozenset(),
}


class LoginProgress:
    """Where a login is."""

    def __init__(self, mechanisms: Mapping[str, MakeMechanism], step: LoginStep = LoginStep.START) -> None:
        self._mechanisms = mechanisms
        self._exchange: ServerMechanism | None = None
        self.step = step
        self.mechanism = ""

    @property
    def offered(self) -> tuple[str, ...]:
        return tuple(self._mechanisms)

    def versions_told(self) -> None:
        """ApiVersions was answered: it does not come again."""
        self._move(LoginStep.HANDSHAKE)

    def choose(self, mechanism: str, *, is_raw: bool) -> bool:
        """The client wants to log in with this mechanism: whether it is offered."""
        make = self._mechanisms.get(mechanism)
        if make is None:
            self.fail()
            return False
        self.mechanism = mechanism
        self._exchange = make()
        self._move(LoginStep.RAW_TOKENS if is_raw else LoginStep.TOKENS)
        return True

    def evaluate(self, token: bytes) -> LoginResult | Callable[[], LoginResult]:
        """The next step, or work for a thread that finds it. Both raise LoginRefusedError."""
        assert self._exchange is not None, self.step
        return self._exchange.evaluate(token)

    def take(self, result: LoginResult) -> None:
        if isinstance(result, LoggedIn):
            self._move(LoginStep.OPEN)

    def fail(self) -> None:
        if self.step is not LoginStep.FAILED:
            self._move(LoginStep.FAILED)

    def _move(self, step: LoginStep) -> None:
        assert step in NEXT_STEPS[self.step], (self.step, step)
        self.step = step
