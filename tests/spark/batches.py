"""The exactly-once sink without Spark: a driver, its tasks and its commit, called by hand.

Every process of a query is a `Driver` with connections of its own. What became visible is read by librdkafka.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from klamm.errors import KlammError
from klamm.spark.options.options import SinkOptions, sink_options
from klamm.spark.write import per_task, shared
from klamm.spark.write.decisions import BatchKey
from klamm.spark.write.steps import Task
from klamm.spark.write.writers import protocol_of
from spark.clusters import Cluster
from spark.readers import committed_values

PARTITIONS: Final = 4
MODES: Final = ("shared", "per-task")
_numbers: Final[Iterator[int]] = itertools.count()


class KilledError(BaseException):
    """The process ends here: nothing that follows is done."""


def killed_at(place: str) -> Callable[[str], None]:
    def at(reached: str) -> None:
        if reached == place:
            raise KilledError(place)

    return at


def failing_at(place: str) -> Callable[[str], None]:
    def at(reached: str) -> None:
        if reached == place:
            raise KlammError(f"made to fail at {place}")

    return at


def are_skipped(messages: Sequence[Any]) -> bool:
    """Whether every task found its batch written."""
    return all(isinstance(message, shared.Skipped | per_task.SlotSkipped) for message in messages)


class World:
    """A topic to write to, a topic that rows come from, and a checkpoint."""

    def __init__(self, cluster: Cluster, topic: str, checkpoint: Path, mode: str = "shared") -> None:
        self.cluster = cluster
        self.mode = mode
        self.topic = cluster.create(topic, PARTITIONS)
        self.checkpoint = checkpoint
        (checkpoint / "offsets").mkdir(parents=True)

    @cached_property
    def source(self) -> str:
        return self.cluster.create(f"{self.topic}-source", 2)

    @property
    def transactional_id(self) -> str:
        return f"{self.topic}-sink"

    def rows(self, batch_id: int, number: int, tasks: int) -> list[pa.RecordBatch]:
        """The rows of one task: each output partition belongs to one task."""
        mine = [partition for partition in range(PARTITIONS) if partition % tasks == number]
        values = [f"{batch_id}-{partition}-{row}" for partition in mine for row in range(3)]
        numbers = [partition for partition in mine for _ in range(3)]
        return [pa.record_batch({"value": values, "partition": pa.array(numbers, pa.int32())})]

    def expected(self, *batches: int) -> Counter[str]:
        return Counter(
            value
            for batch_id in batches
            for rows in self.rows(batch_id, 0, 1)
            for value in rows.column("value").to_pylist()
        )

    def log_offsets(self, batch_id: int, *ends: int) -> None:
        """What Spark writes before it runs a batch."""
        offsets = {self.source: {str(number): end for number, end in enumerate(ends)}}
        text = f"v1\n{json.dumps({'batchWatermarkMs': 0})}\n{json.dumps(offsets)}"
        (self.checkpoint / "offsets" / str(batch_id)).write_text(text)

    def committed(self) -> Counter[str]:
        """What a reader of committed records sees, once nothing is open."""
        self.cluster.until_stable(self.topic)
        return self.seen()

    def seen(self) -> Counter[str]:
        """What a reader of committed records sees now, by librdkafka."""
        found = committed_values(self.cluster.bootstrap, self.topic, PARTITIONS)
        return Counter({value.decode(): count for value, count in found.items()})


class Driver:
    """One run of a query: plans batches, runs their tasks, commits, as Spark would have it."""

    def __init__(self, world: World, *, query: str = "q1", **options: str) -> None:
        self.world = world
        self.query = query
        self.options: SinkOptions = sink_options(
            {
                "kafka.bootstrap.servers": world.cluster.bootstrap,
                "kafka.client.id": f"driver-{next(_numbers)}",  # connections of its own
                "topic": world.topic,
                "delivery": "exactly-once",
                "txn.mode": world.mode,
                "transactionalId": world.transactional_id,
                "checkpointLocation": str(world.checkpoint),
                **options,
            }
        )
        self.protocol = protocol_of(self.options)

    def plan(self) -> Any:
        return self.protocol.plan(self.options)

    def write(
        self,
        plan: Any,
        batch_id: int,
        number: int,
        rows: Iterable[Any],
        *,
        attempt: int = 0,
        folder: Path | None = None,
    ) -> Any:
        task = Task(BatchKey(self.query, batch_id), number, attempt, folder)
        return self.protocol.write(self.options, plan, task, iter(rows))

    def task(self, plan: Any, batch_id: int, number: int, tasks: int, *, attempt: int = 0) -> Any:
        return self.write(plan, batch_id, number, self.world.rows(batch_id, number, tasks), attempt=attempt)

    def tasks(self, plan: Any, batch_id: int, *, tasks: int = 2) -> list[Any]:
        return [self.task(plan, batch_id, number, tasks) for number in range(tasks)]

    def commit(self, messages: Sequence[Any], at: Callable[[str], None] = lambda _place: None) -> None:
        self.protocol.commit(self.options, messages, at=at)

    def abort(self, messages: Sequence[Any]) -> None:
        self.protocol.abort(self.options, messages)

    def batch(self, batch_id: int, *, tasks: int = 2) -> list[Any]:
        """A whole micro-batch without any trouble."""
        messages = self.tasks(self.plan(), batch_id, tasks=tasks)
        self.commit(messages)
        return messages
