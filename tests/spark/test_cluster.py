"""A standalone Spark master with two workers: reading, and writing exactly once in both protocols."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

import klamm
from spark.clusters import Cluster
from spark.crash_cases import cases
from spark.standalone import Standalone

RUNS_ALL = os.environ.get("KLAMM_ALL_CRASHES") == "1"


@pytest.fixture(scope="module")
def standalone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    with Standalone(tmp_path_factory.mktemp("standalone")) as cluster:
        yield cluster


def test_two_workers_read_and_write_exactly_once(
    standalone: Standalone, klamm_cluster: Cluster, kafka: Cluster, names: Iterator[str], tmp_path: Path
) -> None:
    found = cases([klamm_cluster, kafka], names, tmp_path, "nowhere")
    if not RUNS_ALL:
        found = [found[0], found[3]]  # each kind of broker, each protocol
    queries = json.dumps([asdict(case.query) for case in found])
    said = standalone.run([sys.executable, "-m", "spark.on_cluster", standalone.master, queries])
    report = json.loads(said.splitlines()[-1])
    assert report["rows"] == [sum(case.cluster.ends(case.query.origin).values()) for case in found]
    assert len(set(report["executors"])) == 2, "one daemon of Python workers for each of two executors"
    assert set(report["klamm"]) == {klamm.__file__}
    for case in found:
        case.check()


def test_a_job_runs_on_a_cluster_by_its_master(
    standalone: Standalone, klamm_cluster: Cluster, names: Iterator[str], tmp_path: Path
) -> None:
    (case, _) = cases([klamm_cluster], names, tmp_path, "nowhere")
    query = case.query
    command = [sys.executable, "-m", "klamm.cli", "pipe", "--from", query.origin, "--to", query.target]
    named = ["--name", f"{query.target}-group", "--checkpoint", query.checkpoint, "-b", query.bootstrap]
    said = standalone.run([*command, *named, "--master", standalone.master, "--once", "--json"])
    batches = [json.loads(line) for line in said.splitlines()]
    assert sum(batch["rows"] for batch in batches) == sum(klamm_cluster.ends(query.origin).values())
    case.check()
