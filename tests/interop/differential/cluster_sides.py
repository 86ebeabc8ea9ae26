"""Sides with three brokers: every request goes to the broker that should be asked, or to one that is named.

Both sides place partitions alike, because every topic is created with its replicas, and so are the partitions
of the coordinators' topics: the same broker is right, or wrong, on both.
"""

from __future__ import annotations

import socket
import zlib
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final

from interop.differential.group_sides import GroupSide
from interop.differential.sides import ANSWER_WITHIN_S, BROKER, Side
from interop.differential.txn_world import TxnSide
from klamm.protocol.api import ApiKey
from klamm.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from klamm.protocol.messages.create_partitions import CreatePartitionsAssignment, CreatePartitionsRequest
from klamm.protocol.messages.create_topics import CreatableReplicaAssignment, CreateTopicsRequest
from klamm.protocol.messages.describe_configs import DescribeConfigsRequest
from klamm.protocol.messages.find_coordinator import FindCoordinatorRequest
from klamm.protocol.messages.init_producer_id import InitProducerIdRequest
from klamm.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from klamm.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from klamm.protocol.messages.metadata import MetadataResponse
from klamm.testing import wait_until

BROKERS: Final = (1, 2, 3)
INTERNAL_PARTITIONS: Final = 6
# Topics that are created with more than one replica; the others have one.
FACTORS: Final = {"b": 3, "c.d": 2}
_GROUP, _TRANSACTION = 0, 1
_COORDINATORS: Final = {"__consumer_offsets": _GROUP, "__transaction_state": _TRANSACTION}
_LED: Final = frozenset(
    {
        ApiKey.PRODUCE,
        ApiKey.FETCH,
        ApiKey.LIST_OFFSETS,
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        ApiKey.DELETE_RECORDS,
        ApiKey.DESCRIBE_PRODUCERS,
        ApiKey.DESCRIBE_LOG_DIRS,
    }
)
# DescribeProducers is answered by replicas of both.
SERVED_BY_FOLLOWERS: Final = _LED - {ApiKey.PRODUCE, ApiKey.DELETE_RECORDS, ApiKey.DESCRIBE_PRODUCERS}
_OF_GROUPS: Final = frozenset(
    {
        ApiKey.JOIN_GROUP,
        ApiKey.SYNC_GROUP,
        ApiKey.HEARTBEAT,
        ApiKey.LEAVE_GROUP,
        ApiKey.OFFSET_COMMIT,
        ApiKey.OFFSET_FETCH,
        ApiKey.OFFSET_DELETE,
        ApiKey.DESCRIBE_GROUPS,
        ApiKey.DELETE_GROUPS,
        ApiKey.TXN_OFFSET_COMMIT,
    }
)
_OF_TRANSACTIONS: Final = frozenset(
    {
        ApiKey.INIT_PRODUCER_ID,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.ADD_OFFSETS_TO_TXN,
        ApiKey.END_TXN,
        ApiKey.DESCRIBE_TRANSACTIONS,
    }
)


def replicas_of(topic: str, partition: int) -> list[int]:
    """Where both sides put a partition."""
    first = zlib.crc32(topic.encode()) + partition
    return [(first + each) % len(BROKERS) + 1 for each in range(FACTORS.get(topic, 1))]


class SeveralBrokers(Side):
    """A side whose connections are those of three brokers; the address lists all of them, by id."""

    def __init__(self, name: str, address: str) -> None:
        addresses = address.split(",")
        super().__init__(name, addresses[0])
        self._addresses = {
            broker: (each.rpartition(":")[0], int(each.rpartition(":")[2]))
            for broker, each in zip(BROKERS, addresses, strict=True)
        }
        self.at: int | None = None  # where the next request goes; None: where it should go
        self._going_to = 1
        self._brokers: dict[int, int] = {}  # by connection: whom it was used for last
        self._replicas: dict[tuple[str, int], tuple[int, ...]] = {}
        self._leaders: dict[tuple[str, int], int] = {}
        self._names: dict[bytes, str] = {}  # by stand-in
        self._coordinators: dict[tuple[int, str], int] = {}
        self._is_arranged = False

    # Where a request goes

    def frame(self, api_key: int, version: int, request: Any) -> bytes:
        if api_key != ApiKey.API_VERSIONS:  # which asks whether the last request's connection is open
            at, self.at = self.at, None
            self._going_to = at or self.right_broker(ApiKey(api_key), request)
        return super().frame(api_key, version, self._placed(request))

    def exchange(self, frame: bytes, *, connection: int = 0) -> bytes | str:
        self._brokers[connection] = self._going_to
        return super().exchange(frame, connection=connection)

    def send(self, frame: bytes, *, connection: int = 0) -> None:
        self._brokers[connection] = self._going_to
        super().send(frame, connection=connection)

    def _open(self, connection: int) -> socket.socket:
        broker = self._brokers.get(connection, self._going_to)
        key = self._key(broker, connection)
        if key not in self._connections:
            address = self._addresses[broker]
            self._connections[key] = socket.create_connection(address, timeout=ANSWER_WITHIN_S)
        return self._connections[key]

    def close(self, connection: int) -> None:
        super().close(self._key(self._brokers.get(connection, self._going_to), connection))

    def close_all(self) -> None:
        for key in list(self._connections):
            super().close(key)

    @staticmethod
    def _key(broker: int, connection: int) -> int:
        return broker * 1_000_000 + connection

    # Who is right

    def right_broker(self, api_key: ApiKey, request: Any) -> int:
        """The leader of the first partition that a request names, or its coordinator; else broker 1."""
        if api_key in _LED:
            named = next(self._partitions(request), None)
            return self._leaders.get(named, 1) if named is not None else 1
        if api_key in _OF_GROUPS:
            return self._coordinator(_GROUP, next(_groups(request), ""))
        if api_key in _OF_TRANSACTIONS:
            return self._coordinator(_TRANSACTION, next(_transactions(request), ""))
        return 1

    def followers(self, api_key: ApiKey, request: Any) -> set[int]:
        """Brokers that serve a request as followers of a partition that it names; klamm has none."""
        if api_key not in SERVED_BY_FOLLOWERS:
            return set()
        named = list(self._partitions(request)) or list(self._replicas)
        return {
            broker
            for each in named
            for broker in self._replicas.get(each, ())
            if broker != self._leaders.get(each)
        }

    def removes_followers(self, request: AlterPartitionReassignmentsRequest) -> bool:
        """Whether a partition shall have fewer or other replicas, and keep its leader."""
        return any(
            self._leaders.get((topic.name, each.partition_index)) in (each.replicas or ())
            and not set(self._replicas[topic.name, each.partition_index]) <= set(each.replicas or ())
            for topic in request.topics
            for each in topic.partitions
        )

    def has_mixed_factors(self, request: CreatePartitionsRequest) -> bool:
        """Whether the partitions of a topic that shall get more have different numbers of replicas."""
        factors: dict[str, set[int]] = {}
        for (name, _), replicas in self._replicas.items():
            factors.setdefault(name, set()).add(len(replicas))
        return any(len(factors.get(topic.name, ())) > 1 for topic in request.topics)

    def _partitions(self, request: Any) -> Iterator[tuple[str, int]]:
        topics = getattr(request, "topic_data", None) or getattr(request, "topics", None) or ()
        for topic in topics:
            name = self._names.get(getattr(topic, "topic_id", b""), "")
            name = getattr(topic, "topic", "") or getattr(topic, "name", "") or name
            lines = (
                getattr(topic, "partition_data", None)
                or getattr(topic, "partitions", None)
                or getattr(topic, "partition_indexes", None)
            )
            for line in lines or ():
                yield name, line if isinstance(line, int) else _index(line)

    def _coordinator(self, kind: int, key: str) -> int:
        if not key:
            return 1
        if (kind, key) not in self._coordinators:
            request = FindCoordinatorRequest(key=key, key_type=kind)

            def node() -> int:
                found: int = self.ask(ApiKey.FIND_COORDINATOR, 1, request).node_id
                return found

            wait_until(lambda: node() > 0, "20s", every="2ms")
            self._coordinators[kind, key] = node()
        return self._coordinators[kind, key]

    # Both place alike

    def _placed(self, request: Any) -> Any:
        """Requests that leave the placement to the broker name it."""
        if isinstance(request, CreateTopicsRequest):
            topics = [
                topic.but(
                    num_partitions=-1,
                    replication_factor=-1,
                    assignments=[
                        CreatableReplicaAssignment(index, replicas_of(topic.name, index))
                        for index in range(max(topic.num_partitions, 1))
                    ],
                )
                if _is_placed_by_broker(topic)
                else topic
                for topic in request.topics
            ]
            return request.but(topics=topics)
        if isinstance(request, CreatePartitionsRequest):
            return request.but(topics=[self._placed_more(topic) for topic in request.topics])
        return request

    def _placed_more(self, topic: Any) -> Any:
        present = sum(name == topic.name for name, _ in self._leaders)
        if topic.assignments is not None or not 0 < present < topic.count:
            return topic
        factor = len(self._replicas[topic.name, 0])
        first = [replicas_of(topic.name, index)[0] for index in range(present, topic.count)]
        rows = [[(each - 1 + more) % len(BROKERS) + 1 for more in range(factor)] for each in first]
        return topic.but(assignments=[CreatePartitionsAssignment(row) for row in rows])

    def learn(self) -> MetadataResponse:
        answer = super().learn()
        lines = [(topic.name or "", line) for topic in answer.topics for line in topic.partitions]
        self._leaders = {(name, line.partition_index): line.leader_id for name, line in lines}
        self._replicas = {(name, line.partition_index): tuple(line.replica_nodes) for name, line in lines}
        self._names = {self._stand_ins[topic.topic_id]: topic.name or "" for topic in answer.topics}
        return answer

    def _forget_settings(self, kind: int, resource_name: str) -> None:
        is_of_one = kind == BROKER and resource_name
        for each in map(str, BROKERS) if is_of_one else (resource_name,):
            self.at = int(each) if is_of_one else 1
            super()._forget_settings(kind, each)

    def clear(self) -> None:
        self.at = None
        if not self._is_arranged:
            self._arrange()
            self._is_arranged = True
        super().clear()
        for broker in BROKERS:
            wait_until(partial(self._has_producer_ids, broker), "20s", every="2ms")

    def _has_producer_ids(self, broker: int) -> bool:
        """A Kafka broker without a block of ids refuses the request, and gets one."""
        self.at = broker
        answer = self.ask(ApiKey.INIT_PRODUCER_ID, 0, InitProducerIdRequest())
        return bool(answer.error_code == 0)

    def _arrange(self) -> None:
        """The coordinators of all groups and transactional ids are the same on both sides."""
        for kind in _COORDINATORS.values():
            self._coordinator(kind, "first")
        topics = [
            ReassignableTopic(
                name, [ReassignablePartition(index, [index % 3 + 1]) for index in range(INTERNAL_PARTITIONS)]
            )
            for name in _COORDINATORS
        ]
        request = AlterPartitionReassignmentsRequest(topics=topics)
        self.ask(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, request)
        self.wait_for_reassignments()
        wait_until(self._are_arranged, "60s", every="2ms")
        self._coordinators.clear()

    def _are_arranged(self) -> bool:
        """Whether every broker knows the coordinators' leaders."""
        for broker in BROKERS:
            self.at = broker
            self.learn()
            if any(
                self._leaders.get((name, index)) != index % 3 + 1
                for name in _COORDINATORS
                for index in range(INTERNAL_PARTITIONS)
            ):
                return False
        return True

    # Waiting

    def settle(self) -> None:
        self.wait_for_reassignments()
        super().settle()

    def wait_for_ends(self) -> None:
        """A new leader of Kafka does not know at once how far its followers have come."""
        for name, index in self._leaders:
            if not name.startswith("__"):
                wait_until(partial(self._knows_end, name, index), "20s", every="2ms")

    def _knows_end(self, name: str, index: int) -> bool:
        topics = [ListOffsetsTopic(name, [ListOffsetsPartition(index, -1, -1)])]
        answer = self.ask(ApiKey.LIST_OFFSETS, 5, ListOffsetsRequest(-1, 0, topics))
        return bool(answer.topics[0].partitions[0].error_code == 0)

    def wait_for_reassignments(self) -> None:
        request = ListPartitionReassignmentsRequest(30_000, None)
        wait_until(
            lambda: list(self.ask(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, request).topics),
            "60s",
            equals=[],
            every="2ms",
        )

    def _told(self, wanted: DescribeConfigsRequest) -> str | None:
        """What all brokers say; None as long as they do not agree."""
        told = set()
        for broker in BROKERS:
            self.at = broker
            told.add(super()._told(wanted))
        return told.pop() if len(told) == 1 else None


def _is_placed_by_broker(topic: Any) -> bool:
    counts = topic.num_partitions == -1 or topic.num_partitions > 0
    return not topic.assignments and counts and topic.replication_factor in (-1, 1)


def _index(line: Any) -> int:
    for name in ("index", "partition", "partition_index"):
        if hasattr(line, name):
            found: int = getattr(line, name)
            return found
    raise AssertionError(line)


def _groups(request: Any) -> Iterator[str]:
    if hasattr(request, "group_id") and request.group_id:
        yield request.group_id
    named: Sequence[Any] = getattr(request, "groups", None) or getattr(request, "groups_names", None) or ()
    for group in named:
        yield group if isinstance(group, str) else group.group_id


def _transactions(request: Any) -> Iterator[str]:
    for name in ("transactional_id", "v3_and_below_transactional_id"):
        if getattr(request, name, None):
            yield getattr(request, name)
    for each in getattr(request, "transactions", None) or ():
        yield each.transactional_id
    yield from getattr(request, "transactional_ids", None) or ()


class SeveralGroupSide(SeveralBrokers, GroupSide):
    """Three brokers, and the members of their groups."""


class SeveralTxnSide(SeveralBrokers, TxnSide):
    """Three brokers, and their producer ids."""
