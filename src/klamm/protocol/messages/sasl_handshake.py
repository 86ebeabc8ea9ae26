"""SaslHandshake (key 17), versions 0 to 1 in one shape; made by tools/make_messages.py."""

from __future__ import annotations

from collections.abc import Sequence

from klamm.protocol.message import Message, Request


class SaslHandshakeRequest(Request["SaslHandshakeResponse"]):
    """SaslHandshake, the request."""

    __slots__ = ("mechanism",)
    SCHEMA = ((0, 1, "mechanism", "string"),)

    def __init__(
        self,
        mechanism: str = "",
    ) -> None:
        self.mechanism = mechanism


class SaslHandshakeResponse(Message):
    """SaslHandshake, the response."""

    __slots__ = ("error_code", "mechanisms")
    SCHEMA = (
        (0, 1, "error_code", "int16"),
        (0, 1, "mechanisms", "[]string"),
    )

    def __init__(
        self,
        error_code: int = 0,
        mechanisms: Sequence[str] = (),
    ) -> None:
        self.error_code = error_code
        self.mechanisms = mechanisms
