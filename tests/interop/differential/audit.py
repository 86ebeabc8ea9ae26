"""What is left at the end of a history, asked for in full: all that the answers along the way promised."""

from __future__ import annotations

from collections.abc import Iterator

from interop.differential.world import Step, World
from klamm.protocol.api import ApiKey
from klamm.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from klamm.protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from klamm.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from klamm.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from klamm.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from klamm.protocol.messages.metadata import MetadataRequest

_ALL_BYTES = 1 << 25


def audit(world: World) -> Iterator[Step]:
    """Steps that read everything back: metadata, settings, sizes, producers, offsets, records."""
    yield Step(ApiKey.METADATA, 13, MetadataRequest(topics=None), "all")
    topics = sorted(world.topics)
    resources = [DescribeConfigsResource(2, name, None) for name in topics]
    yield Step(ApiKey.DESCRIBE_CONFIGS, 4, DescribeConfigsRequest(resources, True), "all")
    dirs = [DescribableLogDirTopic(name, list(range(world.topics[name]))) for name in topics]
    yield Step(ApiKey.DESCRIBE_LOG_DIRS, 4, DescribeLogDirsRequest(dirs), "all")
    producers = [TopicRequest(name, list(range(world.topics[name]))) for name in topics]
    yield Step(ApiKey.DESCRIBE_PRODUCERS, 0, DescribeProducersRequest(producers), "all")
    for timestamp in (-1, -2):
        lookups = [
            ListOffsetsTopic(
                name, [ListOffsetsPartition(index, -1, timestamp) for index in range(world.topics[name])]
            )
            for name in topics
        ]
        yield Step(ApiKey.LIST_OFFSETS, 10, ListOffsetsRequest(-1, 0, lookups, 5000), f"all {timestamp}")
    for name in topics:
        for index in range(world.topics[name]):
            yield from _records(world, name, index)


def _records(world: World, name: str, index: int) -> Iterator[Step]:
    """An answer ends with its segment: every tenth offset brings all records, some of them again."""
    end = world.end(name, index)
    for offset in (*range(world.starts.get((name, index), 0), end, 10), end):
        wanted = FetchPartition(index, fetch_offset=offset, partition_max_bytes=_ALL_BYTES)
        request = FetchRequest(max_bytes=_ALL_BYTES, topics=[FetchTopic(topic=name, partitions=[wanted])])
        yield Step(ApiKey.FETCH, 12, request, f"{name[:20]}-{index} from {offset}")
