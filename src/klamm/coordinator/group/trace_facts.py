"""What a trace shows of a request of a group and of its answer: the fields that explain what happens next."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from klamm.coordinator.group.topics import TopicDirectory
from klamm.protocol.consumer_protocol import decode_assignment, decode_subscription
from klamm.protocol.errors import DecodeError, ErrorCode
from klamm.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from klamm.protocol.messages.heartbeat import HeartbeatRequest
from klamm.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from klamm.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from klamm.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from klamm.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from klamm.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse

TRACED: Final[Mapping[type, str]] = {  # what is traced, with the name of its API
    JoinGroupRequest: "JoinGroup",
    SyncGroupRequest: "SyncGroup",
    HeartbeatRequest: "Heartbeat",
    LeaveGroupRequest: "LeaveGroup",
    ConsumerGroupHeartbeatRequest: "ConsumerGroupHeartbeat",
    OffsetCommitRequest: "OffsetCommit",
    TxnOffsetCommitRequest: "TxnOffsetCommit",
}
Facts = dict[str, Any]
_MAX_NAMED: Final = 50  # partitions of one commit or assignment


def facts_of_request(request: object, topics: TopicDirectory | None) -> Facts:
    """Of a request; fields that were not given are left out."""
    match request:
        case JoinGroupRequest():
            found = {
                "protocols": [each.name for each in request.protocols],
                **_subscription(request),
                "session_timeout_ms": request.session_timeout_ms,
                "rebalance_timeout_ms": request.rebalance_timeout_ms,
                "instance_id": request.group_instance_id,
                "reason": request.reason,
            }
        case SyncGroupRequest():
            found = {
                "generation": request.generation_id,
                "assignments": {each.member_id: _partitions(each.assignment) for each in request.assignments},
            }
        case HeartbeatRequest():
            found = {"generation": request.generation_id}
        case LeaveGroupRequest():
            found = {
                "members": [each.member_id or each.group_instance_id for each in request.members],
                "reason": next((each.reason for each in request.members), None),
            }
        case ConsumerGroupHeartbeatRequest():
            owned = request.topic_partitions
            found = {
                "epoch": request.member_epoch,
                "topics": request.subscribed_topic_names,
                "regex": request.subscribed_topic_regex,
                "assignor": request.server_assignor,
                "owned": None if owned is None else _by_id(owned, topics),
                "instance_id": request.instance_id,
            }
        case OffsetCommitRequest():
            found = {
                "generation": request.generation_id_or_member_epoch,
                "offsets": _offsets(request, topics),
            }
        case TxnOffsetCommitRequest():
            found = {
                "transactional_id": request.transactional_id,
                "producer_id": request.producer_id,
                "producer_epoch": request.producer_epoch,
                "generation": request.generation_id,
                "offsets": _offsets(request, topics),
            }
        case _:
            raise TypeError(f"{type(request).__name__} is not traced")
    return {name: value for name, value in found.items() if value not in (None, [], {})}


def facts_of_answer(response: Any, topics: TopicDirectory | None) -> Facts:
    """Of an answer, without its error."""
    match response:
        case JoinGroupResponse() if not response.error_code:
            found: Facts = {
                "generation": response.generation_id,
                "protocol": response.protocol_name,
                "member_id": response.member_id,
                "leader": response.leader,
                "members": [each.member_id for each in response.members],
            }
        case JoinGroupResponse():
            found = {"member_id": response.member_id}
        case SyncGroupResponse() if not response.error_code:
            return {"assignment": _partitions(response.assignment)}  # nothing is an answer, too
        case ConsumerGroupHeartbeatResponse():
            given = response.assignment
            found = {"member_id": response.member_id, "epoch": response.member_epoch}
            if given is not None:
                return {**found, "assignment": _by_id(given.topic_partitions, topics)}
        case _:
            found = {}
    return {name: value for name, value in found.items() if value not in (None, [], "")}


def error_of(response: Any) -> str:
    """The error of an answer: of the whole, or the first one of its parts."""
    codes: Iterable[int]
    match response:
        case OffsetCommitResponse() | TxnOffsetCommitResponse():
            codes = (each.error_code for topic in response.topics for each in topic.partitions)
        case LeaveGroupResponse():
            codes = (response.error_code, *(each.error_code for each in response.members))
        case _:
            codes = (response.error_code,)
    return ErrorCode(next((code for code in codes if code), 0)).name.upper()


def member_of(request: Any) -> str:
    """Who sends it, by member id; empty if it has none yet."""
    if isinstance(request, LeaveGroupRequest) and request.members:
        return request.members[0].member_id
    return str(request.member_id)


def _subscription(request: JoinGroupRequest) -> Facts:
    """Of the protocol that the member prefers, if it is a consumer's."""
    if not request.protocols or request.protocol_type != "consumer":
        return {}
    try:
        read = decode_subscription(request.protocols[0].metadata)
    except DecodeError:
        return {}
    return {"topics": sorted(read.topics), "owned": _named(map(str, read.owned))}


def _partitions(raw: bytes) -> list[str] | str:
    if not raw:
        return []
    try:
        return _named(map(str, decode_assignment(raw).partitions))
    except DecodeError:
        return f"{len(raw)} bytes"


def _offsets(request: OffsetCommitRequest | TxnOffsetCommitRequest, topics: TopicDirectory | None) -> Facts:
    found: Facts = {}
    for topic in request.topics:
        name = topic.name or _topic_name(getattr(topic, "topic_id", b""), topics)
        for each in topic.partitions:
            found[f"{name}-{each.partition_index}"] = each.committed_offset
    return dict(list(found.items())[:_MAX_NAMED])


def _by_id(owned: Iterable[TopicPartitions], topics: TopicDirectory | None) -> list[str]:
    return _named(
        f"{_topic_name(each.topic_id, topics)}-{number}" for each in owned for number in each.partitions
    )


def _topic_name(topic_id: bytes, topics: TopicDirectory | None) -> str:
    known = None if topics is None else topics.by_id(topic_id)
    return topic_id.hex() if known is None else known.name


def _named(names: Iterable[str]) -> list[str]:
    listed = list(names)
    more = len(listed) - _MAX_NAMED
    return listed if more <= 0 else [*listed[:_MAX_NAMED], f"{more} more"]
