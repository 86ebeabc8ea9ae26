"""Operations on groups and offsets, each as a future."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future
from typing import Any

from klamm.client.admin import arguments, groups, resets
from klamm.client.admin import offsets as offset_calls
from klamm.client.admin.arguments import ByPartition, OffsetSpec, Partition, milliseconds
from klamm.client.admin.model import CommittedOffset, GroupDescription, ListedGroup, ListedOffset
from klamm.client.admin.operations_host import OperationsHost
from klamm.client.admin.resets import ResetTarget
from klamm.client.admin.results import Results
from klamm.protocol.types import TopicPartition


class GroupOperations(OperationsHost):
    """Groups, their committed offsets, and offsets of logs."""

    def list_groups(
        self,
        *,
        states: str | Iterable[str] = (),
        types: str | Iterable[str] = (),
        timeout: float | None = None,
    ) -> Future[list[ListedGroup]]:
        """The groups of the whole cluster, or those in these states and of these types."""
        wanted, kinds = arguments.texts(states, "state"), arguments.texts(types, "type")
        due_ms = milliseconds(timeout)
        return self._run(
            lambda calls: groups.list_groups(calls, states=wanted, types=kinds, timeout_ms=due_ms)
        )

    def describe_groups(
        self, group_ids: str | Iterable[str], *, raise_errors: bool = True, timeout: float | None = None
    ) -> Future[Results[str, GroupDescription]]:
        """Groups with their members, subscriptions and assignments."""
        chosen, due_ms = arguments.texts(group_ids, "group id"), milliseconds(timeout)
        return self._each(
            raise_errors, lambda calls: groups.describe_groups(calls, chosen, timeout_ms=due_ms)
        )

    def inspect_groups(
        self, group_ids: str | Iterable[str], *, raise_errors: bool = True, timeout: float | None = None
    ) -> Future[Results[str, dict[str, Any]]]:
        """What klamm's coordinators know of living groups: who is waited for, votes, time-outs, offsets.

        Other brokers do not have it: UnsupportedVersionError.
        """
        chosen, due_ms = arguments.texts(group_ids, "group id"), milliseconds(timeout)
        return self._each(raise_errors, lambda calls: groups.inspect_groups(calls, chosen, timeout_ms=due_ms))

    def delete_groups(
        self, group_ids: str | Iterable[str], *, raise_errors: bool = True, timeout: float | None = None
    ) -> Future[Results[str, None]]:
        """Delete groups without members, and their offsets."""
        chosen, due_ms = arguments.texts(group_ids, "group id"), milliseconds(timeout)
        return self._each(raise_errors, lambda calls: groups.delete_groups(calls, chosen, timeout_ms=due_ms))

    def remove_members(
        self,
        group_id: str,
        *,
        instance_ids: str | Iterable[str] | None = None,
        member_ids: str | Iterable[str] = (),
        reason: str = "removed by an admin",
        raise_errors: bool = True,
        timeout: float | None = None,
    ) -> Future[Results[str, None]]:
        """Remove static members (by instance id), others (by member id), or, without either, all members."""
        group, why = arguments.text(group_id, "group id"), arguments.text(reason, "reason")
        statics = None if instance_ids is None else arguments.texts(instance_ids, "instance id")
        others, due_ms = arguments.texts(member_ids, "member id"), milliseconds(timeout)
        return self._each(
            raise_errors,
            lambda calls: groups.remove_members(
                calls, group, instance_ids=statics, member_ids=others, reason=why, timeout_ms=due_ms
            ),
        )

    def list_group_offsets(
        self,
        group_id: str,
        partitions: Iterable[Partition] | None = None,
        *,
        require_stable: bool = False,
        timeout: float | None = None,
    ) -> Future[dict[TopicPartition, CommittedOffset]]:
        """The committed offsets of a group; partitions without one are left out."""
        group, chosen = arguments.text(group_id, "group id"), arguments.some_partitions(partitions)
        stable, due_ms = arguments.flag(require_stable, "require_stable"), milliseconds(timeout)
        return self._run(
            lambda calls: offset_calls.list_group_offsets(
                calls, group, chosen, require_stable=stable, timeout_ms=due_ms
            )
        )

    def alter_group_offsets(
        self,
        group_id: str,
        offsets: ByPartition[CommittedOffset | int],
        *,
        raise_errors: bool = True,
        timeout: float | None = None,
    ) -> Future[Results[TopicPartition, None]]:
        """Commit offsets for a group without members."""
        group, due_ms = arguments.text(group_id, "group id"), milliseconds(timeout)
        wanted = arguments.by_partition(offsets, "offsets", arguments.committed)
        return self._each(
            raise_errors,
            lambda calls: offset_calls.alter_group_offsets(calls, group, wanted, timeout_ms=due_ms),
        )

    def delete_group_offsets(
        self,
        group_id: str,
        partitions: Iterable[Partition],
        *,
        raise_errors: bool = True,
        timeout: float | None = None,
    ) -> Future[Results[TopicPartition, None]]:
        """Delete committed offsets of topics that the group is not subscribed to."""
        group, due_ms = arguments.text(group_id, "group id"), milliseconds(timeout)
        chosen = arguments.partitions(partitions)
        return self._each(
            raise_errors,
            lambda calls: offset_calls.delete_group_offsets(calls, group, chosen, timeout_ms=due_ms),
        )

    def list_offsets(
        self,
        wanted: ByPartition[OffsetSpec] | Iterable[Partition],
        at: OffsetSpec = "latest",
        *,
        read_committed: bool = False,
        raise_errors: bool = True,
        timeout: float | None = None,
    ) -> Future[Results[TopicPartition, ListedOffset]]:
        """Offsets of partitions: "earliest", "latest", "max_timestamp", or the first at a time.

        A time is in milliseconds since 1970, or a datetime with a time zone. Give partitions and `at`, or a
        mapping from each partition to what is wanted of it.
        """
        specs = arguments.offset_specs(wanted, at)
        committed, due_ms = arguments.flag(read_committed, "read_committed"), milliseconds(timeout)
        return self._each(
            raise_errors,
            lambda calls: offset_calls.list_offsets(
                calls, specs, read_committed=committed, timeout_ms=due_ms
            ),
        )

    def reset_group_offsets(
        self,
        group_id: str,
        partitions: Iterable[Partition] | None = None,
        *,
        to: str | int | None = None,
        timestamp_ms: int | None = None,
        shift_by: int | None = None,
        raise_errors: bool = True,
        timeout: float | None = None,
    ) -> Future[Results[TopicPartition, int]]:
        """Reset a group without members: to "earliest", "latest" or an offset, to a time, or by a number.

        Of these partitions, or of all with a committed offset; returns the new offsets. A target outside the
        log becomes its first or its end offset.
        """
        target = ResetTarget.of(to, timestamp_ms, shift_by)
        group, chosen = arguments.text(group_id, "group id"), arguments.some_partitions(partitions)
        due_ms = milliseconds(timeout)
        return self._each(
            raise_errors,
            lambda calls: resets.reset_group_offsets(calls, group, chosen, target, timeout_ms=due_ms),
        )
