"""One class for an offset with metadata, however it is written, and wherever it is passed."""

from __future__ import annotations

from typing import Any

import pytest

import klamm
from klamm.client.committed import Committed
from klamm.client.consumer.arguments import committable
from klamm.compat import aiokafka, kafka

PLACE = klamm.TopicPartition("t", 0)


@pytest.mark.parametrize(
    "value",
    [
        (3, "note"),
        (3, "note", -1),
        (3, -1, "note"),
        klamm.OffsetAndMetadata(3, "note"),
        klamm.OffsetAndMetadata(3, metadata="note"),
        klamm.CommittedOffset(3, -1, "note"),
        kafka.OffsetAndMetadata(3, "note", -1),
        aiokafka.OffsetAndMetadata(3, "note"),
    ],
)
def test_metadata_is_metadata_in_every_order(value: Any) -> None:
    assert committable({PLACE: value}) == {PLACE: Committed(3, -1, "note")}


@pytest.mark.parametrize("value", [(3, None), (3, -1, 5), (3, "a", "b"), klamm.OffsetAndMetadata(3, b"x")])  # type: ignore[arg-type]
def test_other_types_are_refused(value: Any) -> None:
    with pytest.raises(TypeError, match="metadata is text"):
        committable({PLACE: value})


def test_an_admin_gives_what_a_consumer_takes() -> None:
    with klamm.Broker() as broker, klamm.Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.create_topics(["t"])
        admin.alter_group_offsets("g", {PLACE: klamm.OffsetAndMetadata(0, "note")})
        found = admin.list_group_offsets("g")
        assert found == {PLACE: klamm.OffsetAndMetadata(0, "note")}
        with klamm.Consumer("t", bootstrap_servers=broker.bootstrap, group_id="g") as consumer:
            assert consumer.committed([PLACE]) == found
