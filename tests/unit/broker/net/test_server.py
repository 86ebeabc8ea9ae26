"""Listening sockets, and a broker behind them that a program starts and stops."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import klamm
from klamm.broker.net.listeners import Listener
from klamm.broker.net.server import StartError, bind
from klamm.protocol.api import ApiKey
from klamm.protocol.messages.api_versions import ApiVersionsRequest
from klamm.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from klamm.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from klamm.records.record import Record, encode_batch
from klamm.testing.wire import WireClient


def test_a_free_port_is_the_same_on_every_address_of_a_name() -> None:
    bound = bind(Listener("PLAINTEXT", "localhost", 0))
    assert {each.getsockname()[1] for each in bound.sockets} == {bound.port}
    assert bound.address == f"localhost:{bound.port}"
    bound.close()


def test_a_port_that_is_taken_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(StartError, match=f"port {port} is in use"):
            bind(Listener("PLAINTEXT", "127.0.0.1", port))


def test_a_host_that_is_not_this_machine_is_named() -> None:
    with pytest.raises(StartError, match="192\\.0\\.2\\.1"):
        bind(Listener("PLAINTEXT", "192.0.2.1", 0))
    with pytest.raises(StartError, match=r"nobody\.invalid"):
        bind(Listener("PLAINTEXT", "nobody.invalid", 0))


def metadata_of(client: WireClient, topic: str) -> tuple[str, int]:
    answer = client.ask(ApiKey.METADATA, 12, MetadataRequest([MetadataRequestTopic(name=topic)]))
    assert answer.topics[0].error_code == 0
    return answer.brokers[0].host, answer.brokers[0].port


def test_a_broker_in_a_program_serves_until_it_is_stopped() -> None:
    with klamm.Broker(num_partitions=3) as broker, WireClient(broker.bootstrap) as client:
        answer = client.ask(ApiKey.API_VERSIONS, 4, ApiVersionsRequest("test", "1"))
        assert answer.error_code == 0
        host, port = metadata_of(client, "t")
        assert f"{host}:{port}" == broker.bootstrap
        answer = client.ask(ApiKey.METADATA, 12, MetadataRequest([MetadataRequestTopic(name="t")]))
        assert len(answer.topics[0].partitions) == 3
    with pytest.raises(OSError, match="refused"):
        WireClient(broker.bootstrap)


def test_each_listener_tells_its_own_address() -> None:
    settings = {
        "listeners": "A://127.0.0.1:0,B://127.0.0.1:0",
        "listener.security.protocol.map": "A:PLAINTEXT,B:PLAINTEXT",
    }
    with klamm.Broker(settings=settings) as broker:
        addresses = broker.bootstrap.split(",")
        assert len(set(addresses)) == 2
        for address in addresses:
            with WireClient(address) as client:
                host, port = metadata_of(client, "t")
                assert f"{host}:{port}" == address


def test_an_advertised_address_is_what_clients_are_told() -> None:
    settings = {"advertised.listeners": "PLAINTEXT://kafka.example:19092"}
    with klamm.Broker(settings=settings) as broker, WireClient(broker.bootstrap) as client:
        assert metadata_of(client, "t") == ("kafka.example", 19092)


def test_data_in_a_folder_is_there_the_next_time(tmp_path: Path) -> None:
    batch = encode_batch([Record(0, -1, None, b"kept")])
    request = ProduceRequest(
        None, -1, 10_000, [TopicProduceData(name="t", partition_data=[PartitionProduceData(0, batch)])]
    )
    for offset in (0, 1):
        with klamm.Broker(tmp_path) as broker, WireClient(broker.bootstrap) as client:
            metadata_of(client, "t")
            answer = client.ask(ApiKey.PRODUCE, 9, request).responses[0].partition_responses[0]
            assert (answer.error_code, answer.base_offset) == (0, offset)
            with pytest.raises(StartError, match="broker 1 is already running"):
                klamm.Broker(tmp_path).start()


def test_a_broker_that_cannot_start_says_why_and_leaves_nothing_running(tmp_path: Path) -> None:
    with klamm.Broker() as broker:
        port = int(broker.bootstrap.rpartition(":")[2])
        with pytest.raises(StartError, match="is in use"):
            klamm.Broker(tmp_path, port=port).start()
    klamm.Broker(tmp_path).start().stop()  # the folder was given back


def test_a_broker_that_does_not_run_can_be_stopped_and_has_no_address() -> None:
    broker = klamm.Broker()
    with pytest.raises(RuntimeError, match="not started"):
        _ = broker.bootstrap
    broker.stop()
    with broker, pytest.raises(RuntimeError, match="once"):
        broker.start()
    broker.stop()


def test_a_peer_that_resets_its_connection_harms_nobody() -> None:
    with klamm.Broker() as broker:
        rude = WireClient(broker.bootstrap)
        rude.send(ApiKey.METADATA, 12, MetadataRequest(None))
        rude.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        rude.socket.close()
        with WireClient(broker.bootstrap) as client:
            host, port = metadata_of(client, "t")
            assert f"{host}:{port}" == broker.bootstrap


def test_importing_klamm_imports_little() -> None:
    code = "import sys, klamm; print(sorted(name for name in sys.modules if name.startswith('klamm')))"
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environ
    )
    assert "klamm.broker" not in done.stdout
    assert "klamm.protocol" not in done.stdout


def test_settings_in_the_place_of_a_folder_are_no_folder() -> None:
    with pytest.raises(TypeError, match="settings="):
        klamm.Broker({"num.partitions": "3"})  # type: ignore[arg-type]  # that is the mistake
