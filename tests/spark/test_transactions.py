"""Records of transactions, as Kafka's own producer writes them: only what was committed is read."""

from __future__ import annotations

from typing import Any

import confluent_kafka
import pytest

from klamm.spark.source import KlammDataSource
from spark.clusters import Cluster


def read(cluster: Cluster, topic: str, **options: str) -> list[tuple[int, bytes]]:
    """Offsets and values, through the reader as a plain object."""
    source = KlammDataSource({"kafka.bootstrap.servers": cluster.bootstrap, "subscribe": topic, **options})
    reader = source.reader(source.schema())
    rows: list[dict[str, Any]] = []
    for task in reader.partitions():
        batches: Any = reader.read(task)
        for batch in batches:
            rows += batch.to_pylist()
    return [(row["offset"], row["value"]) for row in rows]


def transaction(cluster: Cluster, topic: str, values: list[bytes], *, commits: bool) -> None:
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": cluster.bootstrap, "transactional.id": f"{topic}-writer"}
    )
    producer.init_transactions(30)
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value, partition=0)
    producer.flush(30)
    if commits:
        producer.commit_transaction(30)
    else:
        producer.abort_transaction(30)
    # The producer is answered when the end is decided; its marker reaches the partition a little later.
    cluster.until_stable(topic)


@pytest.mark.parametrize("fetch_bytes", ["60", "1000000"])
def test_what_was_aborted_is_left_out_and_markers_are_no_rows(
    kafka: Cluster, topic: str, fetch_bytes: str
) -> None:
    kafka.create(topic)
    kafka.fill(topic, [b"plain"])
    transaction(kafka, topic, [b"aborted 1", b"aborted 2"], commits=False)
    transaction(kafka, topic, [b"committed 1", b"committed 2"], commits=True)
    small = {"kafka.max.partition.fetch.bytes": fetch_bytes}
    committed = read(kafka, topic, **small, **{"kafka.isolation.level": "read_committed"})
    assert committed == [(0, b"plain"), (4, b"committed 1"), (5, b"committed 2")]
    everything = read(kafka, topic, **small)
    assert [value for _, value in everything] == [
        b"plain",
        b"aborted 1",
        b"aborted 2",
        b"committed 1",
        b"committed 2",
    ]


def test_an_open_transaction_is_waited_for_by_nobody(kafka: Cluster, topic: str) -> None:
    kafka.create(topic)
    kafka.fill(topic, [b"before"])
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": kafka.bootstrap, "transactional.id": f"{topic}-writer"}
    )
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    producer.flush(30)
    kafka.fill(topic, [b"after"])
    # The end of what is stable is the end of the read, not something to wait for.
    assert read(kafka, topic, **{"kafka.isolation.level": "read_committed"}) == [(0, b"before")]
    assert [value for _, value in read(kafka, topic)] == [b"before", b"open", b"after"]
    producer.abort_transaction(30)
    kafka.until_stable(topic)
    committed = read(kafka, topic, **{"kafka.isolation.level": "read_committed"})
    assert [value for _, value in committed] == [b"before", b"after"]
