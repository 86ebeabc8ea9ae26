"""`klamm.Broker(brokers=3)`: a cluster in the program, with real sockets."""

from __future__ import annotations

import subprocess
import sys

import pytest

import klamm
from klamm.protocol.api import ApiKey
from klamm.protocol.messages.metadata import MetadataRequest
from klamm.testing.wire import WireClient


def leaders(bootstrap: str) -> dict[int, int]:
    """The leader of each partition of `t`, at the first broker that runs and knows it."""
    for address in bootstrap.split(",") * 1000:
        try:
            with WireClient(address) as client:
                answer = client.ask(ApiKey.METADATA, 12, MetadataRequest(None))
        except ConnectionRefusedError:
            continue
        for topic in answer.topics:
            if topic.name == "t":
                return {each.partition_index: each.leader_id for each in topic.partitions}
    raise AssertionError("no broker knows the topic")


def test_transactions_and_groups_outlive_brokers_that_stop_die_and_return() -> None:
    with klamm.Broker(
        brokers=3, offsets_topic_num_partitions=6, transaction_state_log_num_partitions=6
    ) as broker:
        bootstrap = broker.bootstrap
        assert len(set(bootstrap.split(","))) == 3
        with klamm.Admin(bootstrap_servers=bootstrap) as admin:
            admin.create_topics({"t": 6})
        assert set(leaders(bootstrap).values()) == {1, 2, 3}
        sent: list[bytes] = []
        with klamm.Producer(bootstrap_servers=bootstrap, transactional_id="x") as producer:

            def transaction(name: str) -> None:
                values = [f"{name}-{number}".encode() for number in range(6)]
                with producer.transaction():
                    for partition, value in enumerate(values):
                        producer.send("t", value, partition=partition)
                sent.extend(values)

            producer.init_transactions()
            transaction("three brokers")
            broker.stop_node(2)
            assert broker.node_ids == [1, 3]
            assert 2 not in leaders(bootstrap).values()
            transaction("two brokers")
            broker.kill_node(1)
            transaction("one broker")
            assert set(leaders(bootstrap).values()) == {3}
            broker.restart_node(1)
            broker.restart_node(2)
            assert broker.node_ids == [1, 2, 3]
            transaction("three again")
        with klamm.Consumer(
            "t",
            bootstrap_servers=bootstrap,
            group_id="g",
            auto_offset_reset="earliest",
            isolation_level="read_committed",
        ) as consumer:
            received = []
            for message in consumer:
                received.append(message.value or b"")
                if len(received) == len(sent):
                    break
            assert sorted(received) == sorted(sent)
            consumer.commit()
        assert broker.bootstrap == bootstrap


def test_a_broker_keeps_its_address_when_it_is_restarted() -> None:
    with klamm.Broker(brokers=2) as broker:
        addresses = broker.bootstrap
        broker.kill_node(2)
        with pytest.raises(ValueError, match="broker 2 is not running"):
            broker.stop_node(2)
        broker.restart_node(2)
        with pytest.raises(ValueError, match="broker 2 is running"):
            broker.restart_node(2)
        with pytest.raises(ValueError, match="no broker 3: expected 1 to 2"):
            broker.kill_node(3)
        for address in addresses.split(","):
            with WireClient(address) as client:
                assert len(client.ask(ApiKey.METADATA, 12, MetadataRequest([])).brokers) == 2


def test_what_cannot_be_several_brokers_is_refused() -> None:
    with pytest.raises(ValueError, match="invalid number of brokers 0"):
        klamm.Broker(brokers=0)
    with pytest.raises(ValueError, match="invalid number of brokers 65: expected 1 to 64"):
        klamm.Broker(brokers=65)
    with pytest.raises(TypeError, match="brokers is a number, not '3'"):
        klamm.Broker(brokers="3")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"remove klamm\.store"):
        klamm.Broker(brokers=2, settings={"klamm.store": "postgresql://127.0.0.1/db"})
    with pytest.raises(ValueError, match="leave out the folder"):
        klamm.Broker("folder", brokers=2)
    with pytest.raises(ValueError, match="leave out clock"):
        klamm.Broker(brokers=2, clock="virtual")
    with klamm.Broker() as broker:
        assert broker.node_ids == [1]
        with pytest.raises(RuntimeError, match="one broker only"):
            broker.kill_node(1)


@pytest.mark.parametrize(("brokers", "expected"), [(1, "False"), (2, "True")])
def test_only_brokers_that_may_replace_another_import_the_coordinators_before_they_need_them(
    brokers: int, expected: str
) -> None:
    code = f"""
import sys
import klamm
with klamm.Broker(brokers={brokers}):
    pass  # its end waits for what was begun
print("klamm.coordinator.group.coordinator" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == expected
