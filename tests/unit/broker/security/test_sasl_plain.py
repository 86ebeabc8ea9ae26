"""PLAIN on the broker's side."""

from __future__ import annotations

from random import Random

import pytest

from internals.logins import USERS, credential
from klamm.broker.security.sasl import LoggedIn, LoginRefusedError, LoginResult
from klamm.broker.security.sasl_plain import PlainServer, PlainUsers
from klamm.clock import ManualClock


def users(rows: dict[str, str] | None = None, clock: ManualClock | None = None) -> PlainUsers:
    made = {name: ("SCRAM-SHA-256", credential(word, "SCRAM-SHA-256")) for name, word in (rows or {}).items()}
    return PlainUsers(USERS, made, clock or ManualClock(), Random(1))


def evaluated(known: PlainUsers, token: bytes) -> LoginResult:
    step = PlainServer(known).evaluate(token)
    return step() if callable(step) else step


@pytest.mark.parametrize("authorization_id", ["", "alice"])
def test_a_right_password_is_accepted(authorization_id: str) -> None:
    token = f"{authorization_id}\0alice\0{USERS['alice']}".encode()
    assert evaluated(users(), token) == LoggedIn("alice")


@pytest.mark.parametrize(
    ("token", "message"),
    [
        (b"\0alice\0wrong", "Authentication failed: Invalid username or password"),
        (b"\0nobody\0pw", "Authentication failed: Invalid username or password"),
        (b"\0bob\0\xff", "Authentication failed: Invalid username or password"),
        (b"\0\0pw", "Authentication failed: username not specified"),
        (b"\0bob\0", "Authentication failed: password not specified"),
        (
            b"alice\0bob\0pw",
            "Authentication failed: Client requested an authorization id that is different from username",
        ),
        (b"bob", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (b"bob\0pw", "Invalid SASL/PLAIN response: expected 3 tokens, got 2"),
        (b"\0bob\0pw\0", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
    ],
)
@pytest.mark.parametrize("rows", [{}, {"carol": "row"}])
def test_what_is_refused_is_answered_as_kafka_does(token: bytes, message: str, rows: dict[str, str]) -> None:
    with pytest.raises(LoginRefusedError) as refused:
        evaluated(users(rows), token)
    assert str(refused.value) == message


def test_a_row_of_the_users_file_is_computed_on_a_thread_and_not_again_for_a_minute() -> None:
    clock = ManualClock()
    known = users({"carol": "row"}, clock)
    token = b"\0carol\0row"
    first = PlainServer(known).evaluate(token)
    assert callable(first)
    assert first() == LoggedIn("carol")
    assert PlainServer(known).evaluate(token) == LoggedIn("carol")
    assert callable(PlainServer(known).evaluate(b"\0carol\0wrong"))
    clock.advance(60_000)
    assert callable(PlainServer(known).evaluate(token))


def test_where_there_are_rows_an_unknown_user_costs_as_much_as_a_known_one() -> None:
    for token in (b"\0carol\0wrong", b"\0nobody\0wrong", b"\0alice\0wrong"):
        step = PlainServer(users({"carol": "row"})).evaluate(token)
        assert callable(step)
        with pytest.raises(LoginRefusedError):
            step()
