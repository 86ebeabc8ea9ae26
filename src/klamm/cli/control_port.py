"""Requests of `klamm ctl` to the control port of a broker."""

from __future__ import annotations

import http.client
import json
from typing import Annotated, Any
from urllib.parse import quote, urlsplit

import typer

from klamm.cli.failures import MISUSED, fail

Control = Annotated[
    str,
    typer.Option(
        "--control",
        metavar="HOST:PORT",
        envvar="KLAMM_CONTROL",
        help="The control port, as `klamm up --control` prints it.",
    ),
]
Timeout = Annotated[float, typer.Option("--timeout", metavar="SECONDS", help="How long to wait.")]
DEFAULT_TIMEOUT = 10.0


def ask(control: str, timeout: float, method: str, path: str, body: Any = None) -> Any:
    """The answer of the control port; errors end the command with one line."""
    host, port = _address(control)
    connection = http.client.HTTPConnection(host, port, timeout=timeout)
    try:
        connection.request(method, path, None if body is None else json.dumps(body))
        response = connection.getresponse()
        answer = json.loads(response.read())
    except TimeoutError:
        fail(f"control port {control} did not respond within {timeout:g} s")
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        fail(f"control port {control} is unreachable: {reason}; is it that of `klamm up --control`?")
    finally:
        connection.close()
    if response.status >= http.client.BAD_REQUEST:
        fail(answer.get("error", response.reason) if isinstance(answer, dict) else response.reason)
    return answer


def path_of(*words: str) -> str:
    """A path with names that may have any character."""
    return "".join(f"/{quote(word, safe='')}" for word in words)


def _address(control: str) -> tuple[str, int]:
    if not control:
        fail(
            "the address of the control port is missing: add --control HOST:PORT, or set KLAMM_CONTROL",
            MISUSED,
        )
    try:
        url = urlsplit(control if "://" in control else f"http://{control}")
        host, port = url.hostname, url.port
    except ValueError:
        host = port = None
    if not host or not port or url.scheme != "http" or url.path.strip("/"):
        fail(f"invalid value {control} for --control: expected HOST:PORT, as in 127.0.0.1:9093", MISUSED)
    return host, port
