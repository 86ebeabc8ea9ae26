"""DescribeGroups (key 15), versions 0 to 6 in one shape; made by tools/make_messages.py."""

from __future__ import annotations

from collections.abc import Sequence

from klamm.protocol.message import Message, Request


class DescribeGroupsRequest(Request["DescribeGroupsResponse"]):
    """DescribeGroups, the request."""

    __slots__ = ("groups", "include_authorized_operations", "knows_group_id_not_found")
    SCHEMA = (
        (0, 6, "groups", "[]string"),
        (3, 6, "include_authorized_operations", "bool"),
    )

    def __init__(
        self,
        groups: Sequence[str] = (),
        include_authorized_operations: bool = False,
        knows_group_id_not_found: bool = False,  # what the version implies
    ) -> None:
        self.groups = groups
        self.include_authorized_operations = include_authorized_operations
        self.knows_group_id_not_found = knows_group_id_not_found


class DescribedGroupMember(Message):
    """Part of the response."""

    __slots__ = (
        "member_id",
        "group_instance_id",
        "client_id",
        "client_host",
        "member_metadata",
        "member_assignment",
    )
    SCHEMA = (
        (0, 6, "member_id", "string"),
        (4, 6, "group_instance_id", "string?"),
        (0, 6, "client_id", "string"),
        (0, 6, "client_host", "string"),
        (0, 6, "member_metadata", "bytes"),
        (0, 6, "member_assignment", "bytes"),
    )

    def __init__(
        self,
        member_id: str = "",
        group_instance_id: str | None = None,
        client_id: str = "",
        client_host: str = "",
        member_metadata: bytes = b"",
        member_assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.member_metadata = member_metadata
        self.member_assignment = member_assignment


class DescribedGroup(Message):
    """Part of the response."""

    __slots__ = (
        "error_code",
        "error_message",
        "group_id",
        "group_state",
        "protocol_type",
        "protocol_data",
        "members",
        "authorized_operations",
    )
    SCHEMA = (
        (0, 6, "error_code", "int16"),
        (6, 6, "error_message", "string?"),
        (0, 6, "group_id", "string"),
        (0, 6, "group_state", "string"),
        (0, 6, "protocol_type", "string"),
        (0, 6, "protocol_data", "string"),
        (0, 6, "members", "[]DescribedGroupMember"),
        (3, 6, "authorized_operations", "int32"),
    )

    def __init__(
        self,
        error_code: int = 0,
        error_message: str | None = None,
        group_id: str = "",
        group_state: str = "",
        protocol_type: str = "",
        protocol_data: str = "",
        members: Sequence[DescribedGroupMember] = (),
        authorized_operations: int = -2147483648,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.group_id = group_id
        self.group_state = group_state
        self.protocol_type = protocol_type
        self.protocol_data = protocol_data
        self.members = members
        self.authorized_operations = authorized_operations


class DescribeGroupsResponse(Message):
    """DescribeGroups, the response."""

    __slots__ = ("throttle_time_ms", "groups")
    SCHEMA = (
        (1, 6, "throttle_time_ms", "int32"),
        (0, 6, "groups", "[]DescribedGroup"),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        groups: Sequence[DescribedGroup] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.groups = groups
