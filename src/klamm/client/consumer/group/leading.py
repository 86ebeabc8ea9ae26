"""The leader's part of a rebalance: assign the partitions, and watch for changes that need another."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from klamm.assignors.base import Assignor, ClusterView, GroupView, MemberSubscription, PartitionView
from klamm.assignors.checks import assign_and_check
from klamm.client.calls import Calls
from klamm.client.consumer.settings import ConsumerSettings
from klamm.client.runtime import Core
from klamm.errors import IllegalStateError, KlammError, ProtocolError, broker_error
from klamm.net.cluster import Cluster
from klamm.net.network import Node
from klamm.protocol.api import ApiKey
from klamm.protocol.consumer_protocol import decode_assignment, decode_subscription, encode_assignment
from klamm.protocol.errors import DecodeError, ErrorCode
from klamm.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from klamm.protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from klamm.protocol.messages.sync_group import SyncGroupRequestAssignment

log = logging.getLogger(__name__)

# What of each topic triggers a rebalance when it changes: the number of its partitions, or their racks.
Shape = Mapping[str, int | tuple[object, ...]]

_STABLE: Final = "Stable"


class Leading:
    """What this consumer does when the group elected it."""

    def __init__(self, core: Core, settings: ConsumerSettings, calls: Calls) -> None:
        self._core = core
        self._settings = settings
        self._calls = calls
        self.topics: frozenset[str] = frozenset()  # of the whole group, while we lead it
        self._shape: Shape | None = None  # as of the assignment
        self._shaped: Cluster | None = None  # the metadata that has this shape
        self._viewed: tuple[Cluster, frozenset[str], ClusterView] | None = None  # the last view, and of what
        self.on_outdated: Callable[[], None] = lambda: None  # the assignment is found to be older than that

    @property
    def is_leader(self) -> bool:
        return self._shape is not None

    def resign(self) -> None:
        """Drop the group's topics; the next rebalance elects a leader again."""
        self.topics = frozenset()
        self._shape = self._shaped = None

    async def assign(self, response: JoinGroupResponse, node: Node) -> list[SyncGroupRequestAssignment]:
        """Share the partitions among the members; nothing when the coordinator keeps what it has."""
        assignor = self.assignor(response.protocol_name)
        group = group_view(response.members)
        topics = frozenset().union(*(member.topics for member in group.members.values()))
        await self._watch(topics)
        if response.skip_assignment:
            # A static leader rejoined: the assignment stays.
            self._core.tasks.spawn(self._compare_with_assignment(node))
            return []
        cluster = self._view(self._core.metadata.cluster, topics)
        try:
            checked = assign_and_check(assignor, self._settings.protocol, cluster, group)
        except Exception as error:
            error.add_note(f"raised by assignor {assignor.name}, for group {self._settings.group_id}")
            raise
        except BaseException as error:  # SystemExit would end the client's thread, not the program
            raise RuntimeError(f"assignor {assignor.name} raised {error!r}") from error
        for warning in checked.warnings:
            log.warning("group %s: %s", self._settings.group_id, warning)
        if checked.foreign_topics:
            await self._watch(topics | checked.foreign_topics)
        return [
            SyncGroupRequestAssignment(member_id, encode_assignment(given))
            for member_id, given in checked.assignments.items()
        ]

    def assignor(self, name: str | None) -> Assignor:
        """The elected assignor."""
        for each in self._settings.assignors:
            if each.name == name:
                return each
        known = ", ".join([each.name for each in self._settings.assignors])
        raise IllegalStateError(f"the group elected the assignor {name!r}; this consumer has {known}")

    async def _watch(self, topics: Iterable[str]) -> None:
        self.topics = frozenset(topics)
        metadata = self._core.metadata
        metadata.want(self.topics)
        if not self.topics <= metadata.cluster.topics.keys():
            deadline = self._calls.deadline(
                "metadata of the group's topics", self._settings.request_timeout_ms
            )
            try:
                await self._calls.refresh(deadline)
            except KlammError as error:
                log.warning("group %s: %s", self._settings.group_id, error)
        self._shape = self._shape_of(metadata.cluster)
        self._shaped = metadata.cluster

    def _view(self, cluster: Cluster, topics: frozenset[str]) -> ClusterView:
        """What an assignor sees: the same in most rebalances, each time in a dictionary of its own."""
        viewed = self._viewed
        if viewed is None or viewed[0] is not cluster or viewed[1] != topics:
            viewed = self._viewed = (cluster, topics, cluster_view(cluster, topics))
        return ClusterView(dict(viewed[2].topics))

    async def _compare_with_assignment(self, node: Node) -> None:
        """Find partitions that were added between an assignment and the return of its leader.

        Kafka's client does not: they have no owner until something else causes a rebalance.
        """
        shape = self._shape
        try:
            sizes = await self._assigned_sizes(node)
        except (KlammError, DecodeError) as error:
            log.info("group %s: comparing partitions with assignment: %s", self._settings.group_id, error)
            return
        if sizes is not None and shape is not None and self._shape is shape:
            self._shape = {topic: _cut(size, sizes.get(topic, 0)) for topic, size in shape.items()}
            self._shaped = None
            self.on_outdated()

    async def _assigned_sizes(self, node: Node) -> dict[str, int] | None:
        """How many partitions each topic had for the assignment, at least; None while there is none."""
        group_id = self._settings.group_id or ""
        response: DescribeGroupsResponse = await self._core.tasks.request(
            node, ApiKey.DESCRIBE_GROUPS, DescribeGroupsRequest(groups=[group_id])
        )
        sizes: dict[str, int] = {}
        for group in response.groups:
            if group.error_code != ErrorCode.none:
                raise broker_error(group.error_code, f"describing group {group_id}")
            if group.group_state != _STABLE:
                return None
            for member in group.members:
                if raw := bytes(member.member_assignment):
                    for topic, number in decode_assignment(raw).partitions:
                        sizes[topic] = max(sizes.get(topic, 0), number + 1)
        return sizes

    def has_changed(self, cluster: Cluster) -> bool:
        """Whether the group's topics are not any more what the assignment was made for."""
        if self._shape is None or cluster is self._shaped:
            return False
        return self._shape_of(cluster) != self._shape

    def _shape_of(self, cluster: Cluster) -> Shape:
        if not self._settings.client_rack:
            known = ((name, cluster.topics.get(name)) for name in self.topics)
            return {name: max(topic.partitions, default=-1) + 1 for name, topic in known if topic is not None}
        view = cluster_view(cluster, self.topics)
        return {
            topic: tuple(partition.replica_racks for partition in partitions)
            for topic, partitions in view.topics.items()
        }


def _cut(size: int | tuple[object, ...], limit: int) -> int | tuple[object, ...]:
    return min(size, limit) if isinstance(size, int) else size[:limit]


def group_view(members: Sequence[JoinGroupResponseMember]) -> GroupView:
    """The members as input of an assignor."""
    found = {}
    for member in members:
        try:
            subscription = decode_subscription(bytes(member.metadata))
        except DecodeError as error:
            raise ProtocolError(f"member {member.member_id} sent no subscription: {error}") from error
        found[member.member_id] = MemberSubscription.of_wire(subscription, member.group_instance_id)
    return GroupView(found)


def cluster_view(cluster: Cluster, topics: Iterable[str]) -> ClusterView:
    """The topics as input of an assignor: partitions in order, with their racks."""
    racks = {broker.broker_id: broker.rack for broker in cluster.brokers.values()}
    found: dict[str, Sequence[PartitionView]] = {}
    for name in sorted(topics):
        topic = cluster.topics.get(name)
        if topic is None:
            continue
        views = []
        for number in range(max(topic.partitions, default=-1) + 1):
            info = topic.partitions.get(number)
            replicas = info.replicas if info else ()
            views.append(
                PartitionView(
                    frozenset(rack for replica in replicas if (rack := racks.get(replica))),
                    racks.get(info.leader_id) if info else None,
                )
            )
        found[name] = tuple(views)
    return ClusterView(found)
