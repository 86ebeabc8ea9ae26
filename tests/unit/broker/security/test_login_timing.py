"""The time of an answer does not tell whether a user exists: logins are measured in turn and compared."""

from __future__ import annotations

import base64
import statistics
import time
from collections.abc import Callable
from random import Random

import pytest

from internals.logins import credential
from klamm.broker.security.credentials import ScramCredential
from klamm.broker.security.sasl import Challenge, LoginRefusedError
from klamm.broker.security.sasl_plain import PlainServer, PlainUsers
from klamm.broker.security.sasl_scram import ScramServer
from klamm.broker.security.stored_credentials import credential_of, stored_value
from klamm.clock import ManualClock

USERS = 50
LOGINS = 1500
TRIES = 5  # the machine may be busy
# Of the time that a login takes. What remains, such as the lookup of a name that is there, is some ten
# nanoseconds: no network shows them.
MOST_APART = 0.05


def apart(left: list[float], right: list[float]) -> float:
    """How much longer one takes, at the decile where it is most; above the median it is the machine."""
    pairs = zip(statistics.quantiles(left, n=10)[:5], statistics.quantiles(right, n=10)[:5], strict=True)
    return max(max(first, second) / min(first, second) - 1 for first, second in pairs)


def measured(login: Callable[[str], None], count: int) -> tuple[list[float], list[float]]:
    """Durations for known users and for unknown ones, in random order."""
    known: list[float] = []
    unknown: list[float] = []
    random = Random(1)
    for number in range(2 * count):
        is_known = random.random() < 0.5
        user = f"{'alice' if is_known else 'mallory'}{number % USERS:02}"[-7:]
        began = time.perf_counter_ns()
        login(user)
        (known if is_known else unknown).append(float(time.perf_counter_ns() - began))
    return known, unknown


def check_alike(login: Callable[[str], None], count: int) -> None:
    seen = []
    for _ in range(TRIES):
        seen.append(round(apart(*measured(login, count)), 3))
        if seen[-1] <= MOST_APART:
            return
    pytest.fail(f"known and unknown users can be told apart by their times: {seen}")


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_scram(mechanism: str) -> None:
    stored = stored_value(credential("right", mechanism, b"0123456789abcdef01234567"))
    users = {f"alice{number:02}": stored for number in range(USERS)}

    def find(user: str, _mechanism: str) -> ScramCredential | None:
        value = users.get(user)
        return None if value is None else credential_of(value)

    def login(user: str) -> None:
        server = ScramServer(mechanism, find, b"secret", Random(1))
        first = server.evaluate(f"n,,n={user},r=abc".encode())
        assert isinstance(first, Challenge)
        nonce = first.token.decode().split(",")[0]
        proof = base64.b64encode(bytes(32 if mechanism.endswith("256") else 64)).decode()
        with pytest.raises(LoginRefusedError):
            server.evaluate(f"c=biws,{nonce},p={proof}".encode())

    check_alike(login, LOGINS)


@pytest.mark.parametrize("kind", ["passwords", "rows"])
def test_plain(kind: str) -> None:
    names = [f"alice{number:02}" for number in range(USERS)]
    row = credential("right", "SCRAM-SHA-256", rounds=4096)
    passwords = dict.fromkeys(names, "right") if kind == "passwords" else {}
    rows = dict.fromkeys(names, ("SCRAM-SHA-256", row)) if kind == "rows" else {}
    users = PlainUsers(passwords, rows, ManualClock(), Random(1))

    def login(user: str) -> None:
        def refused() -> None:
            result = PlainServer(users).evaluate(f"\0{user}\0wrong".encode())
            if callable(result):
                result()

        with pytest.raises(LoginRefusedError):
            refused()

    check_alike(login, LOGINS if kind == "passwords" else 60)
