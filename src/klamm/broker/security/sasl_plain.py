"""PLAIN (RFC 4616), the broker's side: passwords of the configuration, or rows of a users file."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Mapping
from random import Random
from typing import Final

from klamm.broker.security.credentials import ScramCredential
from klamm.broker.security.sasl import LoggedIn, LoginRefusedError, LoginResult
from klamm.clock import Clock

HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
DEFAULT_ITERATIONS: Final = 4096
_REMEMBERED_MS: Final = 60_000  # how long a row is not computed again for the same password
_MOST_REMEMBERED: Final = 10_000
_PREFIX: Final = "Authentication failed: "


class PlainUsers:
    """The users of PLAIN on one listener. A check takes as long for an unknown user as for a known one."""

    def __init__(
        self,
        passwords: Mapping[str, str],
        rows: Mapping[str, tuple[str, ScramCredential]],  # by user: the mechanism of the row, and the row
        clock: Clock,
        random: Random,
    ) -> None:
        self._key: Final = random.randbytes(32)
        self._passwords = {user: self._mark(user, password) for user, password in passwords.items()}
        self._rows = dict(rows)
        self._nobody = self._mark("", random.randbytes(32).hex())
        self._absent: tuple[str, ScramCredential] = next(
            ((name, row) for name, row in rows.values()),
            ("SCRAM-SHA-256", ScramCredential(self._key[:16], b"", b"", DEFAULT_ITERATIONS)),
        )
        self._now_ms = clock.now_ms
        self._verified: dict[str, tuple[bytes, int]] = {}  # what a row was computed for, and until when

    def _mark(self, user: str, password: str) -> bytes:
        """Equal for equal passwords, of one length, and of no use elsewhere."""
        return hmac.digest(self._key, f"{user}\0{password}".encode(), "sha256")

    def check(self, user: str, password: str) -> bool | Callable[[], bool]:
        """Whether this is the user's password; or work for a thread that finds it."""
        mark = self._mark(user, password)
        known = self._passwords.get(user)
        is_right = hmac.compare_digest(mark, self._nobody if known is None else known)
        if not self._rows or (is_right and known is not None):
            return is_right and known is not None
        verified = self._verified.get(user)
        if verified is not None and self._now_ms() < verified[1] and hmac.compare_digest(mark, verified[0]):
            return True
        return lambda: self._computed(user, password, mark)

    def _computed(self, user: str, password: str, mark: bytes) -> bool:
        name, row = self._rows.get(user, self._absent)
        name_of_hash = HASHES[name]
        salted = hashlib.pbkdf2_hmac(name_of_hash, password.encode(), row.salt, row.iterations)
        client_key = hmac.digest(salted, b"Client Key", name_of_hash)
        stored_key = hashlib.new(name_of_hash, client_key).digest()
        if not hmac.compare_digest(stored_key, row.stored_key) or user not in self._rows:
            return False
        if len(self._verified) >= _MOST_REMEMBERED:
            self._verified.clear()
        self._verified[user] = mark, self._now_ms() + _REMEMBERED_MS
        return True


class PlainServer:
    """One login with PLAIN."""

    def __init__(self, users: PlainUsers) -> None:
        self._users = users

    def evaluate(self, token: bytes, /) -> LoginResult | Callable[[], LoginResult]:
        try:
            parts = token.decode().split("\0", maxsplit=3)
        except UnicodeDecodeError:
            raise LoginRefusedError(_PREFIX + "Invalid username or password", "it is not UTF-8") from None
        if len(parts) != 3:
            message = f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}"
            raise LoginRefusedError(message, "it does not have three parts")
        authorization_id, user, password = parts
        for name, value in (("username", user), ("password", password)):
            if not value:
                raise LoginRefusedError(f"{_PREFIX}{name} not specified", f"the {name} is empty", user)
        is_right = self._users.check(user, password)
        if callable(is_right):
            work = is_right
            return lambda: _step(authorization_id, user, is_right=work())
        return _step(authorization_id, user, is_right=is_right)


def _step(authorization_id: str, user: str, *, is_right: bool) -> LoginResult:
    if not is_right:
        raise LoginRefusedError(
            _PREFIX + "Invalid username or password", "the user is unknown or the password is wrong", user
        )
    if authorization_id not in ("", user):
        raise LoginRefusedError(
            _PREFIX + "Client requested an authorization id that is different from username",
            "the authorization id is not the user",
            user,
        )
    return LoggedIn(user)
