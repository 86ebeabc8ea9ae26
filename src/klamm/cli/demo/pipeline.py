"""The demo's Spark job, and its results from its topic and its group."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from klamm.cli.demo.orders import TOPIC
from klamm.cli.demo.processes import DemoSpark
from klamm.cli.demo.screen import Screen
from klamm.client.admin.admin import Admin
from klamm.client.admin.model import NewTopic
from klamm.client.admin.offsets import LATEST
from klamm.client.consumer.consumer import Consumer
from klamm.protocol.types import TopicPartition

SPARK_GROUP: Final = "revenue-job"
REVENUE: Final = "revenue"
TICK_S: Final = 5.0


class Revenue(NamedTuple):
    """The revenue of one product in one minute."""

    minute: str
    product: str
    orders: int
    cents: int


@dataclass(frozen=True, slots=True)
class PipelineResult:
    """What Spark counted, and the lag of its group."""

    rows: list[Revenue]
    lag: int

    @property
    def orders(self) -> int:
        return sum(row.orders for row in self.rows)

    @property
    def revenue_cents(self) -> int:
        return sum(row.cents for row in self.rows)


def run(bootstrap: str, folder: Path, screen: Screen) -> PipelineResult:
    """Run the streaming job over all orders; read what it wrote."""
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic(REVENUE, 2)]).unwrap()
        job = DemoSpark(folder, bootstrap, TOPIC, REVENUE, SPARK_GROUP, str(folder / "checkpoint"))
        try:
            with _ticking(screen, job):
                job.wait()
        finally:
            job.stop()
        return PipelineResult(_written(bootstrap, _ends(admin, REVENUE)), _lag(admin))


@contextmanager
def _ticking(screen: Screen, job: DemoSpark) -> Iterator[None]:
    """Print progress every few seconds."""
    is_done = threading.Event()
    started = time.monotonic()

    def tick() -> None:
        while not is_done.wait(TICK_S):
            screen.still(f"{time.monotonic() - started:.0f} s: {job.at}")

    ticker = threading.Thread(target=tick, daemon=True)
    ticker.start()
    try:
        yield
    finally:
        is_done.set()
        ticker.join()


def _written(bootstrap: str, ends: dict[TopicPartition, int]) -> list[Revenue]:
    """The last value for each product and minute, as any consumer reads it."""
    rows: dict[tuple[str, str], Revenue] = {}
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign(list(ends))
        while any(consumer.position(key) < end for key, end in ends.items()):
            for record in consumer.poll(0.2):
                row = Revenue(**json.loads(record.value))
                rows[row.minute, row.product] = row
    return sorted(rows.values())


def _ends(admin: Admin, topic: str) -> dict[TopicPartition, int]:
    described = admin.describe_topics([topic]).unwrap()[topic]
    keys = [TopicPartition(topic, item.partition) for item in described.partitions]
    return {
        key: found.offset for key, found in admin.list_offsets(dict.fromkeys(keys, LATEST)).unwrap().items()
    }


def _lag(admin: Admin) -> int:
    committed = admin.list_group_offsets(SPARK_GROUP)
    ends = _ends(admin, TOPIC)
    return sum(end - (committed[key].offset if key in committed else 0) for key, end in ends.items())
