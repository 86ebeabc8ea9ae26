"""Who may use the port of a registry: with a token who has it, without one who asks for this machine by name.

A web page can send requests to a loopback address through the browser of its reader, under a name of its own.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from typing import TYPE_CHECKING

from starlette.datastructures import Headers

from klamm.broker.net.http_access import FAILURE_DELAY_S, HttpAccess
from klamm.registry.app import Answer

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

UNAUTHORIZED = 401


class Guard:
    """An application behind a check of each request."""

    def __init__(self, app: ASGIApp, access: HttpAccess) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        refusal = self._access.refusal(_as_bearer(headers.get("authorization")), headers.get("host"))
        if refusal is None:
            await self._app(scope, receive, send)
            return
        status, reason = refusal
        if status == UNAUTHORIZED:
            await asyncio.sleep(FAILURE_DELAY_S)
        answer = Answer({"error_code": status, "message": reason}, status)
        await answer(scope, receive, send)


def _as_bearer(authorization: str | None) -> str | None:
    """Many clients of registries know Basic alone: the token is the password of any user."""
    scheme, _, given = (authorization or "").partition(" ")
    if scheme.lower() != "basic":
        return authorization
    try:
        pair = base64.b64decode(given, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return authorization
    return f"Bearer {pair.partition(':')[2]}"
