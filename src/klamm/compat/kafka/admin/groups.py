"""Groups and offsets in kafka-python's admin."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from klamm.client.admin.admin import Admin
from klamm.client.admin.model import CommittedOffset, GroupDescription
from klamm.compat.callers import OffsetAndTimestamp
from klamm.compat.kafka import errors as names
from klamm.compat.kafka.admin.configs import code_of, seconds
from klamm.compat.kafka.admin.model import GroupState, GroupType, MemberToRemove
from klamm.compat.kafka.structs import OffsetAndMetadata
from klamm.compat.kafka.words import IsolationLevel, OffsetSpec, OffsetTimestamp
from klamm.errors import KlammError, error_class
from klamm.protocol.types import TopicPartition

_NO_ERROR = error_class(0)
_SPECS = {
    OffsetSpec.LATEST: "latest",
    OffsetSpec.EARLIEST: "earliest",
    OffsetSpec.MAX_TIMESTAMP: "max_timestamp",
}


class GroupCalls:
    """The methods about groups and offsets."""

    _admin: Admin

    def list_groups(
        self,
        broker_ids: Iterable[int] | None = None,
        states_filter: Iterable[GroupState | str] | None = None,
        types_filter: Iterable[GroupType | str] | None = None,
    ) -> list[dict[str, Any]]:
        """The groups of the whole cluster."""
        if broker_ids is not None:
            raise NotImplementedError("klamm's admin asks all brokers: leave broker_ids out")
        found = self._admin.list_groups(
            states=[GroupState.build_from(item).value for item in states_filter or ()],
            types=[GroupType.build_from(item).value for item in types_filter or ()],
        )
        return [
            {
                "group_id": item.group_id,
                "protocol_type": item.protocol_type,
                "group_state": item.state,
                "group_type": item.group_type,
            }
            for item in found
        ]

    def describe_groups(
        self,
        group_ids: Iterable[str],
        group_coordinator_id: int | None = None,
        include_authorized_operations: bool = False,
    ) -> dict[str, dict[str, Any]]:
        """Groups with their members; `error` says why there is none."""
        if include_authorized_operations:
            raise NotImplementedError("klamm's admin does not read operations: leave them out")
        results = self._admin.describe_groups(list(group_ids), raise_errors=False)
        return {
            name: _nothing(name, results.errors[name])
            if name in results.errors
            else _described(results[name])
            for name in results
        }

    def delete_groups(
        self, group_ids: Iterable[str], group_coordinator_id: int | None = None
    ) -> dict[str, str]:
        """Delete groups without members: "OK", or the name of the error."""
        results = self._admin.delete_groups(list(group_ids), raise_errors=False)
        return {name: _name_of(results.errors[name]) if name in results.errors else "OK" for name in results}

    def remove_group_members(
        self, group_id: str, members: Iterable[MemberToRemove], group_coordinator_id: int | None = None
    ) -> dict[str, Any]:
        """Remove members; the class of an error by member."""
        listed = list(members)
        if not listed:
            raise ValueError("give the members to remove")
        reasons = {item.reason for item in listed if item.reason is not None}
        results = self._admin.remove_members(
            group_id,
            instance_ids=[item.group_instance_id for item in listed if item.group_instance_id is not None],
            member_ids=[item.member_id or "" for item in listed if item.group_instance_id is None],
            reason="; ".join(sorted(reasons)) or "removed by an admin",
            raise_errors=False,
        )
        return {name: _class_of(results.errors.get(name)) for name in results}

    # --- offsets of groups ------------------------------------------------------------------------------

    def list_group_offsets(self, group_specs: Any) -> dict[str, dict[TopicPartition, OffsetAndMetadata]]:
        """Committed offsets, of one group, of several, or of these partitions of each."""
        if isinstance(group_specs, str):
            group_specs = [group_specs]
        wanted = group_specs if isinstance(group_specs, Mapping) else dict.fromkeys(group_specs)
        found = {}
        for group_id, partitions in wanted.items():
            offsets = self._admin.list_group_offsets(group_id, partitions)
            found[group_id] = {
                partition: OffsetAndMetadata(item.offset, item.metadata, item.leader_epoch)
                for partition, item in offsets.items()
            }
        return found

    def alter_group_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        group_coordinator_id: int | None = None,
    ) -> dict[TopicPartition, Any]:
        """Commit offsets for a group without members; the class of an error by partition."""
        given = {
            key: CommittedOffset(item.offset, item.leader_epoch, item.metadata)
            for key, item in offsets.items()
        }
        results = self._admin.alter_group_offsets(group_id, given, raise_errors=False)
        return {key: _class_of(results.errors.get(key)) for key in results}

    def delete_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition], group_coordinator_id: int | None = None
    ) -> dict[TopicPartition, Any]:
        """Delete committed offsets; the class of an error by partition."""
        results = self._admin.delete_group_offsets(group_id, list(partitions), raise_errors=False)
        return {key: _class_of(results.errors.get(key)) for key in results}

    def reset_group_offsets(
        self,
        group_id: str,
        offset_specs: Mapping[TopicPartition, Any],
        group_coordinator_id: int | None = None,
    ) -> dict[TopicPartition, dict[str, Any]]:
        """Reset a group without members: an OffsetSpec, an OffsetTimestamp or an offset by partition."""
        found = {}
        for partition, spec in offset_specs.items():
            to = _asked(spec)
            by_time = {"timestamp_ms": int(spec)} if isinstance(spec, OffsetTimestamp) else {"to": to}
            if to == "max_timestamp":
                by_time = {"to": self._admin.list_offsets([partition], to)[partition].offset}
            results = self._admin.reset_group_offsets(group_id, [partition], raise_errors=False, **by_time)
            error = results.errors.get(partition)
            found[partition] = {
                "error": _class_of(error),
                "offset": -1 if error is not None else results[partition],
            }
        return found

    # --- offsets of partitions --------------------------------------------------------------------------

    def list_partition_offsets(
        self,
        topic_partition_specs: Mapping[TopicPartition, Any],
        isolation_level: IsolationLevel | str | int = IsolationLevel.READ_UNCOMMITTED,
        timeout_ms: float | None = None,
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """Offsets by OffsetSpec, or the first at a time in milliseconds."""
        found = self._admin.list_offsets(
            {key: _asked(spec) for key, spec in topic_partition_specs.items()},
            read_committed=IsolationLevel.build_from(isolation_level) is IsolationLevel.READ_COMMITTED,
            timeout=seconds(timeout_ms),
        )
        return {
            key: OffsetAndTimestamp(item.offset, item.timestamp_ms, item.leader_epoch)
            for key, item in found.items()
        }

    def delete_records(
        self,
        records_to_delete: Mapping[TopicPartition, Any],
        timeout_ms: float | None = None,
        partition_leader_id: int | None = None,
    ) -> dict[TopicPartition, dict[str, int]]:
        """Delete the records before an offset; where each partition begins now."""
        before = {key: getattr(item, "before_offset", item) for key, item in records_to_delete.items()}
        found = self._admin.delete_records(before, timeout=seconds(timeout_ms))
        return {
            key: {"partition_index": key.partition, "low_watermark": low, "error_code": 0}
            for key, low in found.items()
        }


def _asked(spec: Any) -> Any:
    """As klamm's admin takes it: a word, or a time or offset."""
    if isinstance(spec, OffsetSpec):
        if spec not in _SPECS:
            raise ValueError(f"{spec.name}: klamm's admin asks for LATEST, EARLIEST and MAX_TIMESTAMP")
        return _SPECS[spec]
    return int(spec)


def _class_of(error: KlammError | None) -> Any:
    return _NO_ERROR if error is None else type(error)


def _name_of(error: KlammError) -> str:
    """The name of its class in kafka.errors."""
    return next((name for name, item in vars(names).items() if item is type(error)), type(error).__name__)


def _nothing(name: str, error: KlammError) -> dict[str, Any]:
    return {
        "group_id": name,
        "group_state": "Dead",
        "protocol_type": "",
        "protocol_data": "",
        "members": [],
        "authorized_operations": None,
        "error": f"[Error {code_of(error)}] {error}",
    }


def _described(group: GroupDescription) -> dict[str, Any]:
    return {
        "group_id": group.group_id,
        "group_state": group.state,
        "protocol_type": group.protocol_type,
        "protocol_data": group.protocol,
        "members": [
            {
                "member_id": item.member_id,
                "group_instance_id": item.group_instance_id,
                "client_id": item.client_id,
                "client_host": item.client_host,
                "member_metadata": {"topics": list(item.subscribed_topics or ()), "user_data": ""},
                "member_assignment": {
                    "assigned_partitions": _by_topic(item.assignment or ()),
                    "user_data": "",
                },
            }
            for item in group.members
        ],
        "authorized_operations": None,
        "error": None,
    }


def _by_topic(partitions: Iterable[TopicPartition]) -> list[dict[str, Any]]:
    grouped: dict[str, list[int]] = {}
    for item in partitions:
        grouped.setdefault(item.topic, []).append(item.partition)
    return [{"topic": topic, "partitions": numbers} for topic, numbers in grouped.items()]
