"""What a user runs on a cluster: `python -m spark.on_cluster MASTER QUERIES` reads, writes, and reports."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
from typing import Any

import klamm.spark
from spark.crashing import Copying


def main(master: str, queries: list[Copying]) -> dict[str, Any]:
    spark = klamm.spark.session(
        "on a cluster",
        master=master,
        quick=True,
        log_level="OFF",
        conf={
            "spark.executor.memory": "512m",
            "spark.executor.cores": "1",
            "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "spark.scheduler.minRegisteredResourcesRatio": "1.0",
            "spark.ui.enabled": "false",
        },
    )

    def place(_rows: Iterable[int]) -> Iterable[tuple[int, str]]:
        yield os.getppid(), klamm.__file__

    report: dict[str, Any] = {"rows": []}
    try:
        # A barrier: both tasks run at the same time, so on both executors.
        both = spark.sparkContext.parallelize(range(2), 2).barrier().mapPartitions(place).collect()
        report["executors"], report["klamm"] = zip(*both, strict=True)
        for query in queries:
            frame = (
                spark.read.format("klamm")
                .options(**{"kafka.bootstrap.servers": query.bootstrap, "subscribe": query.origin})
                .load()
            )
            report["rows"].append(frame.count())
        started = [query.start(spark) for query in queries]
        for each in started:
            each.awaitTermination()
    finally:
        spark.stop()
    return report


if __name__ == "__main__":
    asked = [Copying(**item) for item in json.loads(sys.argv[2])]
    sys.stdout.write(json.dumps(main(sys.argv[1], asked)) + "\n")
