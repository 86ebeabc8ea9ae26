"""DeleteTopics (key 20), versions 1 to 6 in one shape; made by tools/make_messages.py."""

from __future__ import annotations

from collections.abc import Sequence

from klamm.protocol.message import Message, Request
from klamm.protocol.types import ZERO_ID


class DeleteTopicState(Message):
    """Part of the request."""

    __slots__ = ("name", "topic_id")
    SCHEMA = (
        (6, 6, "name", "string?"),
        (6, 6, "topic_id", "uuid"),
    )

    def __init__(
        self,
        name: str | None = None,
        topic_id: bytes = ZERO_ID,
    ) -> None:
        self.name = name
        self.topic_id = topic_id


class DeleteTopicsRequest(Request["DeleteTopicsResponse"]):
    """DeleteTopics, the request."""

    __slots__ = ("topics", "topic_names", "timeout_ms", "knows_deletion_disabled", "knows_throttling")
    SCHEMA = (
        (6, 6, "topics", "[]DeleteTopicState"),
        (1, 5, "topic_names", "[]string"),
        (1, 6, "timeout_ms", "int32"),
    )

    def __init__(
        self,
        topics: Sequence[DeleteTopicState] = (),
        topic_names: Sequence[str] = (),
        timeout_ms: int = 0,
        knows_deletion_disabled: bool = False,  # what the version implies
        knows_throttling: bool = False,  # what the version implies
    ) -> None:
        self.topics = topics
        self.topic_names = topic_names
        self.timeout_ms = timeout_ms
        self.knows_deletion_disabled = knows_deletion_disabled
        self.knows_throttling = knows_throttling


class DeletableTopicResult(Message):
    """Part of the response."""

    __slots__ = ("name", "topic_id", "error_code", "error_message")
    SCHEMA = (
        (1, 5, "name", "string"),
        (6, 6, "name", "string?"),
        (6, 6, "topic_id", "uuid"),
        (1, 6, "error_code", "int16"),
        (5, 6, "error_message", "string?"),
    )

    def __init__(
        self,
        name: str | None = None,
        topic_id: bytes = ZERO_ID,
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.error_code = error_code
        self.error_message = error_message


class DeleteTopicsResponse(Message):
    """DeleteTopics, the response."""

    __slots__ = ("throttle_time_ms", "responses")
    SCHEMA = (
        (1, 6, "throttle_time_ms", "int32"),
        (1, 6, "responses", "[]DeletableTopicResult"),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        responses: Sequence[DeletableTopicResult] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.responses = responses
