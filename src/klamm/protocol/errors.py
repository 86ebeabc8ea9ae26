"""What can be wrong: Kafka's error codes, and bytes that make no sense."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

__all__ = ["DecodeError", "ErrorCode"]


class DecodeError(ValueError):
    """These bytes are not what they claim to be; whoever sent them is not worth an answer."""
