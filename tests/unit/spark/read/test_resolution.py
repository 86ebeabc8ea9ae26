"""Where a query starts when a group says so, decided without a cluster."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pytest

from klamm.config import ConfigError
from klamm.protocol.types import TopicPartition
from klamm.spark.options.options import source_options
from klamm.spark.read.positions import EARLIEST, LATEST, Positions
from klamm.spark.read.resolution import starting_positions

BASE = {
    "kafka.bootstrap.servers": "x:1",
    "subscribe": "t",
    "startingOffsets": "group",
    "kafka.group.id": "g",
}
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Logs:
    """Two partitions from 3 to 100, and a group that has committed for one of them."""

    def offsets(self, wanted: Mapping[TopicPartition, int]) -> Positions:
        return {partition: {EARLIEST: 3, LATEST: 100}[place] for partition, place in wanted.items()}

    def committed(self, group_id: str, partitions: Collection[TopicPartition]) -> Positions:
        assert (group_id, set(partitions)) == ("g", {T0, T1})
        return {T0: 42, TopicPartition("other", 0): 7}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {T0: 42, T1: 3}),
        ({"groupMissing": "earliest"}, {T0: 42, T1: 3}),
        ({"groupMissing": "latest"}, {T0: 42, T1: 100}),
    ],
)
@pytest.mark.parametrize("is_streaming", [True, False])
def test_a_query_goes_on_where_its_group_stands(
    given: dict[str, str], expected: Positions, is_streaming: bool
) -> None:
    base = {
        "kafka.bootstrap.servers": "x:1",
        "subscribe": "t",
        "startingOffsets": "group",
        "kafka.group.id": "g",
    }
    options = source_options({**base, **given}, is_streaming=is_streaming)
    assert starting_positions(options, Logs(), [T0, T1]) == expected


def test_a_partition_without_a_commit_can_be_an_error() -> None:
    options = source_options({**BASE, "groupMissing": "error"}, is_streaming=True)
    with pytest.raises(ConfigError, match="group g has no committed offset for t-1"):
        starting_positions(options, Logs(), [T0, T1])
