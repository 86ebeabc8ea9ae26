"""Queries with failOnDataLoss=false beside Spark's own connector: what was lost is skipped, run after run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from klamm.testing import wait_until
from spark.clusters import Cluster
from spark.test_parity import OFFICIAL, OURS, PATIENCE, outcome, streamed

Run = Callable[[], Any]
Story = Callable[[Cluster, str, Run], list[Any]]


def numbered(count: int, mark: str = "") -> list[bytes]:
    return [f"{mark}{number}".encode() for number in range(count)]


def seen(run: Run) -> Any:
    """Values and the offset log of one run, or that it failed."""
    found, error = outcome(run)
    return "failed" if error is not None else found


def replaced(cluster: Cluster, topic: str, count: int) -> None:
    deleted(cluster, topic)
    cluster.create(topic)
    cluster.fill(topic, numbered(count, "new"), timestamps_ms=[1_700_000_000_000] * count)


def deleted(cluster: Cluster, topic: str) -> None:
    cluster.admin.delete_topics([topic]).unwrap()
    wait_until(lambda: topic not in cluster.admin.list_topics(), describe=lambda: f"{topic} is still there")


def add(cluster: Cluster, topic: str, count: int) -> None:
    cluster.fill(topic, numbered(count, "more"), timestamps_ms=[1_700_000_000_000] * count)


def made_anew_and_shorter(cluster: Cluster, topic: str, run: Run) -> list[Any]:
    found = [seen(run)]
    replaced(cluster, topic, 3)
    found.append(seen(run))
    add(cluster, topic, 2)
    return [*found, seen(run)]


def made_anew_and_longer(cluster: Cluster, topic: str, run: Run) -> list[Any]:
    found = [seen(run)]
    replaced(cluster, topic, 15)
    return [*found, seen(run)]


def gone_and_back(cluster: Cluster, topic: str, run: Run) -> list[Any]:
    found = [seen(run)]
    deleted(cluster, topic)
    found.append(seen(run))
    cluster.create(topic)
    add(cluster, topic, 4)
    found.append(seen(run))
    add(cluster, topic, 1)
    return [*found, seen(run)]


def added_to(cluster: Cluster, topic: str, run: Run) -> list[Any]:
    found = [seen(run)]
    add(cluster, topic, 3)
    return [*found, seen(run)]


STORIES: dict[str, tuple[Story, dict[str, str]]] = {
    "a start beyond the end": (added_to, {"startingOffsets": '{"$topic": {"0": 1000}}'}),
    "a topic made anew and shorter": (made_anew_and_shorter, {"startingOffsets": "earliest"}),
    "a topic made anew and longer": (made_anew_and_longer, {"startingOffsets": "earliest"}),
}


def options_for(cluster: Cluster, topic: str) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": cluster.bootstrap,
        **PATIENCE,
        "subscribe": topic,
        "failOnDataLoss": "false",
    }


@pytest.mark.parametrize("story", STORIES)
def test_a_lossy_query_skips_what_the_official_one_skips(
    spark: SparkSession, cluster: Cluster, names: Iterator[str], tmp_path: Path, story: str
) -> None:
    play, options = STORIES[story]
    found: dict[str, str] = {}
    for source in (OFFICIAL, OURS):
        topic = cluster.create(next(names))
        cluster.fill(topic, numbered(10), timestamps_ms=[1_700_000_000_000] * 10)
        given = options_for(cluster, topic) | {
            name: value.replace("$topic", topic) for name, value in options.items()
        }
        run = partial(streamed, spark, given, tmp_path, source)
        found[source] = str(play(cluster, topic, run)).replace(topic, "T")
    assert found[OURS] == found[OFFICIAL]


def test_a_lossy_query_outlives_its_topic(
    spark: SparkSession, klamm_cluster: Cluster, names: Iterator[str], tmp_path: Path
) -> None:
    # The official connector fails here; docs/spark.md lists the difference.
    topic = klamm_cluster.create(next(names))
    add(klamm_cluster, topic, 10)
    given = options_for(klamm_cluster, topic) | {"startingOffsets": "earliest"}
    run = partial(streamed, spark, given, tmp_path, OURS)
    assert [len(rows) for rows, _ in gone_and_back(klamm_cluster, topic, run)] == [10, 0, 4, 1]
