"""Small value types shared by every layer."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Final, Literal, NamedTuple

Buffer = bytes | bytearray | memoryview
Direction = Literal["request", "response"]

ZERO_ID: Final = bytes(16)  # "no topic id" on the wire


class TopicPartition(NamedTuple):
    """One partition of one topic; prints as `topic-0`."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def id_to_text(topic_id: bytes) -> str:
    """A 16-byte id as Kafka writes it: base64url without padding, 22 characters."""
    return urlsafe_b64encode(topic_id).rstrip(b"=").decode()


def id_from_text(text: str) -> bytes:
    """The inverse of `id_to_text`; ValueError when the text is invalid."""
    raw = urlsafe_b64decode(text + "==")
    if len(raw) != 16:
        raise ValueError(f"{text!r} is not a 16-byte id in base64url")
    return raw
