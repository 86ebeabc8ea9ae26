"""Queries that copy one topic to another, for each protocol and kind of broker, and their checks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from klamm.protocol.types import TopicPartition
from spark.batches import MODES
from spark.clusters import Cluster
from spark.crashing import PARTITIONS, ROWS, Copying, Stop
from spark.readers import committed_values

VALUES: Final = [b"%d" % number for number in range(ROWS)]
KEYS: Final = [b"k%d" % (number % 17) for number in range(ROWS)]


@dataclass(frozen=True, slots=True)
class Case:
    """One query that will meet a crash."""

    cluster: Cluster
    query: Copying
    stop: Stop

    def check(self) -> None:
        """Nothing is lost, nothing is there twice, and the source's offsets say the same."""
        cluster, query = self.cluster, self.query
        cluster.until_stable(query.target)
        assert committed_values(cluster.bootstrap, query.target, PARTITIONS) == Counter(VALUES), self.stop
        offsets = cluster.admin.list_group_offsets(f"{query.target}-group", require_stable=True)
        ends = {
            TopicPartition(query.origin, number): end for number, end in cluster.ends(query.origin).items()
        }
        assert {key: item.offset for key, item in offsets.items()} == ends


def cases(
    clusters: Sequence[Cluster], names: Iterator[str], folder: Path, place: str, *, is_suicide: bool = False
) -> list[Case]:
    """A query for each cluster and protocol that has such a place."""
    found = []
    for cluster in clusters:
        for mode in MODES:
            if (mode, place) == ("shared", "one slot committed"):
                continue
            origin, target = cluster.create(next(names), 2), cluster.create(next(names), PARTITIONS)
            for partition in range(2):
                cluster.fill(origin, VALUES[partition::2], keys=KEYS[partition::2], partition=partition)
            name = f"{cluster.kind}-{mode}"
            query = Copying(cluster.bootstrap, origin, target, str(folder / f"checkpoint-{name}"), mode)
            found.append(Case(cluster, query, Stop(str(folder), name, place, is_suicide)))
    return found
