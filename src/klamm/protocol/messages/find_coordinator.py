"""FindCoordinator (key 10), versions 0 to 6 in one shape; made by tools/make_messages.py."""

from __future__ import annotations

from collections.abc import Sequence

from klamm.protocol.message import Message, Request


class FindCoordinatorRequest(Request["FindCoordinatorResponse"]):
    """FindCoordinator, the request."""

    __slots__ = ("key", "key_type", "coordinator_keys", "is_batched")
    SCHEMA = (
        (0, 3, "key", "string"),
        (1, 6, "key_type", "int8"),
        (4, 6, "coordinator_keys", "[]string"),
    )

    def __init__(
        self,
        key: str = "",
        key_type: int = 0,
        coordinator_keys: Sequence[str] = (),
        is_batched: bool = False,  # what the version implies
    ) -> None:
        self.key = key
        self.key_type = key_type
        self.coordinator_keys = coordinator_keys
        self.is_batched = is_batched


class Coordinator(Message):
    """Part of the response."""

    __slots__ = ("key", "node_id", "host", "port", "error_code", "error_message")
    SCHEMA = (
        (4, 6, "key", "string"),
        (4, 6, "node_id", "int32"),
        (4, 6, "host", "string"),
        (4, 6, "port", "int32"),
        (4, 6, "error_code", "int16"),
        (4, 6, "error_message", "string?"),
    )

    def __init__(
        self,
        key: str = "",
        node_id: int = 0,
        host: str = "",
        port: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.key = key
        self.node_id = node_id
        self.host = host
        self.port = port
        self.error_code = error_code
        self.error_message = error_message


class FindCoordinatorResponse(Message):
    """FindCoordinator, the response."""

    __slots__ = ("throttle_time_ms", "coordinators", "error_code", "error_message", "node_id", "host", "port")
    SCHEMA = (
        (1, 6, "throttle_time_ms", "int32"),
        (4, 6, "coordinators", "[]Coordinator"),
        (0, 3, "error_code", "int16"),
        (1, 3, "error_message", "string?"),
        (0, 3, "node_id", "int32"),
        (0, 3, "host", "string"),
        (0, 3, "port", "int32"),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        coordinators: Sequence[Coordinator] = (),
        error_code: int = 0,
        error_message: str | None = None,
        node_id: int = 0,
        host: str = "",
        port: int = 0,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.coordinators = coordinators
        self.error_code = error_code
        self.error_message = error_message
        self.node_id = node_id
        self.host = host
        self.port = port
