"""The same random traffic to three brokers of klamm and three of Apache Kafka, also to the wrong ones.

KLAMM_CLUSTER_DATA_SEEDS=100-199, KLAMM_CLUSTER_GROUP_SEEDS and KLAMM_CLUSTER_TXN_SEEDS run other seeds; so
does `python -m interop.differential --cluster`, by hand.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from faults.folder_cluster import FolderCluster
from interop.differential.cluster_runner import ClusterGroupHistory, ClusterHistory, ClusterTxnHistory
from interop.differential.cluster_sides import (
    INTERNAL_PARTITIONS,
    SeveralBrokers,
    SeveralGroupSide,
    SeveralTxnSide,
)
from interop.differential.test_differential import KAFKA_SETTINGS, SETTINGS, seeds, sides
from interop.kafka_tools import ApacheKafkaCluster

# Leaders move when they are asked to, and a topic is created with its replicas.
CLUSTER_SETTINGS = {
    "auto.create.topics.enable": "false",
    "auto.leader.rebalance.enable": "false",
    "offsets.topic.num.partitions": str(INTERNAL_PARTITIONS),
    "transaction.state.log.num.partitions": str(INTERNAL_PARTITIONS),
}
KLAMM_SETTINGS = {
    "klamm.record.validation": "records",
    "broker.heartbeat.interval.ms": "1000",
    "klamm.broker.serve.window.ms": "20000",
    "broker.session.timeout.ms": "60000",
}
STEPS = 100
GROUP_STEPS = 120
TXN_STEPS = 120


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    folder = tmp_path_factory.mktemp("differential-cluster")
    kafka = ApacheKafkaCluster(
        folder / "kafka",
        settings={**KAFKA_SETTINGS, **CLUSTER_SETTINGS},
        flags=("-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"),
    )
    with kafka:
        klamm = FolderCluster(folder, settings={**SETTINGS, **CLUSTER_SETTINGS, **KLAMM_SETTINGS})
        try:
            yield klamm.bootstrap, kafka.bootstrap
        finally:
            klamm.close()


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", seeds("KLAMM_CLUSTER_DATA_SEEDS", "0"))
def test_every_answer_of_three_brokers_is_kafkas(both: tuple[str, str], seed: int) -> None:
    with sides(SeveralBrokers, both) as (ours, kafkas):
        difference = next(ClusterHistory(ours, kafkas, seed).run(STEPS), None)
    assert difference is None, difference.at_length()


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", seeds("KLAMM_CLUSTER_GROUP_SEEDS", "0-1"))
def test_every_answer_of_three_brokers_about_groups_is_kafkas(both: tuple[str, str], seed: int) -> None:
    with sides(SeveralGroupSide, both) as (ours, kafkas):
        difference = next(ClusterGroupHistory(ours, kafkas, seed).run(GROUP_STEPS), None)
    assert difference is None, difference.at_length()


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", seeds("KLAMM_CLUSTER_TXN_SEEDS", "0-1"))
def test_every_answer_of_three_brokers_about_transactions_is_kafkas(both: tuple[str, str], seed: int) -> None:
    with sides(SeveralTxnSide, both) as (ours, kafkas):
        difference = next(ClusterTxnHistory(ours, kafkas, seed).run(TXN_STEPS), None)
    assert difference is None, difference.at_length()
