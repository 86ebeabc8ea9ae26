"""SASL mechanisms, the broker's side. Sans-IO: tokens of a client in, steps of its login out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

PLAIN: Final = "PLAIN"
OAUTHBEARER: Final = "OAUTHBEARER"
SCRAM: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
MECHANISMS: Final = (PLAIN, *SCRAM, OAUTHBEARER)


@dataclass(frozen=True, slots=True)
class Challenge:
    """The client has to answer this."""

    token: bytes


@dataclass(frozen=True, slots=True)
class LoggedIn:
    """The client is who it says."""

    user: str
    token: bytes = b""
    expires_at_ms: int | None = None  # of what it showed, on the wall clock


class LoginRefusedError(Exception):
    """The message is for the client, `cause` for the broker's log.

    No message tells an unknown user from a wrong password.
    """

    def __init__(self, message: str, cause: str, user: str = "") -> None:
        super().__init__(message)
        self.cause = cause
        self.user = user  # as the client named it, not verified


LoginResult: TypeAlias = Challenge | LoggedIn


class ServerMechanism(Protocol):
    """One login with one mechanism: made anew for each."""

    def evaluate(self, token: bytes, /) -> LoginResult | Callable[[], LoginResult]:
        """The step after a token of the client; or work that blocks and finds it, for a thread.

        Both raise LoginRefusedError.
        """
        ...


def invalid_credentials(mechanism: str, cause: str, user: str = "") -> LoginRefusedError:
    """What a client hears whatever was wrong."""
    return LoginRefusedError(
        "Authentication failed during authentication due to invalid credentials with SASL mechanism "
        f"{mechanism}",
        cause,
        user,
    )
