"""Every admin operation as a future: what the sync and the asyncio face have in common."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from random import Random
from typing import Any, TypeVar

from klamm.client.admin import cluster, configs, groups, offsets, resets, topics, transactions
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
from klamm.client.calls import Calls, RetryPolicy
from klamm.client.config import ADMIN, ClientConfig
from klamm.client.runtime import ClientThread
from klamm.clock import Clock, SystemClock
from klamm.errors import IllegalStateError
from klamm.net.tasks import Promise
from klamm.protocol.types import TopicPartition

T = TypeVar("T")


class AdminOperations:
    """Starts each operation on the client's thread and gives a future for its result."""

    def __init__(
        self,
        config: Mapping[str, Any] | None,
        keywords: Mapping[str, Any],
        *,
        clock: Clock | None = None,
        random: Random | None = None,
    ) -> None:
        parsed = ClientConfig.parse(ADMIN, config, keywords)
        values = parsed.values
        client_id = values.text("client.id") or "klamm-admin"
        self._thread = ClientThread(
            parsed.network(client_id),
            parsed.metadata(allow_auto_topic_creation=False),
            clock=clock or SystemClock(),
            random=random or Random(),
            name=client_id,
        )
        self._calls = Calls(
            self._thread.core,
            RetryPolicy(
                values.integer("default.api.timeout.ms"),
                values.integer("retry.backoff.ms"),
                values.integer("retry.backoff.max.ms"),
            ),
        )
        self._is_closed = False
        self._thread.start()

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._thread.stop()

    def _run(self, make: Callable[[Calls], Coroutine[Promise[Any], None, T]]) -> Future[T]:
        if self._is_closed:
            raise IllegalStateError("this admin is closed")
        return self._thread.run(lambda: make(self._calls))

    def create_topics(
        self, new: Sequence[NewTopic], validate_only: bool, timeout_ms: int | None
    ) -> Future[Results[str, CreatedTopic]]:
        return self._run(
            lambda calls: topics.create_topics(calls, new, validate_only=validate_only, timeout_ms=timeout_ms)
        )

    def delete_topics(self, names: Sequence[str], timeout_ms: int | None) -> Future[Results[str, None]]:
        return self._run(lambda calls: topics.delete_topics(calls, names, timeout_ms=timeout_ms))

    def create_partitions(
        self,
        totals: Mapping[str, int],
        assignments: Mapping[str, Sequence[Sequence[int]]],
        validate_only: bool,
        timeout_ms: int | None,
    ) -> Future[Results[str, None]]:
        return self._run(
            lambda calls: topics.create_partitions(
                calls, totals, assignments=assignments, validate_only=validate_only, timeout_ms=timeout_ms
            )
        )

    def describe_topics(
        self, names: Sequence[str] | None, timeout_ms: int | None
    ) -> Future[Results[str, TopicDescription]]:
        return self._run(lambda calls: topics.describe_topics(calls, names, timeout_ms=timeout_ms))

    def wait_for_topics(self, names: Sequence[str], timeout_ms: int | None) -> Future[None]:
        return self._run(lambda calls: topics.wait_for_topics(calls, names, timeout_ms=timeout_ms))

    def delete_records(
        self, before: Mapping[TopicPartition, int], timeout_ms: int | None
    ) -> Future[Results[TopicPartition, int]]:
        return self._run(lambda calls: topics.delete_records(calls, before, timeout_ms=timeout_ms))

    def describe_cluster(self, timeout_ms: int | None) -> Future[ClusterDescription]:
        return self._run(lambda calls: topics.describe_cluster(calls, timeout_ms=timeout_ms))

    def describe_log_dirs(
        self, partitions: Sequence[TopicPartition] | None, timeout_ms: int | None
    ) -> Future[list[LogDirDescription]]:
        return self._run(lambda calls: topics.describe_log_dirs(calls, partitions, timeout_ms=timeout_ms))

    def describe_producers(
        self, partitions: Sequence[TopicPartition], timeout_ms: int | None
    ) -> Future[Results[TopicPartition, list[ProducerDescription]]]:
        return self._run(lambda calls: topics.describe_producers(calls, partitions, timeout_ms=timeout_ms))

    def list_transactions(
        self,
        states: Sequence[str],
        producer_ids: Sequence[int],
        longer_than_ms: int | None,
        id_pattern: str | None,
        timeout_ms: int | None,
    ) -> Future[list[ListedTransaction]]:
        return self._run(
            lambda calls: transactions.list_transactions(
                calls,
                states=states,
                producer_ids=producer_ids,
                longer_than_ms=longer_than_ms,
                id_pattern=id_pattern,
                timeout_ms=timeout_ms,
            )
        )

    def describe_transactions(
        self, transactional_ids: Sequence[str], timeout_ms: int | None
    ) -> Future[Results[str, TransactionDescription]]:
        return self._run(
            lambda calls: transactions.describe_transactions(calls, transactional_ids, timeout_ms=timeout_ms)
        )

    def abort_transaction(
        self,
        partition: TopicPartition,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        timeout_ms: int | None,
    ) -> Future[None]:
        return self._run(
            lambda calls: transactions.abort_transaction(
                calls, partition, producer_id, producer_epoch, coordinator_epoch, timeout_ms=timeout_ms
            )
        )

    def fence_producers(
        self, transactional_ids: Sequence[str], timeout_ms: int | None
    ) -> Future[Results[str, ProducerIdentity]]:
        return self._run(
            lambda calls: transactions.fence_producers(calls, transactional_ids, timeout_ms=timeout_ms)
        )

    def find_hanging_transactions(
        self, partitions: Sequence[TopicPartition], older_than_ms: int, timeout_ms: int | None
    ) -> Future[list[HangingTransaction]]:
        return self._run(
            lambda calls: transactions.find_hanging_transactions(
                calls,
                partitions,
                now_ms=self._thread.clock.timestamp_ms(),
                older_than_ms=older_than_ms,
                timeout_ms=timeout_ms,
            )
        )

    def update_features(
        self, levels: Mapping[str, int], allow_downgrade: bool, validate_only: bool, timeout_ms: int | None
    ) -> Future[None]:
        return self._run(
            lambda calls: cluster.update_features(
                calls,
                levels,
                allow_downgrade=allow_downgrade,
                validate_only=validate_only,
                timeout_ms=timeout_ms,
            )
        )

    def describe_configs(
        self,
        resources: Sequence[tuple[Resource, str]],
        keys: Sequence[str] | None,
        timeout_ms: int | None,
    ) -> Future[Results[tuple[Resource, str], dict[str, ConfigEntry]]]:
        return self._run(
            lambda calls: configs.describe_configs(calls, resources, keys=keys, timeout_ms=timeout_ms)
        )

    def alter_configs(
        self,
        changes: Mapping[tuple[Resource, str], Sequence[tuple[str, AlterOp, str | None]]],
        validate_only: bool,
        timeout_ms: int | None,
    ) -> Future[Results[tuple[Resource, str], None]]:
        return self._run(
            lambda calls: configs.alter_configs(
                calls, changes, validate_only=validate_only, timeout_ms=timeout_ms
            )
        )

    def list_groups(
        self, states: Sequence[str], types: Sequence[str], timeout_ms: int | None
    ) -> Future[list[ListedGroup]]:
        return self._run(
            lambda calls: groups.list_groups(calls, states=states, types=types, timeout_ms=timeout_ms)
        )

    def describe_groups(
        self, group_ids: Sequence[str], timeout_ms: int | None
    ) -> Future[Results[str, GroupDescription]]:
        return self._run(lambda calls: groups.describe_groups(calls, group_ids, timeout_ms=timeout_ms))

    def delete_groups(self, group_ids: Sequence[str], timeout_ms: int | None) -> Future[Results[str, None]]:
        return self._run(lambda calls: groups.delete_groups(calls, group_ids, timeout_ms=timeout_ms))

    def remove_members(
        self,
        group_id: str,
        instance_ids: Sequence[str] | None,
        member_ids: Sequence[str],
        reason: str,
        timeout_ms: int | None,
    ) -> Future[Results[str, None]]:
        return self._run(
            lambda calls: groups.remove_members(
                calls,
                group_id,
                instance_ids=instance_ids,
                member_ids=member_ids,
                reason=reason,
                timeout_ms=timeout_ms,
            )
        )

    def list_group_offsets(
        self,
        group_id: str,
        partitions: Sequence[TopicPartition] | None,
        require_stable: bool,
        timeout_ms: int | None,
    ) -> Future[dict[TopicPartition, CommittedOffset]]:
        return self._run(
            lambda calls: offsets.list_group_offsets(
                calls, group_id, partitions, require_stable=require_stable, timeout_ms=timeout_ms
            )
        )

    def alter_group_offsets(
        self, group_id: str, wanted: Mapping[TopicPartition, CommittedOffset], timeout_ms: int | None
    ) -> Future[Results[TopicPartition, None]]:
        return self._run(
            lambda calls: offsets.alter_group_offsets(calls, group_id, wanted, timeout_ms=timeout_ms)
        )

    def delete_group_offsets(
        self, group_id: str, partitions: Sequence[TopicPartition], timeout_ms: int | None
    ) -> Future[Results[TopicPartition, None]]:
        return self._run(
            lambda calls: offsets.delete_group_offsets(calls, group_id, partitions, timeout_ms=timeout_ms)
        )

    def list_offsets(
        self, wanted: Mapping[TopicPartition, int], read_committed: bool, timeout_ms: int | None
    ) -> Future[Results[TopicPartition, ListedOffset]]:
        return self._run(
            lambda calls: offsets.list_offsets(
                calls, wanted, read_committed=read_committed, timeout_ms=timeout_ms
            )
        )

    def reset_group_offsets(
        self,
        group_id: str,
        partitions: Sequence[TopicPartition] | None,
        target: ResetTarget,
        timeout_ms: int | None,
    ) -> Future[Results[TopicPartition, int]]:
        return self._run(
            lambda calls: resets.reset_group_offsets(
                calls, group_id, partitions, target, timeout_ms=timeout_ms
            )
        )

    def elect_leaders(
        self, partitions: Sequence[TopicPartition] | None, election: ElectionType, timeout_ms: int | None
    ) -> Future[Results[TopicPartition, None]]:
        return self._run(
            lambda calls: cluster.elect_leaders(calls, partitions, election, timeout_ms=timeout_ms)
        )

    def alter_reassignments(
        self, replicas: Mapping[TopicPartition, Sequence[int] | None], timeout_ms: int | None
    ) -> Future[Results[TopicPartition, None]]:
        return self._run(lambda calls: cluster.alter_reassignments(calls, replicas, timeout_ms=timeout_ms))

    def list_reassignments(
        self, partitions: Sequence[TopicPartition] | None, timeout_ms: int | None
    ) -> Future[dict[TopicPartition, Reassignment]]:
        return self._run(lambda calls: cluster.list_reassignments(calls, partitions, timeout_ms=timeout_ms))

    def describe_features(self, timeout_ms: int | None) -> Future[dict[str, FeatureDescription]]:
        return self._run(lambda calls: cluster.describe_features(calls, timeout_ms=timeout_ms))
