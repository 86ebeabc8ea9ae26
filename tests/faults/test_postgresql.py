"""Brokers on PostgreSQL are killed and stopped, the database restarted: nothing acknowledged is lost.

For longer, and with other faults: KLAMM_CLUSTER_ROUNDS=20 KLAMM_CLUSTER_SEED=7.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Final

import pytest
from typer.testing import CliRunner

from faults.folder_cluster import Promises
from faults.postgresql_cluster import PARTITIONS, TOPIC, Faults, Numbers, Pairs, PostgresBrokers
from faults.test_kill import check_with_kafkas_dump_tool
from klamm.cli.dump import app as dump
from postgresql import PostgresServer

SEED: Final = int(os.environ.get("KLAMM_CLUSTER_SEED", "14"))
ROUNDS: Final = int(os.environ.get("KLAMM_CLUSTER_ROUNDS", "1"))

Start = Callable[[int], PostgresBrokers]


def test_one_broker_survives_its_own_death_and_restarts_of_the_database(
    start: Start, postgres: PostgresServer, tmp_path: Path
) -> None:
    cluster = start(1)
    load = Numbers(cluster.bootstrap)
    load.wait_for_more()
    # The broker is killed, and finds everything in the database.
    cluster.kill(1)
    cluster.start(1)
    load.wait_for_more()
    # The database is restarted, once in good order and once as by a crash: the broker comes back by itself.
    for how in (signal.SIGINT, signal.SIGQUIT):
        postgres.stop(how)
        postgres.start()
        load.wait_for_more()
    # A connection with a round under way is ended.
    postgres.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'klamm appends'"
    )
    load.wait_for_more()
    load.end()
    load.check()
    cluster.stop(1)
    # What is in the database can be written as Kafka's files.
    names = [f"{TOPIC}-{partition}" for partition in range(PARTITIONS)]
    exported = CliRunner().invoke(dump, ["--store", postgres.url, "--export", str(tmp_path / "logs"), *names])
    assert exported.exit_code == 0, exported.output
    check_with_kafkas_dump_tool(tmp_path / "logs")


@pytest.mark.timeout(300 + 300 * ROUNDS)
def test_three_brokers_are_killed_stopped_and_suspended_and_the_database_is_restarted(start: Start) -> None:
    # scenarios 29, 35, 36, 42, 49, 50, 55, 56
    cluster = start(3)
    random = Random(SEED)
    faults = Faults(cluster, random)
    numbers = Numbers(cluster.bootstrap)
    pairs = Pairs(cluster.bootstrap, Random(SEED))
    promises = Promises(cluster.bootstrap)
    numbers.wait_for_more()
    for _ in range(ROUNDS):
        faults.run(["kill", "stop", "pause", "suspend", "restart", "cut"])
        numbers.wait_for_more()
    for load in (numbers, pairs, promises):
        load.end()
    for load in (numbers, pairs, promises):
        load.check()
