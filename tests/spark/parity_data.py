"""What the comparison with Spark's own connector reads: a few topics whose content is known."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from klamm.protocol.types import TopicPartition
from spark.clusters import Cluster

TIME_MS: Final = 1_700_000_000_000
TEN: Final = [b"%d" % number for number in range(10)]
TIMES: Final = [TIME_MS + number * 1000 for number in range(10)]


@dataclass(frozen=True, slots=True)
class Data:
    """The topics' names."""

    cluster: Cluster
    main: str  # three partitions: ten records, five, none
    full: str  # two partitions of ten, a second apart
    cut: str  # ten records of which the first four are gone
    odd: str  # nulls, empty bytes, headers
    packed: str  # one partition of a hundred, compressed by nobody, for splitting

    def fill_in(self, options: Mapping[str, Any]) -> dict[str, str]:
        """Options with topics for their names: `$main` in texts, tuples (topic, value) as JSON."""
        filled: dict[str, str] = {}
        for name, value in options.items():
            if isinstance(value, tuple):
                topic, content = value
                filled[name] = json.dumps({getattr(self, topic): content})
            else:
                text = str(value)
                for topic in ("main", "full", "cut", "odd", "packed"):
                    text = text.replace(f"${topic}", getattr(self, topic))
                filled[name] = text
        return filled


def make(cluster: Cluster, names: Iterator[str]) -> Data:
    """Create and fill the topics."""
    data = Data(cluster, *(f"{next(names)}-{kind}" for kind in ("main", "full", "cut", "odd", "packed")))
    cluster.create(data.main, 3)
    cluster.fill(data.main, TEN, partition=0, timestamps_ms=TIMES, keys=[b"k%s" % value for value in TEN])
    cluster.fill(data.main, TEN[:5], partition=1, timestamps_ms=TIMES[:5])
    cluster.create(data.full, 2)
    for partition in range(2):
        cluster.fill(data.full, TEN, partition=partition, timestamps_ms=TIMES)
    cluster.create(data.cut)
    cluster.fill(data.cut, TEN, timestamps_ms=TIMES)
    cluster.admin.delete_records({TopicPartition(data.cut, 0): 4}).unwrap()
    cluster.create(data.odd)
    cluster.fill(data.odd, [None, b""], timestamps_ms=TIMES[:2], keys=[None, b""])
    cluster.fill(data.odd, [b"x"], timestamps_ms=TIMES[:1], headers=[("a", b"1"), ("a", None), ("ä", b"")])
    cluster.create(data.packed)
    cluster.fill(data.packed, TEN * 10, timestamps_ms=TIMES * 10)
    return data
