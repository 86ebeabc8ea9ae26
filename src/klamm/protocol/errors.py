"""Kafka's error codes, and the error for malformed bytes."""

from __future__ import annotations

from typing import Final

from klamm.protocol.error_codes import ErrorCode

__all__ = ["NO_ERROR", "DecodeError", "ErrorCode", "TlsAlertError"]

NO_ERROR: Final = ErrorCode.none  # member access of an enum is slow, and every request needs this one


class DecodeError(ValueError):
    """Malformed bytes; the connection that sent them is closed without a response."""


class TlsAlertError(DecodeError):
    """The other side speaks TLS."""
