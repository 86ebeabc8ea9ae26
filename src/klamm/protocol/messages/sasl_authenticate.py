"""SaslAuthenticate (key 36), versions 0 to 2 in one shape; made by tools/make_messages.py."""

from __future__ import annotations

from klamm.protocol.message import Message, Request


class SaslAuthenticateRequest(Request["SaslAuthenticateResponse"]):
    """SaslAuthenticate, the request."""

    __slots__ = ("auth_bytes",)
    SCHEMA = ((0, 2, "auth_bytes", "bytes"),)

    def __init__(
        self,
        auth_bytes: bytes = b"",
    ) -> None:
        self.auth_bytes = auth_bytes


class SaslAuthenticateResponse(Message):
    """SaslAuthenticate, the response."""

    __slots__ = ("error_code", "error_message", "auth_bytes", "session_lifetime_ms")
    SCHEMA = (
        (0, 2, "error_code", "int16"),
        (0, 2, "error_message", "string?"),
        (0, 2, "auth_bytes", "bytes"),
        (1, 2, "session_lifetime_ms", "int64"),
    )

    def __init__(
        self,
        error_code: int = 0,
        error_message: str | None = None,
        auth_bytes: bytes = b"",
        session_lifetime_ms: int = 0,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.auth_bytes = auth_bytes
        self.session_lifetime_ms = session_lifetime_ms
