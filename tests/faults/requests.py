"""Single requests to brokers in other processes, and what became of them."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from klamm.clock import SystemClock
from klamm.protocol.api import ApiKey
from klamm.protocol.messages.find_coordinator import FindCoordinatorRequest
from klamm.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from klamm.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from klamm.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from klamm.protocol.messages.produce import PartitionProduceResponse
from klamm.testing.requests import a_produce
from klamm.testing.wire import WireClient


class Now:
    """Dates records."""

    clock = SystemClock()


def produced(client: WireClient, topic: str, partition: int = 0) -> PartitionProduceResponse:
    return produce_line(client.ask(ApiKey.PRODUCE, 9, a_produce(Now(), topic=topic, partition=partition)))


def produce_line(answer: Any) -> PartitionProduceResponse:
    line: PartitionProduceResponse = answer.responses[0].partition_responses[0]
    return line


def end_of(client: WireClient, topic: str, partition: int) -> int:
    topics = [ListOffsetsTopic(topic, [ListOffsetsPartition(partition, timestamp=-1)])]
    line = client.ask(ApiKey.LIST_OFFSETS, 7, ListOffsetsRequest(-1, topics=topics)).topics[0].partitions[0]
    assert line.error_code == 0
    return int(line.offset)


def a_commit(group: str, topic: str, offset: int) -> OffsetCommitRequest:
    partitions = [OffsetCommitRequestPartition(0, offset)]
    return OffsetCommitRequest(group, topics=[OffsetCommitRequestTopic(name=topic, partitions=partitions)])


def an_offset_fetch(group: str, topic: str) -> OffsetFetchRequest:
    topics = [OffsetFetchRequestTopics(name=topic, partition_indexes=[0])]
    return OffsetFetchRequest([OffsetFetchRequestGroup(group, topics=topics)])


def coordinator_of(client: WireClient, group: str) -> int | None:
    """The broker that coordinates a group; None while there is none."""
    answer = client.ask(ApiKey.FIND_COORDINATOR, 4, FindCoordinatorRequest(coordinator_keys=[group]))
    (found,) = answer.coordinators
    return None if found.error_code else int(found.node_id)


def outcome(client: WireClient, api_key: ApiKey, version: int) -> Any:
    """The response to a request that was sent before; None if the connection was closed instead."""
    with suppress(ConnectionError):
        return client.receive(api_key, version)[1]
    return None
