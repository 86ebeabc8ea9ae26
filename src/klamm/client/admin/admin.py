"""The admin for programs that wait: one method per operation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from klamm.client.admin.admin_operations import AdminOperations
from klamm.client.admin.model import (
    AlterOp,
    ClusterDescription,
    CommittedOffset,
    ConfigEntry,
    CreatedTopic,
    ElectionType,
    FeatureDescription,
    GroupDescription,
    HangingTransaction,
    ListedGroup,
    ListedOffset,
    ListedTransaction,
    LogDirDescription,
    NewTopic,
    ProducerDescription,
    ProducerIdentity,
    Reassignment,
    Resource,
    Results,
    TopicDescription,
    TransactionDescription,
)
from klamm.client.admin.resets import ResetTarget
from klamm.protocol.types import TopicPartition


class Admin:
    """Administers a cluster; settings by Kafka's names, as a dictionary or keywords.

    Each method waits at most `timeout` seconds (default: `default.api.timeout.ms`).
    """

    def __init__(self, config: Mapping[str, Any] | None = None, **settings: Any) -> None:
        self._operations = AdminOperations(config, settings)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections; safe to call twice."""
        self._operations.close()

    def create_topics(
        self, topics: Sequence[NewTopic | str], *, validate_only: bool = False, timeout: float | None = None
    ) -> Results[str, CreatedTopic]:
        """Create topics; a bare name takes the broker's defaults."""
        return self._operations.create_topics(
            [NewTopic(item) if isinstance(item, str) else item for item in topics],
            validate_only,
            milliseconds(timeout),
        ).result()

    def delete_topics(self, names: Sequence[str], *, timeout: float | None = None) -> Results[str, None]:
        """Delete topics and all that is in them."""
        return self._operations.delete_topics(names, milliseconds(timeout)).result()

    def create_partitions(
        self,
        totals: Mapping[str, int],
        *,
        assignments: Mapping[str, Sequence[Sequence[int]]] | None = None,
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> Results[str, None]:
        """Grow topics to these numbers of partitions."""
        return self._operations.create_partitions(
            totals, assignments or {}, validate_only, milliseconds(timeout)
        ).result()

    def describe_topics(
        self, names: Sequence[str] | None = None, *, timeout: float | None = None
    ) -> Results[str, TopicDescription]:
        """Describe these topics, or all; never creates one."""
        return self._operations.describe_topics(names, milliseconds(timeout)).result()

    def wait_for_topics(self, names: Sequence[str], *, timeout: float | None = None) -> None:
        """Return when every partition of these topics has a leader."""
        self._operations.wait_for_topics(names, milliseconds(timeout)).result()

    def delete_records(
        self, before: Mapping[TopicPartition, int], *, timeout: float | None = None
    ) -> Results[TopicPartition, int]:
        """Delete what lies before an offset (-1: all); the new log starts."""
        return self._operations.delete_records(before, milliseconds(timeout)).result()

    def describe_cluster(self, *, timeout: float | None = None) -> ClusterDescription:
        """The cluster's id, controller and brokers."""
        return self._operations.describe_cluster(milliseconds(timeout)).result()

    def describe_log_dirs(
        self, partitions: Sequence[TopicPartition] | None = None, *, timeout: float | None = None
    ) -> list[LogDirDescription]:
        """The log directories of all brokers, with sizes."""
        return self._operations.describe_log_dirs(partitions, milliseconds(timeout)).result()

    def describe_producers(
        self, partitions: Sequence[TopicPartition], *, timeout: float | None = None
    ) -> Results[TopicPartition, list[ProducerDescription]]:
        """The producers that partitions know."""
        return self._operations.describe_producers(partitions, milliseconds(timeout)).result()

    def list_transactions(
        self,
        *,
        states: Sequence[str] = (),
        producer_ids: Sequence[int] = (),
        longer_than: float | None = None,
        id_pattern: str | None = None,
        timeout: float | None = None,
    ) -> list[ListedTransaction]:
        """The transactional ids of the whole cluster.

        `states` are Kafka's names, as in `Ongoing`; `longer_than` are seconds since the transaction began;
        `id_pattern` is a regular expression that matches the whole id.
        """
        return self._operations.list_transactions(
            states, producer_ids, milliseconds(longer_than), id_pattern, milliseconds(timeout)
        ).result()

    def describe_transactions(
        self, transactional_ids: Sequence[str], *, timeout: float | None = None
    ) -> Results[str, TransactionDescription]:
        """State, producer and partitions of transactional ids."""
        return self._operations.describe_transactions(transactional_ids, milliseconds(timeout)).result()

    def find_hanging_transactions(
        self, partitions: Sequence[TopicPartition], *, older_than: float = 900, timeout: float | None = None
    ) -> list[HangingTransaction]:
        """Transactions that these partitions have open and that no coordinator will end.

        Only of producers that have written nothing for `older_than` seconds; not below the longest time-out
        of transactions in the cluster.
        """
        return self._operations.find_hanging_transactions(
            partitions, round(older_than * 1000), milliseconds(timeout)
        ).result()

    def abort_transaction(
        self,
        partition: TopicPartition,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int = 0,
        *,
        timeout: float | None = None,
    ) -> None:
        """Write an abort marker to one partition; for hanging transactions only.

        To abort the transaction of a transactional id use `fence_producers`.
        """
        self._operations.abort_transaction(
            partition, producer_id, producer_epoch, coordinator_epoch, milliseconds(timeout)
        ).result()

    def fence_producers(
        self, transactional_ids: Sequence[str], *, timeout: float | None = None
    ) -> Results[str, ProducerIdentity]:
        """Take transactional ids from their producers: what they had open is aborted, they cannot go on."""
        return self._operations.fence_producers(transactional_ids, milliseconds(timeout)).result()

    def update_features(
        self,
        levels: Mapping[str, int],
        *,
        allow_downgrade: bool = False,
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> None:
        """Set finalized feature levels, as in `{"transaction.version": 2}`; 0 turns a feature off."""
        self._operations.update_features(
            levels, allow_downgrade, validate_only, milliseconds(timeout)
        ).result()

    def describe_configs(
        self,
        resources: Sequence[tuple[Resource, str]],
        *,
        keys: Sequence[str] | None = None,
        timeout: float | None = None,
    ) -> Results[tuple[Resource, str], dict[str, ConfigEntry]]:
        """The settings of topics, brokers or groups."""
        return self._operations.describe_configs(resources, keys, milliseconds(timeout)).result()

    def alter_configs(
        self,
        changes: Mapping[tuple[Resource, str], Sequence[tuple[str, AlterOp, str | None]]],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> Results[tuple[Resource, str], None]:
        """Set, delete, append to or subtract from single settings."""
        return self._operations.alter_configs(changes, validate_only, milliseconds(timeout)).result()

    def list_groups(
        self, *, states: Sequence[str] = (), types: Sequence[str] = (), timeout: float | None = None
    ) -> list[ListedGroup]:
        """The groups of the whole cluster, filtered by state and type."""
        return self._operations.list_groups(states, types, milliseconds(timeout)).result()

    def describe_groups(
        self, group_ids: Sequence[str], *, timeout: float | None = None
    ) -> Results[str, GroupDescription]:
        """Groups with their members, subscriptions and assignments."""
        return self._operations.describe_groups(group_ids, milliseconds(timeout)).result()

    def delete_groups(self, group_ids: Sequence[str], *, timeout: float | None = None) -> Results[str, None]:
        """Delete empty groups and their offsets."""
        return self._operations.delete_groups(group_ids, milliseconds(timeout)).result()

    def remove_members(
        self,
        group_id: str,
        *,
        instance_ids: Sequence[str] | None = None,
        member_ids: Sequence[str] = (),
        reason: str = "removed by an admin",
        timeout: float | None = None,
    ) -> Results[str, None]:
        """Make static members (by instance id), others (by member id), or all members leave."""
        return self._operations.remove_members(
            group_id, instance_ids, member_ids, reason, milliseconds(timeout)
        ).result()

    def list_group_offsets(
        self,
        group_id: str,
        partitions: Sequence[TopicPartition] | None = None,
        *,
        require_stable: bool = False,
        timeout: float | None = None,
    ) -> dict[TopicPartition, CommittedOffset]:
        """What a group has committed."""
        return self._operations.list_group_offsets(
            group_id, partitions, require_stable, milliseconds(timeout)
        ).result()

    def alter_group_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, CommittedOffset | int],
        *,
        timeout: float | None = None,
    ) -> Results[TopicPartition, None]:
        """Commit for a group without members."""
        return self._operations.alter_group_offsets(
            group_id, committed_offsets(offsets), milliseconds(timeout)
        ).result()

    def delete_group_offsets(
        self, group_id: str, partitions: Sequence[TopicPartition], *, timeout: float | None = None
    ) -> Results[TopicPartition, None]:
        """Forget offsets of topics that the group is not subscribed to."""
        return self._operations.delete_group_offsets(group_id, partitions, milliseconds(timeout)).result()

    def list_offsets(
        self,
        wanted: Mapping[TopicPartition, int],
        *,
        read_committed: bool = False,
        timeout: float | None = None,
    ) -> Results[TopicPartition, ListedOffset]:
        """Offsets by time in milliseconds, or by EARLIEST, LATEST, MAX_TIMESTAMP."""
        return self._operations.list_offsets(wanted, read_committed, milliseconds(timeout)).result()

    def reset_group_offsets(
        self,
        group_id: str,
        partitions: Sequence[TopicPartition] | None = None,
        *,
        to: str | int | None = None,
        timestamp_ms: int | None = None,
        shift_by: int | None = None,
        timeout: float | None = None,
    ) -> Results[TopicPartition, int]:
        """Move a group without members: to "earliest", "latest" or an offset, to a time, or by a number.

        Of these partitions, or of all that are committed; the new offsets. A target outside the log is
        brought to its nearer end.
        """
        target = ResetTarget(to, timestamp_ms, shift_by)
        return self._operations.reset_group_offsets(
            group_id, partitions, target, milliseconds(timeout)
        ).result()

    def elect_leaders(
        self,
        partitions: Sequence[TopicPartition] | None = None,
        election: ElectionType = ElectionType.PREFERRED,
        *,
        timeout: float | None = None,
    ) -> Results[TopicPartition, None]:
        """Elect leaders of these partitions, or of all; ELECTION_NOT_NEEDED where nothing had to change."""
        return self._operations.elect_leaders(partitions, election, milliseconds(timeout)).result()

    def alter_reassignments(
        self, replicas: Mapping[TopicPartition, Sequence[int] | None], *, timeout: float | None = None
    ) -> Results[TopicPartition, None]:
        """Move partitions to these brokers; None gives up a move that is under way."""
        return self._operations.alter_reassignments(replicas, milliseconds(timeout)).result()

    def list_reassignments(
        self, partitions: Sequence[TopicPartition] | None = None, *, timeout: float | None = None
    ) -> dict[TopicPartition, Reassignment]:
        """The moves that are under way."""
        return self._operations.list_reassignments(partitions, milliseconds(timeout)).result()

    def describe_features(self, *, timeout: float | None = None) -> dict[str, FeatureDescription]:
        """What the brokers could do, and at which level the cluster does it."""
        return self._operations.describe_features(milliseconds(timeout)).result()


def milliseconds(timeout: float | None) -> int | None:
    """Seconds of a caller as the milliseconds that we count in."""
    if timeout is None:
        return None
    if timeout < 0:
        raise ValueError(f"a timeout of {timeout} seconds: expected 0 or more")
    return round(timeout * 1000)


def committed_offsets(
    offsets: Mapping[TopicPartition, CommittedOffset | int],
) -> dict[TopicPartition, CommittedOffset]:
    """Bare numbers are offsets."""
    return {
        key: CommittedOffset(value) if isinstance(value, int) else value for key, value in offsets.items()
    }
