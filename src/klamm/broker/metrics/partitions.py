"""Metrics of the partitions that a broker leads; each sample is computed when it is printed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from klamm.broker.cluster.leader_events import LeaderEventCause
from klamm.broker.metrics.exposition import PAUSE, Family, Sample, labels
from klamm.protocol.errors import ErrorCode
from klamm.storage.log import LogError

if TYPE_CHECKING:
    from klamm.broker.partitions.registry import Partition
    from klamm.broker.services import Services
    from klamm.storage.log import ProducerStatus

LATE_BUFFER_MS: Final = 300_000  # added to the longest timeout, as in Kafka, before a transaction is late
_MANAGER: Final = "kafka_server_replicamanager_"
_BY_PARTITION: Final[tuple[tuple[str, str, Callable[[Partition], float]], ...]] = (
    ("kafka_log_log_size", "bytes of a partition's log", lambda each: each.retention.size_bytes),
    ("kafka_log_log_logstartoffset", "the first offset", lambda each: each.log.log_start_offset),
    ("kafka_log_log_logendoffset", "the next offset", lambda each: each.log.log_end_offset),
    (
        "kafka_log_log_numlogsegments",
        "segments of a partition's log",
        lambda each: each.retention.segment_count,
    ),
    (
        "kafka_cluster_partition_laststableoffsetlag",
        "offsets in open transactions",
        lambda each: each.log.high_watermark - each.log.last_stable_offset,
    ),
    # As kafka_exporter has them.
    (
        "kafka_topic_partition_current_offset",
        "the offset that the next record will have for readers",
        lambda each: each.log.high_watermark,
    ),
    ("kafka_topic_partition_oldest_offset", "the first offset", lambda each: each.log.log_start_offset),
)


def partition_families(services: Services) -> Iterator[Family]:
    """The metrics of all partitions, and of each."""
    everyone = list(services.partitions)
    serving = [each for each in everyone if each.error_code is ErrorCode.none]
    for name, value, says in (
        ("leadercount", len(everyone), "partitions led here"),
        ("partitioncount", len(everyone), "partitions kept here"),
        ("offlinereplicacount", len(everyone) - len(serving), "logs that cannot serve"),
        ("underreplicatedpartitions", 0, "there are no replicas to be behind"),
        ("underminisrpartitioncount", 0, "there are no replicas to be missing"),
    ):
        yield Family(f"{_MANAGER}{name}", "gauge", says).add(value)
    if services.leader_events is not None:
        moves = services.leader_events.counts
        family = Family("klamm_leader_changes_total", "counter", "partitions gained from other brokers")
        for cause in LeaderEventCause:
            family.add(moves[cause], cause=cause.name.lower())
        yield family
    yield from _producers(services, serving)
    counts = Counter(each.topic for each in everyone)
    yield Family(
        "kafka_topic_partitions",
        "gauge",
        "partitions of a topic that are led here",
        (("", labels(topic=topic), count) for topic, count in counts.items()),
    )
    written: list[str] = []
    for name, says, figure in _BY_PARTITION:
        yield Family(name, "gauge", says, _figures(serving, written, figure))


def _figures(
    serving: Sequence[Partition], written: list[str], figure: Callable[[Partition], float]
) -> Iterator[Sample]:
    """One sample for each partition. The first call fills `written` with the labels for all."""
    for index, each in enumerate(serving):
        if index == len(written):
            written.append(labels(topic=each.topic, partition=str(each.partition)))
        try:
            yield "", written[index], figure(each)
        except LogError:
            yield PAUSE  # it has stopped serving since the page was begun


def _producers(services: Services, serving: Sequence[Partition]) -> Iterator[Family]:
    late: list[Sample] = []
    yield Family(
        f"{_MANAGER}produceridcount",
        "gauge",
        "producers whose sequences are kept",
        _known_producers(services, serving, late),
    )
    yield Family(
        f"{_MANAGER}partitionswithlatetransactionscount",
        "gauge",
        "partitions with a transaction that is open for longer than any may be",
        late,
    )


def _known_producers(
    services: Services, serving: Sequence[Partition], late: list[Sample]
) -> Iterator[Sample]:
    known = late_count = 0
    for each in serving:
        try:
            producers = each.transactions.producers()
        except LogError:
            continue
        known += len(producers)
        late_count += _has_late_transaction(services, producers)
        yield PAUSE
    late.append(("", "", late_count))
    yield "", "", known


def _has_late_transaction(services: Services, producers: Sequence[ProducerStatus]) -> bool:
    """Whether a transaction stays open that its coordinator should have ended: it may be hanging."""
    if not producers:
        return False
    allowed_ms = services.config.transaction_max_timeout_ms + LATE_BUFFER_MS
    before_ms = services.clock.timestamp_ms() - allowed_ms
    return any(
        each.current_txn_start_offset >= 0 and each.last_timestamp_ms < before_ms for each in producers
    )
