"""confluent-kafka's AdminClient on klamm's admin."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Any, Final, Self

from klamm.client.admin.admin_operations import AdminOperations
from klamm.client.admin.model import AlterOp, Resource
from klamm.client.admin.model import NewTopic as OwnTopic
from klamm.client.consumer.offsets.lookup import all_topics
from klamm.compat.confluent_kafka.admin import answers
from klamm.compat.confluent_kafka.admin.access_calls import AccessCalls
from klamm.compat.confluent_kafka.admin.futures import after, of_each, then
from klamm.compat.confluent_kafka.admin.groups import GroupCalls, no_operations, some
from klamm.compat.confluent_kafka.admin.resources import (
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)
from klamm.compat.confluent_kafka.arguments import seconds
from klamm.compat.confluent_kafka.error import KafkaError, not_supported, raised_as_theirs
from klamm.compat.confluent_kafka.events import Events
from klamm.compat.confluent_kafka.metadata import ClusterMetadata
from klamm.compat.confluent_kafka.model import (
    ElectionType,
    IsolationLevel,
    TopicCollection,
)
from klamm.compat.confluent_kafka.outages import Outages
from klamm.compat.confluent_kafka.partitions import (
    TopicPartition,
)
from klamm.compat.confluent_kafka.settings import own_settings, split_own
from klamm.compat.settings import ClientKind
from klamm.config import ConfigError

log = logging.getLogger(__name__)

_KINDS: Final = {
    ResourceType.TOPIC: Resource.TOPIC,
    ResourceType.BROKER: Resource.BROKER,
    ResourceType.GROUP: Resource.GROUP,
}
_OWN_SOURCES: Final = (1, 2, 8)  # of a topic, of one broker, of a group: what `alter_configs` replaces


class AdminClient(AccessCalls, GroupCalls):
    """confluent-kafka's admin: every method returns futures, one for each item."""

    @raised_as_theirs
    def __init__(self, conf: Mapping[str, Any] | None = None, /, **settings: Any) -> None:
        made = own_settings({**(conf or {}), **settings}, ClientKind.ADMIN)
        own = split_own(made, ClientKind.ADMIN)
        if own.get("stats_cb") is not None:
            raise ConfigError("stats_cb", "stats_cb: klamm's admin has no statistics; leave it out")
        self._operations = AdminOperations(made, {})
        thread = self._operations._thread
        self._events = Events(thread.clock)
        on_error = own.get("error_cb")
        if on_error is not None:
            report = lambda error: self._events.add(partial(on_error, error))  # noqa: E731
            outages = Outages(thread.core, report, lambda: None)
            thread.ask(lambda: thread.core.components.append(outages))

    # --- topics -----------------------------------------------------------------------------------------

    @raised_as_theirs
    def create_topics(
        self,
        new_topics: Iterable[NewTopic],
        *,
        operation_timeout: float | None = None,
        request_timeout: float | None = None,
        validate_only: bool = False,
    ) -> dict[str, Future[None]]:
        asked = [
            OwnTopic(
                item.topic,
                item.num_partitions,
                item.replication_factor,
                item.config,
                item.replica_assignment,
            )
            for item in some(new_topics, "NewTopic objects")
        ]
        answered = self._operations.create_topics(
            asked, validate_only=validate_only, raise_errors=False, timeout=request_timeout
        )
        return of_each(answered, {item.name: item.name for item in asked})

    @raised_as_theirs
    def delete_topics(
        self,
        topics: Iterable[str],
        *,
        operation_timeout: float | None = None,
        request_timeout: float | None = None,
    ) -> dict[str, Future[None]]:
        names = some(topics, "names of topics")
        answered = self._operations.delete_topics(names, raise_errors=False, timeout=request_timeout)
        return of_each(answered, {name: name for name in names})

    @raised_as_theirs
    def create_partitions(
        self,
        new_partitions: Iterable[NewPartitions],
        *,
        operation_timeout: float | None = None,
        request_timeout: float | None = None,
        validate_only: bool = False,
    ) -> dict[str, Future[None]]:
        wanted = some(new_partitions, "NewPartitions objects")
        answered = self._operations.create_partitions(
            {item.topic: item.new_total_count for item in wanted},
            assignments={item.topic: item.replica_assignment for item in wanted if item.replica_assignment},
            validate_only=validate_only,
            raise_errors=False,
            timeout=request_timeout,
        )
        return of_each(answered, {item.topic: item.topic for item in wanted})

    @raised_as_theirs
    def describe_topics(
        self,
        topics: TopicCollection,
        *,
        request_timeout: float | None = None,
        include_authorized_operations: bool = False,
    ) -> dict[str, Future[answers.TopicDescription]]:
        no_operations(include_authorized_operations)
        names = list(topics.topic_names)
        nodes = self._nodes(request_timeout)
        described = after(
            nodes,
            lambda _nodes: self._operations.describe_topics(
                names, raise_errors=False, timeout=request_timeout
            ),
        )
        return of_each(
            described,
            {name: name for name in names},
            lambda found: answers.topic_of(found, nodes.result()),
        )

    @raised_as_theirs
    def delete_records(
        self,
        topic_partition_offsets: Iterable[TopicPartition],
        *,
        operation_timeout: float | None = None,
        request_timeout: float | None = None,
    ) -> dict[TopicPartition, Future[answers.DeletedRecords]]:
        wanted = list(topic_partition_offsets)
        answered = self._operations.delete_records(
            {item.own: item.offset for item in wanted}, raise_errors=False, timeout=request_timeout
        )
        return of_each(answered, {item: item.own for item in wanted}, answers.DeletedRecords)

    @raised_as_theirs
    def list_offsets(
        self,
        topic_partition_offsets: Mapping[TopicPartition, OffsetSpec],
        *,
        isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
        request_timeout: float | None = None,
    ) -> dict[TopicPartition, Future[answers.ListOffsetsResultInfo]]:
        answered = self._operations.list_offsets(
            {item.own: spec.asked for item, spec in topic_partition_offsets.items()},
            read_committed=isolation_level is IsolationLevel.READ_COMMITTED,
            raise_errors=False,
            timeout=request_timeout,
        )
        return of_each(
            answered,
            {item: item.own for item in topic_partition_offsets},
            lambda found: answers.ListOffsetsResultInfo(found.offset, found.timestamp_ms, found.leader_epoch),
        )

    @raised_as_theirs
    def elect_leaders(
        self,
        election_type: ElectionType,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        operation_timeout: float | None = None,
        request_timeout: float | None = None,
    ) -> Future[dict[TopicPartition, KafkaError | None]]:
        chosen = None if partitions is None else [item.own for item in partitions]
        answered = self._operations.elect_leaders(
            chosen, election_type.name.lower(), raise_errors=False, timeout=request_timeout
        )
        return then(answered, answers.elections_of)

    # --- settings ---------------------------------------------------------------------------------------

    @raised_as_theirs
    def describe_configs(
        self,
        resources: Iterable[ConfigResource],
        *,
        request_timeout: float | None = None,
        broker: int | None = None,
    ) -> dict[ConfigResource, Future[dict[str, ConfigEntry]]]:
        asked = _by_resource(resources)
        answered = self._operations.describe_configs(
            list(asked.values()), raise_errors=False, timeout=request_timeout
        )
        return of_each(
            answered,
            asked,
            lambda found: {name: ConfigEntry.of(entry) for name, entry in found.items()},
        )

    @raised_as_theirs
    def incremental_alter_configs(
        self,
        resources: Iterable[ConfigResource],
        *,
        request_timeout: float | None = None,
        validate_only: bool = False,
        broker: int | None = None,
    ) -> dict[ConfigResource, Future[None]]:
        asked = _by_resource(resources)
        changes = {place: _changes(resource) for resource, place in asked.items()}
        answered = self._operations.alter_configs(
            changes, validate_only=validate_only, raise_errors=False, timeout=request_timeout
        )
        return of_each(answered, asked)

    @raised_as_theirs
    def alter_configs(
        self,
        resources: Iterable[ConfigResource],
        *,
        request_timeout: float | None = None,
        validate_only: bool = False,
        broker: int | None = None,
    ) -> dict[ConfigResource, Future[None]]:
        """Replace the settings of resources: what is not given goes back to its default.

        Brokers have no such request any more: the settings are read first, and then changed one by one.
        """
        asked = _by_resource(resources)
        wanted = {place: resource.set_config_dict for resource, place in asked.items()}
        described = self._operations.describe_configs(
            list(asked.values()), raise_errors=False, timeout=request_timeout
        )

        def change(found: Any) -> Future[Any]:
            changes: dict[tuple[Resource, str], list[tuple[str, AlterOp, str | None]]] = {}
            for place, given in wanted.items():
                present = {} if place in found.errors else found[place]
                changes[place] = [(name, AlterOp.SET, value) for name, value in given.items()] + [
                    (name, AlterOp.DELETE, None)
                    for name, entry in present.items()
                    if entry.source in _OWN_SOURCES and name not in given
                ]
            return self._operations.alter_configs(
                changes, validate_only=validate_only, raise_errors=False, timeout=request_timeout
            )

        return of_each(after(described, change), asked)

    # --- the cluster ------------------------------------------------------------------------------------

    @raised_as_theirs
    def describe_cluster(
        self, *, request_timeout: float | None = None, include_authorized_operations: bool = False
    ) -> Future[answers.DescribeClusterResult]:
        no_operations(include_authorized_operations)
        return then(self._operations.describe_cluster(timeout=request_timeout), answers.cluster_of)

    @raised_as_theirs
    def list_topics(self, topic: str | None = None, timeout: float | None = -1) -> ClusterMetadata:
        """The brokers, topics and partitions of the cluster."""
        left_s = seconds(timeout)
        left_ms = None if left_s is None else int(left_s * 1000)
        names = None if topic is None else [topic]

        async def ask(calls: Any) -> Any:
            return await all_topics(calls, names, calls.deadline("listing topics", left_ms))

        topics = self._operations._run(ask).result()
        return ClusterMetadata(self._operations._thread.core.metadata.cluster, topics, topic)

    @raised_as_theirs
    def cluster_id(self, timeout: float | None = -1) -> str:
        return self._operations.describe_cluster(timeout=seconds(timeout)).result().cluster_id

    # --- what klamm's admin does not have ------------------------------------------------------------------

    def set_sasl_credentials(self, username: str, password: str) -> None:
        raise not_supported("set_sasl_credentials", "give the credentials when the client is made")

    # --- the end ------------------------------------------------------------------------------------------

    def poll(self, timeout: float | None = None) -> int:
        """Run callbacks of errors; the futures need no poll."""
        return self._events.serve(seconds(timeout))

    def __len__(self) -> int:
        return 0

    def __bool__(self) -> bool:
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self._operations.close()

    def __del__(self) -> None:
        operations = getattr(self, "_operations", None)
        if operations is not None:
            operations.close()  # their programs do not close an admin


def _by_resource(resources: Iterable[ConfigResource]) -> dict[ConfigResource, tuple[Resource, str]]:
    listed = list(resources)
    for item in listed:
        if item.restype not in _KINDS:
            raise ValueError(f"{item!r}: settings belong to topics, brokers and groups")
    return {item: (_KINDS[item.restype], item.name) for item in listed}


def _changes(resource: ConfigResource) -> list[tuple[str, AlterOp, str | None]]:
    changes = []
    for entry in resource.incremental_configs:
        operation = entry.incremental_operation
        if operation is None:
            raise ValueError(f"{entry.name}: give incremental_operation, as AlterConfigOpType.SET")
        op = AlterOp(operation.name.lower())
        changes.append((entry.name, op, None if op is AlterOp.DELETE else entry.value))
    return changes
