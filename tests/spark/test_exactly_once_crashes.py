"""kill -9 of a real Spark at every step of an exactly-once batch: nothing is lost, nothing is there twice."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from interop.processes import ROOT, inherited_environment
from klamm.protocol.types import TopicPartition
from spark.clusters import Cluster
from spark.crashing import PARTITIONS, PLACES, ROWS, VICTIMS, start
from spark.readers import committed_values

# The most telling ones; KLAMM_ALL_CRASHES=1 (`make test-crash`) runs them all.
TELLING = (
    *(("jvm", place) for place in PLACES),
    ("python", "task has written"),
    ("python", "before EndTxn"),
    ("python", "after EndTxn"),
)
EVERY = tuple((victim, place) for victim in VICTIMS for place in PLACES)
CASES = EVERY if os.environ.get("KLAMM_ALL_CRASHES") == "1" else TELLING


@pytest.mark.parametrize(("victim", "place"), CASES)
def test_a_killed_query_writes_every_row_once(
    spark: SparkSession, kafka: Cluster, names: Iterator[str], tmp_path: Path, victim: str, place: str
) -> None:
    origin = kafka.create(next(names), 2)
    target = kafka.create(next(names), PARTITIONS)
    values = [b"%d" % number for number in range(ROWS)]
    keys = [b"k%d" % (number % 17) for number in range(ROWS)]
    for partition in range(2):
        kafka.fill(origin, values[partition::2], keys=keys[partition::2], partition=partition)
    checkpoint = str(tmp_path / "checkpoint")
    with (tmp_path / "job.log").open("wb") as log:
        subprocess.run(
            [sys.executable, "-m", "spark.crashing", kafka.bootstrap, origin, target, checkpoint],
            env={
                **inherited_environment(),
                "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT / 'tests'}",
                "CRASH_FOLDER": str(tmp_path),
                "CRASH_AT": place,
                "CRASH_VICTIM": victim,
            },
            stdout=log,
            stderr=subprocess.STDOUT,
            check=False,
            timeout=500,
        )
    assert (tmp_path / "struck").exists(), (tmp_path / "job.log").read_text(errors="replace")[-3000:]
    # The query again, from its checkpoint, without the blow.
    query = start(spark, "klamm", kafka.bootstrap, origin, target, checkpoint)
    assert query.awaitTermination(500)
    kafka.until_stable(target)
    assert committed_values(kafka.bootstrap, target, PARTITIONS) == Counter(values)
    offsets = kafka.admin.list_group_offsets(f"{target}-group", require_stable=True)
    ends = {TopicPartition(origin, number): end for number, end in kafka.ends(origin).items()}
    assert {key: item.offset for key, item in offsets.items()} == ends
