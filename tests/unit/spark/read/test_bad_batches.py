"""What goes wrong under a query: a batch that the disk has damaged, a broker that goes away."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import klamm
from klamm.errors import KlammError, ProtocolError
from klamm.spark.setup import connections
from unit.spark.world import Query, World, rows_of


def test_a_damaged_batch_is_an_error_that_names_its_place(tmp_path: Path) -> None:
    with klamm.Broker(tmp_path) as broker:
        world = World(broker.bootstrap)
        topic = world.topic()
        for value in (b"first", b"second", b"third"):
            world.fill(topic, [value])
        world.close()
    (log,) = tmp_path.rglob(f"{topic}-0/*.log")
    data = log.read_bytes()
    log.write_bytes(data.replace(b"second", b"sEcond"))
    with klamm.Broker(tmp_path) as broker:
        world = World(broker.bootstrap)
        with pytest.raises(
            ProtocolError, match=f"reading {topic}-0 failed: checksum mismatch in the batch at offset 1"
        ):
            world.rows(subscribe=topic)
        # Spark prints every frame of an error, and the message last.
        with pytest.raises(ProtocolError) as failed:
            world.rows(subscribe=topic)
        assert [frame.name for frame in failed.traceback][-2:] == ["rows_of", "rows"]
        assert failed.value.__suppress_context__
        stream = Query(world.stream(subscribe=topic, startingOffsets="earliest"))
        with pytest.raises(
            ProtocolError, match=f"reading {topic}-0 failed: checksum mismatch in the batch at offset 1"
        ):
            stream.next()
        # What is asked for without a look at checksums is what the disk gives.
        values = world.values(subscribe=topic, kafka_check_crcs="false")
        assert values == [b"first", b"sEcond", b"third"]
        world.close()
        connections.close_all()


IMPATIENT = {
    "kafka_default_api_timeout_ms": "150",
    "kafka_request_timeout_ms": "100",
    "kafkaConsumer_pollTimeoutMs": "150",
}


def test_a_broker_that_goes_away_is_named_by_batches_and_by_streams() -> None:
    with klamm.Broker() as broker:
        world = World(broker.bootstrap)
        topic = world.topic()
        world.fill(topic, [b"1", b"2"])
        tasks = world.batch(subscribe=topic).partitions()
        batch = world.batch(subscribe=topic, **IMPATIENT)
        stream = Query(world.stream(subscribe=topic, **IMPATIENT), {topic: {"0": 1}})
        world.close()
    for ask in (lambda: rows_of(batch, tasks), batch.partitions, stream.next):
        with pytest.raises(KlammError, match=re.escape(broker.bootstrap)):
            ask()
    stream.reader.stop()
    connections.close_all()


def test_a_broker_that_is_away_when_a_stream_starts_is_named() -> None:
    reader = World("127.0.0.1:1").stream(subscribe="t", **IMPATIENT)
    with pytest.raises(KlammError, match=r"127\.0\.0\.1:1"):
        reader.initialOffset()
    reader.stop()
