"""AlterUserScramCredentials (key 51), versions 0 to 0 in one shape; made by tools/make_messages.py."""

from __future__ import annotations

from collections.abc import Sequence

from klamm.protocol.message import Message, Request


class ScramCredentialDeletion(Message):
    """Part of the request."""

    __slots__ = ("name", "mechanism")
    SCHEMA = (
        (0, 0, "name", "string"),
        (0, 0, "mechanism", "int8"),
    )

    def __init__(
        self,
        name: str = "",
        mechanism: int = 0,
    ) -> None:
        self.name = name
        self.mechanism = mechanism


class ScramCredentialUpsertion(Message):
    """Part of the request."""

    __slots__ = ("name", "mechanism", "iterations", "salt", "salted_password")
    SCHEMA = (
        (0, 0, "name", "string"),
        (0, 0, "mechanism", "int8"),
        (0, 0, "iterations", "int32"),
        (0, 0, "salt", "bytes"),
        (0, 0, "salted_password", "bytes"),
    )

    def __init__(
        self,
        name: str = "",
        mechanism: int = 0,
        iterations: int = 0,
        salt: bytes = b"",
        salted_password: bytes = b"",
    ) -> None:
        self.name = name
        self.mechanism = mechanism
        self.iterations = iterations
        self.salt = salt
        self.salted_password = salted_password


class AlterUserScramCredentialsRequest(Request["AlterUserScramCredentialsResponse"]):
    """AlterUserScramCredentials, the request."""

    __slots__ = ("deletions", "upsertions")
    SCHEMA = (
        (0, 0, "deletions", "[]ScramCredentialDeletion"),
        (0, 0, "upsertions", "[]ScramCredentialUpsertion"),
    )

    def __init__(
        self,
        deletions: Sequence[ScramCredentialDeletion] = (),
        upsertions: Sequence[ScramCredentialUpsertion] = (),
    ) -> None:
        self.deletions = deletions
        self.upsertions = upsertions


class AlterUserScramCredentialsResult(Message):
    """Part of the response."""

    __slots__ = ("user", "error_code", "error_message")
    SCHEMA = (
        (0, 0, "user", "string"),
        (0, 0, "error_code", "int16"),
        (0, 0, "error_message", "string?"),
    )

    def __init__(
        self,
        user: str = "",
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.user = user
        self.error_code = error_code
        self.error_message = error_message


class AlterUserScramCredentialsResponse(Message):
    """AlterUserScramCredentials, the response."""

    __slots__ = ("throttle_time_ms", "results")
    SCHEMA = (
        (0, 0, "throttle_time_ms", "int32"),
        (0, 0, "results", "[]AlterUserScramCredentialsResult"),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        results: Sequence[AlterUserScramCredentialsResult] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results = results
