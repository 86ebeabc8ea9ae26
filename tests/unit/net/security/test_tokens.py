"""Where tokens come from: a function of the program, and a token endpoint."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from klamm.config import ConfigError, Password
from klamm.errors import DisconnectedError, SaslAuthenticationError
from klamm.net.security.tokens import ClientCredentials, from_function

SECRET = "marker-secret"


def test_a_function_gives_token_and_expiry() -> None:
    asked: list[str] = []

    def oauth_cb(config: str) -> tuple[str, float, str, dict[str, str]]:
        asked.append(config)
        return "abc.def", time.time() + 100, "alice", {"logicalCluster": "x"}

    token = from_function(oauth_cb, "region=eu")()
    assert (token.value, dict(token.extensions), asked) == ("abc.def", {"logicalCluster": "x"}, ["region=eu"])
    assert 90 < token.lifetime_s <= 100


@pytest.mark.parametrize(
    ("answer", "cause"),
    [
        (SECRET, "expected a tuple"),
        ((SECRET,), "expected a tuple"),
        ((SECRET, "soon"), "seconds since 1970"),
        ((None, 1), "seconds since 1970"),
        ((SECRET, 1_000), "expired"),
        (("", 9e9), "is empty"),
        ((SECRET + "\x01auth=x", 9e9), "characters that no token has"),
    ],
)
def test_a_function_that_returns_something_else_is_told_what_is_expected(answer: Any, cause: str) -> None:
    with pytest.raises(SaslAuthenticationError, match=cause) as error:
        from_function(lambda _: answer, "")()
    assert SECRET not in str(error.value)


Answer = tuple[int, bytes]


class Endpoint(ThreadingHTTPServer):
    """A token endpoint that answers as the test says."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answer: Answer = (200, b"")
        self.asked: list[tuple[str | None, bytes]] = []
        self.url = f"http://127.0.0.1:{self.server_port}/token"


class Handler(BaseHTTPRequestHandler):
    server: Endpoint

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.asked.append((self.headers["Authorization"], body))
        code, answer = self.server.answer
        self.send_response(code)
        if code == 302:
            self.send_header("Location", self.server.url + "/elsewhere")
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the base class
        del format, args


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with Endpoint() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def credentials(endpoint: Endpoint) -> ClientCredentials:
    return ClientCredentials(endpoint.url, "me", Password(SECRET), scope="kafka write")


def test_client_credentials_are_sent_as_kafka_sends_them(endpoint: Endpoint) -> None:
    endpoint.answer = 200, json.dumps({"access_token": "abc", "expires_in": 300}).encode()
    token = credentials(endpoint).obtain()
    assert (token.value, token.lifetime_s) == ("abc", 300)
    basic = base64.b64encode(f"me:{SECRET}".encode()).decode()
    assert endpoint.asked == [(f"Basic {basic}", b"grant_type=client_credentials&scope=kafka+write")]


def test_without_expires_in_the_token_itself_says_when_it_ends(endpoint: Endpoint) -> None:
    payload = base64.urlsafe_b64encode(json.dumps({"exp": time.time() + 60}).encode()).decode().rstrip("=")
    endpoint.answer = 200, json.dumps({"access_token": f"e30.{payload}.x"}).encode()
    assert 50 < credentials(endpoint).obtain().lifetime_s <= 60


def _refusals() -> list[tuple[Answer, type[Exception], str]]:
    denied = json.dumps({"error": "invalid_client", "error_description": "no\x1b such client"}).encode()
    return [
        (
            (401, denied),
            SaslAuthenticationError,
            r"refused client me: HTTP 401 .*invalid_client: no\\x1b such",
        ),
        ((400, b"<html>"), SaslAuthenticationError, "HTTP 400; check sasl.oauthbearer.client.id"),
        ((302, b""), SaslAuthenticationError, "HTTP 302"),
        ((503, b""), DisconnectedError, "HTTP 503"),
        ((200, b"<html>"), SaslAuthenticationError, "sent no access_token"),
        ((200, b'{"access_token": 5}'), SaslAuthenticationError, "sent no access_token"),
        ((200, b'{"access_token": "abc"}'), SaslAuthenticationError, "expected expires_in"),
    ]


@pytest.mark.parametrize(("answer", "kind", "cause"), _refusals())
def test_a_refusal_says_why_and_an_outage_may_be_tried_again(
    endpoint: Endpoint, answer: Answer, kind: type[Exception], cause: str
) -> None:
    endpoint.answer = answer
    with pytest.raises(kind, match=cause) as error:
        credentials(endpoint).obtain()
    assert SECRET not in str(error.value)
    assert len(endpoint.asked) == 1  # the secret does not follow a redirect


def test_an_endpoint_that_is_away_may_be_tried_again(endpoint: Endpoint) -> None:
    away = ClientCredentials("http://127.0.0.1:1/token", "me", Password(SECRET))
    with pytest.raises(DisconnectedError, match=r"127\.0\.0\.1:1"):
        away.obtain()


@pytest.mark.parametrize("url", ["token", "ftp://x/y", "https://", "https://me:secret@idp/token"])
def test_an_url_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="expected https://host/path"):
        ClientCredentials(url, "me", Password(SECRET))


def test_a_secret_is_not_shown() -> None:
    shown: Callable[[object], str] = repr
    assert SECRET not in shown(ClientCredentials("https://idp/token", "me", Password(SECRET)))
