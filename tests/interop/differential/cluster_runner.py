"""Histories of two clusters of three brokers: requests follow leaders and coordinators, or go astray."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any, ClassVar, Final

from interop.differential import admin_steps, cluster_steps, config_steps, data_steps, txn_steps
from interop.differential.cluster_sides import BROKERS, SeveralBrokers, SeveralGroupSide, SeveralTxnSide
from interop.differential.deliberate import AT_A_FOLLOWER, DELETED_AND_MOVED, FEWER_REPLICAS, MIXED_FACTORS
from interop.differential.group_runner import GroupHistory
from interop.differential.group_world import Asked as AskedOfGroup
from interop.differential.runner import Difference, History
from interop.differential.sides import Side
from interop.differential.txn_runner import TxnHistory
from interop.differential.txn_world import Asked as AskedOfTransaction
from interop.differential.txn_world import TxnWorld
from interop.differential.world import Question, Step, World
from klamm.protocol.api import ApiKey
from klamm.protocol.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from klamm.protocol.messages.create_partitions import CreatePartitionsRequest

_ASTRAY: Final = 0.25
NO_BOUNDARIES: Final = 0.0  # where a request goes is read from its fields
# Requests that every broker serves, about the whole cluster or about itself.
ANY_BROKER: Final = frozenset(
    {
        ApiKey.METADATA,
        ApiKey.DESCRIBE_CLUSTER,
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        ApiKey.DESCRIBE_LOG_DIRS,
        ApiKey.DESCRIBE_CONFIGS,
        ApiKey.LIST_CONFIG_RESOURCES,
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.ELECT_LEADERS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.FIND_COORDINATOR,
        ApiKey.LIST_GROUPS,
        ApiKey.LIST_TRANSACTIONS,
    }
)
MOVES: Final = frozenset({ApiKey.ELECT_LEADERS, ApiKey.ALTER_PARTITION_REASSIGNMENTS})

CLUSTER: Final[dict[Callable[[World], Step], int]] = {
    data_steps.produce: 30,
    data_steps.fetch: 20,
    data_steps.list_offsets: 8,
    data_steps.offset_for_leader_epoch: 4,
    data_steps.delete_records: 3,
    data_steps.init_producer_id: 2,
    data_steps.describe_producers: 4,
    admin_steps.create_topics: 3,
    admin_steps.plain_topic: 4,
    admin_steps.delete_topics: 2,
    admin_steps.create_partitions: 2,
    admin_steps.metadata: 8,
    admin_steps.describe_cluster: 4,
    admin_steps.describe_topic_partitions: 6,
    admin_steps.describe_log_dirs: 2,
    admin_steps.list_partition_reassignments: 2,
    config_steps.describe_configs: 3,
    config_steps.list_config_resources: 2,
    config_steps.incremental_alter_configs: 2,
    cluster_steps.elect_leaders: 6,
    cluster_steps.reassign: 6,
    cluster_steps.find_coordinator: 3,
}


def choose_broker(random: Random, sides: Sequence[SeveralBrokers], asked: Question) -> int | None:
    """The broker of the next request, the same on both sides: mostly the right one, or any.

    None if it would have to be answered by a follower: those of Kafka serve some requests, klamm has none.
    """
    kafkas = sides[1]
    right = kafkas.right_broker(asked.api_key, asked.request)
    following = kafkas.followers(asked.api_key, asked.request)
    goes_astray = asked.api_key in ANY_BROKER or random.random() < _ASTRAY
    served = [each for each in (BROKERS if goes_astray else (right,)) if each not in following]
    return random.choice(served) if served else None


def _say(asked: Step | AskedOfGroup | AskedOfTransaction, broker: int | None) -> None:
    if asked.frame_change is None:  # else it is said how the frame was changed, and nothing else
        asked.says = f"at {broker}: {asked.says}"


class ClusterHistory(History):
    """Data and administration."""

    boundaries = NO_BOUNDARIES

    def __init__(self, ours: SeveralBrokers, kafkas: SeveralBrokers, seed: int) -> None:
        super().__init__(ours, kafkas, seed, weights=CLUSTER)
        self._clusters = (ours, kafkas)

    def _take(self, number: int, step: Step) -> Iterator[Difference]:
        broker = choose_broker(self.world.random, self._clusters, step)
        why = AT_A_FOLLOWER if broker is None else self._kept_out(step.request)
        if why is not None:
            self.excused[why] += 1
            return
        _say(step, broker)
        for side in self._clusters:
            side.at = broker
        yield from super()._take(number, step)
        if step.api_key in MOVES:
            # What a session reads may be led by another broker now, and followed where it was.
            self.world.session_epochs.clear()
            for side in self._clusters:
                side.wait_for_ends()

    def _kept_out(self, request: Any) -> str | None:
        """The case under which the clusters would go on differently."""
        kafkas = self._clusters[1]
        if isinstance(request, CreatePartitionsRequest) and kafkas.has_mixed_factors(request):
            return MIXED_FACTORS
        if isinstance(request, AlterPartitionReassignmentsRequest):
            if kafkas.removes_followers(request):
                return FEWER_REPLICAS
            moved = {
                (topic.name, each.partition_index) for topic in request.topics for each in topic.partitions
            }
            if moved & self.world.starts.keys():
                return DELETED_AND_MOVED
        return None

    @staticmethod
    def _ends(side: Side, known: list[tuple[str, int]]) -> dict[tuple[str, int], int]:
        ends: dict[tuple[str, int], int] = {}
        for place in known:
            ends |= History._ends(side, [place])
        return ends


class ClusterGroupHistory(GroupHistory):
    """Members of groups whose coordinators are spread over the brokers."""

    boundaries = NO_BOUNDARIES

    def __init__(self, ours: SeveralGroupSide, kafkas: SeveralGroupSide, seed: int) -> None:
        super().__init__(ours, kafkas, seed)
        self._clusters = (ours, kafkas)

    def _take(self, asked: AskedOfGroup) -> Iterator[Difference]:
        broker = choose_broker(self.world.random, self._clusters, asked)
        _say(asked, broker)
        for side in self._clusters:
            side.at = broker
        yield from super()._take(asked)


class ClusterTxnHistory(TxnHistory):
    """Transactions whose coordinators and partitions are spread over the brokers."""

    boundaries = NO_BOUNDARIES
    makers: ClassVar[dict[Callable[[TxnWorld], AskedOfTransaction], int]] = {**txn_steps.STEPS}

    def __init__(self, ours: SeveralTxnSide, kafkas: SeveralTxnSide, seed: int) -> None:
        super().__init__(ours, kafkas, seed)
        self._clusters = (ours, kafkas)

    def _take(self, number: int, asked: AskedOfTransaction) -> Iterator[Difference]:
        broker = choose_broker(self.world.random, self._clusters, asked)
        _say(asked, broker)
        for side in self._clusters:
            side.at = broker
        yield from super()._take(number, asked)
