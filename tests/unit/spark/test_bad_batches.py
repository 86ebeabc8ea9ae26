"""A batch that the disk has damaged: an error that names the place, and no rows made up."""

from __future__ import annotations

from pathlib import Path

import pytest

import klamm
from klamm.client.errors import ProtocolError
from klamm.spark import connections
from unit.spark.world import World


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
            ProtocolError, match=f"{topic}-0 cannot be read: the batch at offset 1 does not match"
        ):
            world.rows(subscribe=topic)
        # What is asked for without a look at checksums is what the disk gives.
        values = world.values(subscribe=topic, kafka_check_crcs="false")
        assert values == [b"first", b"sEcond", b"third"]
        world.close()
        connections.close_all()
