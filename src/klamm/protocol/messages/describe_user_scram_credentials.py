"""DescribeUserScramCredentials (key 50), versions 0 to 0 in one shape; made by tools/make_messages.py."""

from __future__ import annotations

from collections.abc import Sequence

from klamm.protocol.message import Message, Request


class UserName(Message):
    """Part of the request."""

    __slots__ = ("name",)
    SCHEMA = ((0, 0, "name", "string"),)

    def __init__(
        self,
        name: str = "",
    ) -> None:
        self.name = name


class DescribeUserScramCredentialsRequest(Request["DescribeUserScramCredentialsResponse"]):
    """DescribeUserScramCredentials, the request."""

    __slots__ = ("users",)
    SCHEMA = ((0, 0, "users", "[]UserName?"),)

    def __init__(
        self,
        users: Sequence[UserName] | None = (),
    ) -> None:
        self.users = users


class CredentialInfo(Message):
    """Part of the response."""

    __slots__ = ("mechanism", "iterations")
    SCHEMA = (
        (0, 0, "mechanism", "int8"),
        (0, 0, "iterations", "int32"),
    )

    def __init__(
        self,
        mechanism: int = 0,
        iterations: int = 0,
    ) -> None:
        self.mechanism = mechanism
        self.iterations = iterations


class DescribeUserScramCredentialsResult(Message):
    """Part of the response."""

    __slots__ = ("user", "error_code", "error_message", "credential_infos")
    SCHEMA = (
        (0, 0, "user", "string"),
        (0, 0, "error_code", "int16"),
        (0, 0, "error_message", "string?"),
        (0, 0, "credential_infos", "[]CredentialInfo"),
    )

    def __init__(
        self,
        user: str = "",
        error_code: int = 0,
        error_message: str | None = None,
        credential_infos: Sequence[CredentialInfo] = (),
    ) -> None:
        self.user = user
        self.error_code = error_code
        self.error_message = error_message
        self.credential_infos = credential_infos


class DescribeUserScramCredentialsResponse(Message):
    """DescribeUserScramCredentials, the response."""

    __slots__ = ("throttle_time_ms", "error_code", "error_message", "results")
    SCHEMA = (
        (0, 0, "throttle_time_ms", "int32"),
        (0, 0, "error_code", "int16"),
        (0, 0, "error_message", "string?"),
        (0, 0, "results", "[]DescribeUserScramCredentialsResult"),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        results: Sequence[DescribeUserScramCredentialsResult] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.results = results
