"""DescribeLogDirs: how large each partition is, and how much room its disk has (version 4)."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from klamm.broker.net.context import RequestContext
from klamm.broker.partitions.registry import Partition
from klamm.broker.services import Services
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)


def handle(
    services: Services, context: RequestContext, request: DescribeLogDirsRequest
) -> DescribeLogDirsResponse:
    """Every log directory with the requested partitions; null requests all."""
    wanted = None
    if request.topics is not None:
        wanted = {(asked.topic, partition) for asked in request.topics for partition in asked.partitions}
    partitions = [each for each in services.partitions if each.error_code is ErrorCode.none]
    return DescribeLogDirsResponse(
        results=[
            DescribeLogDirsResult(
                log_dir=directory.path,
                topics=_topics([each for each in partitions if directory.holds(*each.name)], wanted),
                total_bytes=directory.total_bytes,
                usable_bytes=directory.usable_bytes,
            )
            if not directory.is_offline
            else DescribeLogDirsResult(error_code=ErrorCode.kafka_storage_error, log_dir=directory.path)
            for directory in services.logs.status()
        ]
    )


def _topics(
    partitions: Iterable[Partition], wanted: Collection[tuple[str, int]] | None
) -> list[DescribeLogDirsTopic]:
    sizes: dict[str, list[DescribeLogDirsPartition]] = {}
    for each in partitions:
        if wanted is None or each.name in wanted:
            sizes.setdefault(each.topic, []).append(
                DescribeLogDirsPartition(each.partition, each.retention.size_bytes)
            )
    return [DescribeLogDirsTopic(topic, sized) for topic, sized in sizes.items()]
