"""kill -9 at random moments under load: nothing acknowledged is lost, nothing comes twice."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path

import pytest

from faults.load import Load
from interop.kafka_tools import run_kafka_tool

KILLS = int(os.environ.get("KLAMM_KILLS", "300"))
LANES = 2  # as many brokers at a time as a small machine has cores
FILES_AT_ONCE = 500
FAULTS_IN_FILES = ("Mismatches in", "not found in", "isvalid: false", "Exception")


def survive(load: Load, kills: int) -> None:
    """Kill and restart so often, checking every promise after each restart."""
    broker = load.start()
    try:
        while load.kills < kills:
            load.run_until_killed(broker)
            broker = load.start()
            load.check(broker, from_start=load.kills == kills)
        assert broker.stop() == 0
    finally:
        broker.kill()


@pytest.mark.timeout(1800)
def test_nothing_acknowledged_is_lost_whenever_the_broker_is_killed(tmp_path: Path) -> None:
    loads = []
    for lane in range(LANES):
        folder = tmp_path / f"lane-{lane}"
        folder.mkdir()
        loads.append(Load(folder, seed=lane))
    with ThreadPoolExecutor(LANES) as lanes:
        list(lanes.map(lambda load: survive(load, KILLS // LANES), loads))
    assert sum(load.kills for load in loads) >= KILLS // LANES * LANES
    assert all(load.batches > load.kills for load in loads), "every kill met a broker at work"
    for load in loads:
        check_with_kafkas_dump_tool(load.folder / "data")


def check_with_kafkas_dump_tool(data_dir: Path) -> None:
    """Kafka's own tool reads every file that is left, down to each record and index entry."""
    files = sorted(
        path
        for pattern in ("*/*.log", "*/*.index", "*/*.timeindex", "*/*.snapshot")
        for path in data_dir.glob(pattern)
    )
    assert files
    dump = "org.apache.kafka.tools.DumpLogSegments"
    # One argument of a command has a limit of 128 KiB.
    parts = [files[start : start + FILES_AT_ONCE] for start in range(0, len(files), FILES_AT_ONCE)]
    modes = ("--deep-iteration", "--index-sanity-check", "--verify-index-only")
    for mode, part in product(modes, parts):
        done = run_kafka_tool(dump, mode, "--files", ",".join(map(str, part)))
        said = done.stdout + done.stderr
        faults = [line for line in said.splitlines() if any(word in line for word in FAULTS_IN_FILES)]
        assert not faults, faults[:5]
