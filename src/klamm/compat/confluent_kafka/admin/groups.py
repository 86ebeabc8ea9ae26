"""Groups in confluent-kafka's AdminClient, and what all of its methods share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from typing import Any

from klamm.client.admin.admin_operations import AdminOperations
from klamm.client.admin.model import CommittedOffset, GroupDescription
from klamm.client.admin.results import Results
from klamm.compat.confluent_kafka.admin import answers
from klamm.compat.confluent_kafka.admin.futures import after, of_each, then
from klamm.compat.confluent_kafka.error import KafkaError, not_supported, raised_as_theirs
from klamm.compat.confluent_kafka.model import GROUP_STATES
from klamm.compat.confluent_kafka.partitions import (
    OFFSET_INVALID,
    ConsumerGroupTopicPartitions,
    TopicPartition,
)
from klamm.errors import GroupIdNotFoundError
from klamm.protocol.types import TopicPartition as OwnPartition


class GroupCalls:
    """The methods about groups."""

    _operations: AdminOperations

    def _nodes(self, timeout: float | None) -> Future[answers.Nodes]:
        return then(
            self._operations.describe_cluster(timeout=timeout),
            lambda found: answers.nodes_of(found.brokers),
        )

    @raised_as_theirs
    def list_consumer_groups(
        self,
        *,
        request_timeout: float | None = None,
        states: Iterable[Any] = (),
        types: Iterable[Any] = (),
    ) -> Future[answers.ListConsumerGroupsResult]:
        names = {state: name for name, state in GROUP_STATES.items()}
        listed = self._operations.list_groups(
            states=[names[state] for state in states],
            types=[item.name.lower() for item in types],
            timeout=request_timeout,
        )
        return then(
            listed,
            lambda found: answers.ListConsumerGroupsResult([answers.listing_of(item) for item in found]),
        )

    @raised_as_theirs
    def describe_consumer_groups(
        self,
        group_ids: Iterable[str],
        *,
        request_timeout: float | None = None,
        include_authorized_operations: bool = False,
    ) -> dict[str, Future[answers.ConsumerGroupDescription]]:
        no_operations(include_authorized_operations)
        names = some(group_ids, "group ids")
        nodes = self._nodes(request_timeout)
        listed = after(nodes, lambda _nodes: self._operations.list_groups(timeout=request_timeout))
        described = then(
            after(
                listed,
                lambda _listed: self._operations.describe_groups(
                    names, raise_errors=False, timeout=request_timeout
                ),
            ),
            _with_dead_ones,
        )

        def make(found: Any) -> answers.ConsumerGroupDescription:
            types = {item.group_id: item.group_type for item in listed.result()}
            return answers.group_of(found, nodes.result(), types.get(found.group_id, ""))

        return of_each(described, {name: name for name in names}, make)

    @raised_as_theirs
    def list_groups(
        self, group: str | None = None, timeout: float | None = -1
    ) -> list[answers.GroupMetadata]:
        """The groups with their members; `list_consumer_groups` is newer."""
        left_s = None if timeout is None or timeout < 0 else timeout
        names = [group] if group else [item.group_id for item in self._operations.list_groups().result()]
        nodes = self._nodes(left_s).result()
        found = self._operations.describe_groups(names, timeout=left_s).result() if names else {}
        return [answers.metadata_of(item, nodes) for item in found.values()]

    @raised_as_theirs
    def delete_consumer_groups(
        self, group_ids: Iterable[str], *, request_timeout: float | None = None
    ) -> dict[str, Future[None]]:
        names = some(group_ids, "group ids")
        answered = self._operations.delete_groups(names, raise_errors=False, timeout=request_timeout)
        return of_each(answered, {name: name for name in names})

    @raised_as_theirs
    def list_consumer_group_offsets(
        self,
        list_consumer_group_offsets_request: Iterable[ConsumerGroupTopicPartitions],
        *,
        require_stable: bool = False,
        request_timeout: float | None = None,
    ) -> dict[str, Future[ConsumerGroupTopicPartitions]]:
        request = _one_group(list_consumer_group_offsets_request)
        partitions = request.topic_partitions
        chosen = None if partitions is None else [item.own for item in partitions]
        answered = self._operations.list_group_offsets(
            request.group_id, chosen, require_stable=require_stable, timeout=request_timeout
        )

        def make(found: Mapping[OwnPartition, CommittedOffset]) -> ConsumerGroupTopicPartitions:
            wanted = sorted(found) if chosen is None else chosen
            listed = [_with_offset(item, found.get(item)) for item in wanted]
            return ConsumerGroupTopicPartitions(request.group_id, listed)

        return {request.group_id: then(answered, make)}

    @raised_as_theirs
    def alter_consumer_group_offsets(
        self,
        alter_consumer_group_offsets_request: Iterable[ConsumerGroupTopicPartitions],
        *,
        request_timeout: float | None = None,
    ) -> dict[str, Future[ConsumerGroupTopicPartitions]]:
        request = _one_group(alter_consumer_group_offsets_request)
        wanted = request.topic_partitions or []
        if not wanted:
            raise ValueError("give the partitions whose offsets are changed")
        offsets = {
            item.own: CommittedOffset(
                item.offset, -1 if item.leader_epoch is None else item.leader_epoch, item.metadata or ""
            )
            for item in wanted
        }
        answered = self._operations.alter_group_offsets(
            request.group_id, offsets, raise_errors=False, timeout=request_timeout
        )

        def make(results: Any) -> ConsumerGroupTopicPartitions:
            listed = []
            for item in wanted:
                done = TopicPartition(item.topic, item.partition, item.offset, item.metadata)
                if item.own in results.errors:
                    done.error = KafkaError.of(results.errors[item.own])
                listed.append(done)
            return ConsumerGroupTopicPartitions(request.group_id, listed)

        return {request.group_id: then(answered, make)}


def some(items: Iterable[Any], what: str) -> list[Any]:
    listed = [] if isinstance(items, str) else list(items)
    if not listed:
        raise ValueError(f"expected a list of {what}, not {items!r}")
    return listed


def _one_group(request: Iterable[ConsumerGroupTopicPartitions]) -> ConsumerGroupTopicPartitions:
    groups = list(request)
    if len(groups) != 1:
        raise ValueError(f"give one group in a call, as confluent-kafka demands, not {len(groups)}")
    return groups[0]


def _with_offset(partition: OwnPartition, found: CommittedOffset | None) -> TopicPartition:
    if found is None:
        return TopicPartition(partition.topic, partition.partition, OFFSET_INVALID)
    epoch = found.leader_epoch if found.leader_epoch >= 0 else None
    return TopicPartition(partition.topic, partition.partition, found.offset, found.metadata or None, epoch)


def no_operations(asked: bool) -> None:
    if asked:
        raise not_supported("include_authorized_operations", "leave it out")


def _with_dead_ones(found: Results[str, GroupDescription]) -> Results[str, GroupDescription]:
    """A group that does not exist is dead, there: no error."""
    return Results(
        {
            **found.successes,
            **{
                name: GroupDescription(name, "Dead", "", "", -1, ())
                if isinstance(error, GroupIdNotFoundError)
                else error
                for name, error in found.errors.items()
            },
        }
    )
