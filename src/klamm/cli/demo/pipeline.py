"""The demo's Spark job, and its results from its topic and its group."""

from __future__ import annotations

import json
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from klamm.cli.demo.orders import TOPIC
from klamm.cli.demo.processes import DemoBroker, DemoSpark
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
    """What Spark wrote, the lag of its group, and the report."""

    rows: list[Revenue]
    lag: int
    repeated: int  # orders that are in the topic more than once
    report: Path

    @property
    def orders(self) -> int:
        return sum(row.orders for row in self.rows)

    @property
    def revenue_cents(self) -> int:
        return sum(row.cents for row in self.rows)


def start(broker: DemoBroker, folder: Path) -> DemoSpark:
    """Start Spark, which takes some ten seconds; it waits for `run`."""
    checkpoint = str(folder / "checkpoint")
    return DemoSpark(folder, broker.bootstrap, TOPIC, REVENUE, SPARK_GROUP, checkpoint, str(_report()))


def _report() -> Path:
    return Path(tempfile.gettempdir()) / "klamm-audit-of-the-demo.html"


def run(job: DemoSpark, broker: DemoBroker, screen: Screen) -> PipelineResult:
    """Run the streaming job over all orders; kill the broker in its middle; read what it wrote."""
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.create_topics([NewTopic(REVENUE, 2)]).unwrap()
        job.begin()
        with _ticking(screen, job):
            job.has_written.wait()
            screen.say("kill -9 for the broker, in the middle of the job; it starts again at once")
            broker.kill_and_restart()
            job.wait()
        rows, repeated = _written(broker.bootstrap, _ends(admin, REVENUE))
        return PipelineResult(rows, _lag(admin), repeated, _report())


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


def _written(bootstrap: str, ends: dict[TopicPartition, int]) -> tuple[list[Revenue], int]:
    """The revenue of each product and minute from the committed records, and how many orders are repeated."""
    seen: Counter[int] = Counter()
    rows: dict[tuple[str, str], Revenue] = {}
    settings = {
        "bootstrap.servers": bootstrap,
        "auto.offset.reset": "earliest",
        "isolation.level": "read_committed",
    }
    with Consumer(settings) as consumer:
        consumer.assign(list(ends))
        while any(consumer.position(key) < end for key, end in ends.items()):
            for record in consumer.poll(0.2):
                order = json.loads(record.value)
                seen[order["order"]] += 1
                place = order["minute"], order["product"]
                old = rows.get(place, Revenue(*place, 0, 0))
                rows[place] = old._replace(orders=old.orders + 1, cents=old.cents + order["cents"])
    return sorted(rows.values()), sum(seen.values()) - len(seen)


def _ends(admin: Admin, topic: str) -> dict[TopicPartition, int]:
    described = admin.describe_topics([topic]).unwrap()[topic]
    keys = [TopicPartition(topic, item.partition) for item in described.partitions]
    return {
        key: found.offset for key, found in admin.list_offsets(dict.fromkeys(keys, LATEST)).unwrap().items()
    }


def _lag(admin: Admin) -> int:
    committed = admin.list_group_offsets(SPARK_GROUP, require_stable=True)
    ends = _ends(admin, TOPIC)
    return sum(end - (committed[key].offset if key in committed else 0) for key, end in ends.items())
