"""DescribeGroups (key 15), versions 0 to 6 in one shape; made by tools/make_messages.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from klamm.protocol.request import Request


@dataclass(slots=True)
class DescribeGroupsRequest(Request["DescribeGroupsResponse"]):
    """DescribeGroups, the request."""

    groups: Sequence[str] = ()
    include_authorized_operations: bool = False
    knows_group_id_not_found: bool = False  # what the version implies


@dataclass(slots=True)
class DescribedGroupMember:
    """Part of the response."""

    member_id: str = ""
    group_instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    member_metadata: bytes = b""
    member_assignment: bytes = b""


@dataclass(slots=True)
class DescribedGroup:
    """Part of the response."""

    error_code: int = 0
    error_message: str | None = None
    group_id: str = ""
    group_state: str = ""
    protocol_type: str = ""
    protocol_data: str = ""
    members: Sequence[DescribedGroupMember] = ()
    authorized_operations: int = -2147483648


@dataclass(slots=True)
class DescribeGroupsResponse:
    """DescribeGroups, the response."""

    throttle_time_ms: int = 0
    groups: Sequence[DescribedGroup] = ()
