"""What can be wrong: Kafka's error codes, and bytes that make no sense."""

from __future__ import annotations

from typing import Final

from kio.schema.errors import ErrorCode

__all__ = ["NO_ERROR", "DecodeError", "ErrorCode"]

NO_ERROR: Final = ErrorCode.none  # an enum's member is looked up slowly, and this one for every request


class DecodeError(ValueError):
    """These bytes are not what they claim to be; whoever sent them is not worth an answer."""
