"""The demo's Spark job, and what its group shows of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from klamm.cli.demo.orders import TOPIC
from klamm.client.admin.face import Admin
from klamm.client.admin.offsets import LATEST
from klamm.protocol.types import TopicPartition

if TYPE_CHECKING:
    from klamm.spark.demo_job import Revenue

SPARK_GROUP: Final = "revenue"


@dataclass(frozen=True, slots=True)
class PipelineResult:
    """What Spark counted, and how far its group is behind."""

    rows: list[Revenue]
    lag: int

    @property
    def orders(self) -> int:
        return sum(row.orders for row in self.rows)

    @property
    def revenue_cents(self) -> int:
        return sum(row.cents for row in self.rows)


def run(bootstrap: str, folder: Path) -> PipelineResult:
    """Run the streaming job over everything there is."""
    from klamm.spark.demo_job import revenue_per_product  # noqa: PLC0415 - Spark is an extra

    checkpoint = str(folder / "checkpoint")
    rows = revenue_per_product(bootstrap, TOPIC, group=SPARK_GROUP, checkpoint=checkpoint)
    return PipelineResult(rows, _lag(bootstrap))


def _lag(bootstrap: str) -> int:
    with Admin(bootstrap_servers=bootstrap) as admin:
        committed = admin.list_group_offsets(SPARK_GROUP)
        topic = admin.describe_topics([TOPIC]).unwrap()[TOPIC]
        keys = [TopicPartition(TOPIC, item.partition) for item in topic.partitions]
        ends = admin.list_offsets(dict.fromkeys(keys, LATEST)).unwrap()
    return sum(ends[key].offset - (committed[key].offset if key in committed else 0) for key in keys)
