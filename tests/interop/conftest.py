"""A running broker, and every client library connected to it.

The broker is a real `klamm up` process; with KLAMM_INTEROP_BROKERS=3 there are three on one data folder.
KLAMM_INTEROP_BOOTSTRAP names another one instead, for instance an Apache Kafka, and KLAMM_INTEROP_DATA its
data folder: what fails there too is a fault of the test.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from faults.folder_cluster import FolderCluster
from interop.harness import ClientProcess
from interop.kafka_tools import ApacheKafka
from interop.own import Own
from interop.processes import KlammProcess

# Groups form at once, and a dead member is missed soon.
QUICK_GROUPS = {"group.initial.rebalance.delay.ms": "0", "group.min.session.timeout.ms": "100"}
# Of several brokers none is taken for dead on a busy machine.
LONG_LEASES = {
    "broker.heartbeat.interval.ms": "1000",
    "klamm.broker.serve.window.ms": "20000",
    "broker.session.timeout.ms": "60000",
}
# Fewer internal partitions: the first group and the first transaction do not wait for fifty logs.
QUICK_KAFKA = {
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "2",
    "share.coordinator.state.topic.num.partitions": "1",
}

ClientFactory = Callable[[str], ClientProcess]


@pytest.fixture(scope="session")
def klamm_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KlammProcess | FolderCluster]:
    """One klamm process for the whole session, or several, their data in a folder of their own."""
    folder = tmp_path_factory.mktemp("klamm")
    count = int(os.environ.get("KLAMM_INTEROP_BROKERS", "1"))
    if count > 1:
        brokers = FolderCluster(folder, count=count, settings={**LONG_LEASES, **QUICK_GROUPS})
        yield brokers
        brokers.close()
        return
    with KlammProcess(folder / "data", stderr_path=folder / "klamm.log", settings=QUICK_GROUPS) as broker:
        yield broker


@pytest.fixture(scope="session")
def lone_bootstrap(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the broker under test, or of one that is alone, if there are several."""
    if "," not in bootstrap:
        yield bootstrap
        return
    folder = tmp_path_factory.mktemp("lone")
    with KlammProcess(folder / "data", stderr_path=folder / "klamm.log", settings=QUICK_GROUPS) as broker:
        yield broker.bootstrap


@pytest.fixture(scope="session")
def shared_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    """One Apache Kafka for the whole session, started when the first test asks for it."""
    folder = tmp_path_factory.mktemp("apache-kafka")
    flags = ("-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
    with ApacheKafka(folder, settings=QUICK_KAFKA, flags=flags, has_detour=True) as kafka:
        yield kafka


@pytest.fixture(params=["klamm", "kafka"])
def cluster(request: pytest.FixtureRequest) -> str:
    """The address of klamm, then of Apache Kafka: what holds for our client holds with both."""
    broker: KlammProcess | FolderCluster | ApacheKafka = request.getfixturevalue(
        "klamm_broker" if request.param == "klamm" else "shared_kafka"
    )
    return broker.bootstrap


@pytest.fixture
def own(cluster: str) -> Iterator[Own]:
    """klamm's own clients of that cluster."""
    with Own(cluster) as own:
        yield own


@pytest.fixture(scope="session")
def bootstrap(request: pytest.FixtureRequest) -> str:
    """The address of the broker under test."""
    elsewhere = os.environ.get("KLAMM_INTEROP_BOOTSTRAP")
    if elsewhere is not None:
        return elsewhere
    broker: KlammProcess | FolderCluster = request.getfixturevalue("klamm_broker")
    return broker.bootstrap


@pytest.fixture(scope="session")
def data_dir(request: pytest.FixtureRequest) -> Path:
    """The folder with the segment files of the broker under test."""
    if "KLAMM_INTEROP_BOOTSTRAP" in os.environ:
        return Path(os.environ["KLAMM_INTEROP_DATA"])
    broker: KlammProcess | FolderCluster = request.getfixturevalue("klamm_broker")
    return broker.data_dir


@pytest.fixture(scope="session")
def client(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClientFactory]:
    """Clients by name; each library is started once and asked many times."""
    folder = tmp_path_factory.mktemp("clients")
    started: dict[str, ClientProcess] = {}

    def by_name(name: str) -> ClientProcess:
        if name not in started:
            started[name] = ClientProcess(name, bootstrap, stderr_path=folder / f"{name}.log")
        return started[name]

    yield by_name
    for process in started.values():
        process.close()


@pytest.fixture(scope="session")
def topic_numbers() -> Iterator[int]:
    """Numbers that no other test of this session, and no earlier session, has used."""
    return itertools.count(int.from_bytes(os.urandom(4)) << 16)


@pytest.fixture
def topic(topic_numbers: Iterator[int]) -> str:
    """A topic name that is free."""
    return f"t-{next(topic_numbers):x}"
