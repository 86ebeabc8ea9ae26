"""One Spark application for each test process, Spark's own connector beside klamm, two kinds of broker."""

from __future__ import annotations

import itertools
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import klamm.spark
from interop.kafka_tools import ApacheKafka, cache_dir
from interop.processes import ROOT, KlammProcess
from klamm.spark.setup import connections
from spark.batches import MODES, World
from spark.clusters import Cluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONNECTOR = "4.2.0"
# Tests wait for transactions to expire: brokers look for such ones every 10 s by default.
BROKER = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "200"}


def connector_jars() -> list[Path]:
    """Spark's own Kafka connector, fetched once."""
    subprocess.run([ROOT / "tools" / "fetch_spark_connector.sh", str(cache_dir())], check=True)
    return sorted((cache_dir() / f"spark-kafka-{CONNECTOR}" / "libs").glob("*.jar"))


def avro_jars() -> list[Path]:
    """Spark's own Avro package, fetched once."""
    subprocess.run([ROOT / "tools" / "fetch_spark_avro.sh", str(cache_dir())], check=True)
    return sorted((cache_dir() / "spark-avro-4.1.1" / "libs").glob("*.jar"))


@pytest.fixture(scope="session", autouse=True)
def worker_path() -> None:
    """Workers import the probe from here. Their path is that of the JVM, whichever test starts it."""
    folders = [str(ROOT / "tests"), *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(folders)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The one application. Its log is quiet: what it has to say is in the exceptions."""
    started = klamm.spark.session(
        "klamm-tests",
        master="local[2]",
        quick=True,
        log_level="OFF",
        conf={
            "spark.jars": ",".join(map(str, [*connector_jars(), *avro_jars()])),
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
        },
    )
    yield started
    started.stop()


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Apache Kafka; `KLAMM_SPARK_KAFKA=host:port` takes one that runs already."""
    running = os.environ.get("KLAMM_SPARK_KAFKA")
    if running:
        with Cluster("kafka", running) as cluster:
            yield cluster
        return
    with (
        ApacheKafka(
            tmp_path_factory.mktemp("kafka"), settings=BROKER, flags=("-Xmx512m", "-XX:TieredStopAtLevel=1")
        ) as broker,
        Cluster("kafka", broker.bootstrap) as cluster,
    ):
        yield cluster


@pytest.fixture(scope="session")
def klamm_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A klamm broker in a process of its own."""
    folder = tmp_path_factory.mktemp("klamm")
    broker = KlammProcess(folder / "data", stderr_path=folder / "broker.log", settings=BROKER)
    with Cluster("klamm", broker.bootstrap) as cluster:
        yield cluster
    broker.close()


@pytest.fixture(params=["klamm", "kafka"])
def cluster(request: pytest.FixtureRequest) -> Cluster:
    """Each kind of broker in turn."""
    name = {"klamm": "klamm_cluster", "kafka": "kafka"}[request.param]
    found: Cluster = request.getfixturevalue(name)
    return found


@pytest.fixture(params=MODES)
def world(request: pytest.FixtureRequest, cluster: Cluster, topic: str, tmp_path: Path) -> Iterator[World]:
    """The sink without Spark, in each protocol."""
    yield World(cluster, topic, tmp_path / "checkpoint", request.param)
    connections.close_all()


@pytest.fixture
def shared_world(cluster: Cluster, topic: str, tmp_path: Path) -> Iterator[World]:
    """The sink without Spark: one transaction for each batch."""
    yield World(cluster, topic, tmp_path / "checkpoint", "shared")
    connections.close_all()


@pytest.fixture
def slot_world(cluster: Cluster, topic: str, tmp_path: Path) -> Iterator[World]:
    """The sink without Spark: one transaction for each task."""
    yield World(cluster, topic, tmp_path / "checkpoint", "per-task")
    connections.close_all()


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    """A folder for a query's progress, new for each test."""
    return str(tmp_path / "checkpoint")


@pytest.fixture(scope="session")
def names() -> Iterator[str]:
    """Topic names that no other test, and no earlier run, has used."""
    first = int.from_bytes(os.urandom(4)) << 16
    return (f"sp-{number:x}" for number in itertools.count(first))


@pytest.fixture
def topic(names: Iterator[str]) -> str:
    """A topic name that is free."""
    return next(names)
