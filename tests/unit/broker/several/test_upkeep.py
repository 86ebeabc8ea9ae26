"""Retention and compaction of partitions that move meanwhile; numbers are the scenarios'."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from internals.shared_jar import JarNode, SharedJar
from klamm.protocol.api import ApiKey
from klamm.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from klamm.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from klamm.records.batch import iter_headers
from klamm.records.record import decode_records
from klamm.storage.cluster import LeaderChange
from klamm.storage.engines.segments.cleaning_job import CleaningJob
from klamm.testing.requests import a_batch
from unit.broker.several.asking import fetch, produce

SETTINGS = {
    "auto.leader.rebalance.enable": "false",
    "log.cleaner.backoff.ms": "1000",
    "log.retention.check.interval.ms": "1000",
}


@pytest.fixture
def jar(make_cluster: Callable[..., SharedJar]) -> SharedJar:
    return make_cluster(settings=SETTINGS, members=True)


def create(jar: SharedJar, **configs: str) -> None:
    """Topic t, its partition led by broker 1."""
    named = [CreatableTopicConfig(name.replace("_", "."), value) for name, value in configs.items()]
    rows = [CreatableReplicaAssignment(0, [1, 2, 3])]
    topic = CreatableTopic("t", -1, -1, assignments=rows, configs=named)
    answer = jar[1].ask(ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest([topic]))
    assert answer.topics[0].error_code == 0, answer
    jar.spread()


def fill(jar: SharedJar, segments: int) -> None:
    """One key again and again; `segment.ms` makes each batch a segment."""
    for number in range(segments):
        line = produce(jar[1], batch=a_batch(jar[1], key=b"k", value=b"%d" % number))
        assert line.error_code == 0
        jar.pass_ms(20)


def start_move(jar: SharedJar, to: int) -> None:
    state = jar.state("t", 0)
    change = LeaderChange("t", 0, state.leader_id, state.leader_epoch, to)
    assert jar[to].cluster.start_moves([change])


def slow_passes(node: JarNode) -> None:
    """Compaction takes longer than anything else that the broker does with its disk."""
    disk = node.disk

    def run(function: Any, *arguments: Any) -> Any:
        is_pass = isinstance(getattr(function, "__self__", None), CleaningJob)
        disk.delay_ms = 500 if is_pass else 0
        future = disk(function, *arguments)
        disk.delay_ms = 0
        return future

    node.services.run_blocking = run  # type: ignore[assignment]  # it takes any function


def unfinished(jar: SharedJar) -> list[str]:
    return [entry.name for entry in jar.files.scan("/logs/t-0") if entry.name.endswith(".cleaned")]


# scenario 34
def test_a_partition_is_handed_over_when_nothing_compacts_it_any_more(
    jar: SharedJar, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(jar, cleanup_policy="compact", segment_ms="10", min_cleanable_dirty_ratio="0")
    fill(jar, 5)
    slow_passes(jar[1])
    while jar[1].services.cleaning is None or not jar[1].services.cleaning.cleaner.running:
        jar.pass_ms(10)
    cleaner = jar[1].services.cleaning.cleaner
    finish_moves = jar[1].cluster.finish_moves
    passes_at_the_move: list[int] = []

    def watched(moves: Sequence[LeaderChange]) -> Sequence[LeaderChange]:
        passes_at_the_move.append(len(cleaner.running))
        return finish_moves(moves)

    monkeypatch.setattr(jar[1].cluster, "finish_moves", watched)
    start_move(jar, 2)
    while jar.state("t", 0).leader_id == 1:
        jar.pass_ms(1)
    # The pass was over before the next leader had the partition, and has left nothing
    assert passes_at_the_move == [0]
    assert unfinished(jar) == []
    # which compacts it itself
    jar.pass_ms(5_000)
    (data,) = fetch(jar[2]).responses[0].partitions
    assert data.error_code == 0
    assert data.high_watermark == 5
    batches = bytes(data.records)
    values = [
        record.value
        for position, header in iter_headers(batches)
        for record in decode_records(batches[position : position + header.size_bytes])
    ]
    assert values == [b"3"]  # the active segment is never compacted
    assert unfinished(jar) == []


# scenario 34
def test_the_log_start_does_not_fall_when_a_partition_moves(jar: SharedJar) -> None:
    create(jar, retention_ms="600000", segment_ms="10")
    fill(jar, 5)
    topics = [DeleteRecordsTopic("t", [DeleteRecordsPartition(0, 2)])]
    answer = jar[1].ask(ApiKey.DELETE_RECORDS, 2, DeleteRecordsRequest(topics, 10_000))
    assert answer.topics[0].partitions[0].low_watermark == 2
    starts = [2]
    for to in (2, 3, 1):
        start_move(jar, to)
        while jar.state("t", 0).leader_id != to:
            jar.pass_ms(1)
        jar.pass_ms(100)
        served = jar[to].services.partitions.get("t", 0)
        assert served is not None
        starts.append(served.log.log_start_offset)
        jar.pass_ms(400_000)  # retention goes on at each of them
    assert starts == sorted(starts)
    assert starts[-1] > 2
