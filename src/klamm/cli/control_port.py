"""Requests of `klamm ctl` to the control port of a broker."""

from __future__ import annotations

import http.client
import json
import os
import ssl
from typing import Annotated, Any, Final
from urllib.parse import quote, urlsplit

import typer

from klamm.cli.failures import MISUSED, fail

Control = Annotated[
    str,
    typer.Option(
        "--control",
        metavar="HOST:PORT",
        envvar="KLAMM_CONTROL",
        help="The control port, as `klamm up --control` prints it; https://HOST:PORT if it has TLS.",
    ),
]
Timeout = Annotated[
    float, typer.Option("--timeout", metavar="SECONDS", help="Seconds that the whole command may take.")
]
DEFAULT_TIMEOUT = 10.0
TOKEN: Final = "KLAMM_CONTROL_TOKEN"
CA: Final = "KLAMM_CONTROL_CA"


def ask(control: str, timeout: float, method: str, path: str, body: Any = None) -> Any:
    """The answer of the control port; errors end the command with one line."""
    host, port, has_tls = _address(control)
    token = os.environ.get(TOKEN)  # not an option: other users of the machine see the arguments of a process
    fields = {} if token is None else {"Authorization": f"Bearer {token}"}
    if has_tls:
        connection: http.client.HTTPConnection = http.client.HTTPSConnection(
            host, port, timeout=timeout, context=_context()
        )
    else:
        connection = http.client.HTTPConnection(host, port, timeout=timeout)
    try:
        connection.request(method, path, None if body is None else json.dumps(body), fields)
        response = connection.getresponse()
        answer = json.loads(response.read())
    except TimeoutError:
        fail(f"control port {control} did not respond within {timeout:g} s")
    except ssl.SSLError as error:
        if isinstance(error, ssl.SSLCertVerificationError):
            fail(f"control port {control}: its certificate is refused: {error.verify_message}; set {CA}")
        fail(f"control port {control}: TLS failed: {error.reason or error}; has it TLS?")
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        fail(f"control port {control} is unreachable: {reason}; is it that of `klamm up --control`?")
    finally:
        connection.close()
    if response.status == http.HTTPStatus.UNAUTHORIZED:
        fail(f"control port {control} refuses the token: set {TOKEN} to klamm.control.token of the broker")
    if response.status >= http.client.BAD_REQUEST:
        fail(answer.get("error", response.reason) if isinstance(answer, dict) else response.reason)
    return answer


def path_of(*words: str) -> str:
    """A path with names that may have any character."""
    return "".join(f"/{quote(word, safe='')}" for word in words)


def _context() -> ssl.SSLContext:
    file = os.environ.get(CA)
    try:
        return ssl.create_default_context(cafile=file)
    except (OSError, ssl.SSLError) as error:
        fail(f"{CA}={file} cannot be read as a PEM file of certificates: {error}")


def _address(control: str) -> tuple[str, int, bool]:
    """Host, port, and whether it has TLS."""
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
    if not host or not port or url.scheme not in ("http", "https") or url.path.strip("/"):
        fail(f"invalid value {control} for --control: expected HOST:PORT, as in 127.0.0.1:9093", MISUSED)
    return host, port, url.scheme == "https"
