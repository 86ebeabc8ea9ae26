"""Kafka's own tools on what transactions leave behind: features, hanging transactions, files with markers."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from interop.kafka_tools import run_kafka_tool
from interop.processes import KlammProcess
from klamm.protocol.api import ApiKey
from klamm.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from klamm.protocol.messages.describe_transactions import DescribeTransactionsRequest
from klamm.protocol.messages.end_txn import EndTxnRequest
from klamm.protocol.messages.find_coordinator import FindCoordinatorRequest
from klamm.protocol.messages.init_producer_id import InitProducerIdRequest
from klamm.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from klamm.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from klamm.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from klamm.records.record import Record, encode_batch
from klamm.testing import wait_until
from klamm.testing.wire import WireClient

HOUR_MS = 3_600_000
FAULTS = re.compile(r"Mismatches in|not found in|isvalid: false|Exception|corrupt", re.IGNORECASE)
# Batches of a transaction are accepted without asking a coordinator, as before Kafka 3.6: else no transaction
# would stay open for good.
UNVERIFIED = {"transaction.partition.verification.enable": "false"}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[KlammProcess]:
    with KlammProcess(tmp_path / "data", stderr_path=tmp_path / "klamm.log", settings=UNVERIFIED) as broker:
        yield broker


def output(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, f"{done.args}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def ask(broker: KlammProcess, api_key: ApiKey, version: int, request: Any) -> Any:
    with WireClient(broker.bootstrap) as client:
        client.send(api_key, version, request)
        return client.receive(api_key, version)[1]


def create(broker: KlammProcess, topic: str) -> None:
    created = ask(broker, ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest([CreatableTopic(topic, 1, 1)], 10_000))
    assert created.topics[0].error_code in (0, 36)


def begin(broker: KlammProcess, topic: str, producer_id: int, *, age_ms: int = 0) -> None:
    """A transaction of two records that nobody will end."""
    create(broker, topic)
    timestamp_ms = int(time.time() * 1000) - age_ms
    for sequence in range(2):
        batch = encode_batch(
            [Record(0, timestamp_ms, b"key", b"%d of %d" % (sequence, producer_id))],
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=sequence,
            transactional=True,
        )
        data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(0, batch)])
        answer = ask(broker, ApiKey.PRODUCE, 11, ProduceRequest("gone", -1, 30_000, [data]))
        assert answer.responses[0].partition_responses[0].error_code == 0


def end(broker: KlammProcess, topic: str, producer_id: int, *, commits: bool) -> None:
    marker = WritableTxnMarker(producer_id, 0, commits, [WritableTxnMarkerTopic(topic, [0])], 5)
    answer = ask(broker, ApiKey.WRITE_TXN_MARKERS, 1, WriteTxnMarkersRequest([marker]))
    assert answer.markers[0].topics[0].partitions[0].error_code == 0


def consumed(broker: KlammProcess, topic: str, count: int, *, isolation: str) -> list[str]:
    done = run_kafka_tool(
        "consumer.ConsoleConsumer",
        *("--bootstrap-server", broker.bootstrap, "--topic", topic, "--from-beginning"),
        *("--isolation-level", isolation, "--timeout-ms", "30000", "--max-messages", str(count)),
    )
    return output(done).splitlines()


def test_kafka_features_shows_and_sets_the_version_of_transactions(broker: KlammProcess) -> None:
    def features(*arguments: str) -> subprocess.CompletedProcess[str]:
        return run_kafka_tool("FeatureCommand", "--bootstrap-server", broker.bootstrap, *arguments)

    def shown() -> list[str]:
        return output(features("describe")).split()

    assert " ".join(shown()) == (
        "Feature: group.version SupportedMinVersion: 0 SupportedMaxVersion: 1 "
        "FinalizedVersionLevel: 1 Epoch: 0 "
        "Feature: transaction.version SupportedMinVersion: 0 SupportedMaxVersion: 2 "
        "FinalizedVersionLevel: 2 Epoch: 0"
    )
    lowered = features("downgrade", "--feature", "transaction.version=1")
    assert "transaction.version was downgraded to 1." in output(lowered)
    assert shown()[-3:] == ["1", "Epoch:", "1"]
    refused = features("downgrade", "--feature", "transaction.version=2")
    assert refused.returncode != 0
    assert "Can't downgrade to a newer version." in refused.stdout + refused.stderr
    raised = features("upgrade", "--feature", "transaction.version=2")
    assert "transaction.version was upgraded to 2." in output(raised)
    unknown = features("upgrade", "--feature", "metadata.version=30")
    assert unknown.returncode != 0
    assert "does not support this feature" in unknown.stdout + unknown.stderr


def test_kafka_transactions_ends_what_a_dead_producer_left_open(broker: KlammProcess, topic: str) -> None:
    def transactions(*arguments: str) -> str:
        done = run_kafka_tool("TransactionsCommand", "--bootstrap-server", broker.bootstrap, *arguments)
        return output(done)

    place = ("--topic", topic, "--partition", "0")
    begin(broker, topic, 4001, age_ms=HOUR_MS)
    described = transactions("describe-producers", *place).splitlines()[1].split()
    assert (described[0], described[1], described[-1]) == ("4001", "0", "0")
    (found,) = transactions("find-hanging", "--broker-id", "1").splitlines()[1:]
    assert found.split()[:6] == [topic, "0", "4001", "0", "-1", "0"]
    transactions("abort", *place, "--start-offset", "0")
    assert transactions("find-hanging", "--broker-id", "1").splitlines()[1:] == []
    assert transactions("describe-producers", *place).splitlines()[1].split()[-1] == "None"
    begin(broker, topic, 4002)
    end(broker, topic, 4002, commits=True)
    committed = ["0 of 4002", "1 of 4002"]
    assert consumed(broker, topic, 2, isolation="read_committed") == committed
    everything = ["0 of 4001", "1 of 4001", *committed]
    assert consumed(broker, topic, 4, isolation="read_uncommitted") == everything


def test_kafkas_dump_tool_reads_markers_aborted_transactions_and_open_ones(
    broker: KlammProcess, topic: str, tmp_path: Path
) -> None:
    begin(broker, topic, 4001)
    begin(broker, topic, 4002)
    end(broker, topic, 4001, commits=False)
    end(broker, topic, 4002, commits=True)
    begin(broker, topic, 4003)
    assert broker.stop() == 0
    folder = tmp_path / "data" / f"{topic}-0"
    names = ["00000000000000000000.log", "00000000000000000000.txnindex", "00000000000000000008.snapshot"]
    files = ",".join(str(folder / name) for name in names)
    dumped = run_kafka_tool("DumpLogSegments", "--files", files, "--deep-iteration", "--print-data-log")
    said = output(dumped)
    assert FAULTS.search(said + dumped.stderr) is None, said
    assert re.findall(r"endTxnMarker: (\w+) coordinatorEpoch: (\d+)", said) == [
        ("ABORT", "5"),
        ("COMMIT", "5"),
    ]
    assert "producerId: 4001 firstOffset: 0 lastOffset: 4 lastStableOffset: 2" in said
    assert re.search(r"producerId: 4003 .*currentTxnFirstOffset: OptionalLong\[6\]", said)


def find_coordinator(broker: KlammProcess, key_type: int, key: str) -> bool:
    request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
    found = ask(broker, ApiKey.FIND_COORDINATOR, 4, request)
    return bool(found.coordinators[0].error_code == 0)


def state_of(broker: KlammProcess, transactional_id: str) -> str:
    answer = ask(broker, ApiKey.DESCRIBE_TRANSACTIONS, 0, DescribeTransactionsRequest([transactional_id]))
    state: str = answer.transaction_states[0].transaction_state
    return state


def test_kafkas_dump_tool_decodes_the_records_of_both_coordinators(
    broker: KlammProcess, topic: str, tmp_path: Path
) -> None:
    """One transaction of version 2, with an offset in it."""
    create(broker, topic)
    for key_type, key in ((0, "readers"), (1, "copies")):
        wait_until(lambda: find_coordinator(broker, key_type, key))  # noqa: B023 - called at once
    made: list[Any] = []

    def init() -> int:
        made[:] = [ask(broker, ApiKey.INIT_PRODUCER_ID, 5, InitProducerIdRequest("copies", 60_000))]
        code: int = made[0].error_code
        return code

    wait_until(init, equals=0)
    producer_id, epoch = made[0].producer_id, made[0].producer_epoch
    batch = encode_batch(
        [Record(0, int(time.time() * 1000), b"key", b"value")],
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=0,
        transactional=True,
    )
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(0, batch)])
    answer = ask(broker, ApiKey.PRODUCE, 12, ProduceRequest("copies", -1, 30_000, [data]))
    assert answer.responses[0].partition_responses[0].error_code == 0
    offsets = [TxnOffsetCommitRequestTopic(topic, [TxnOffsetCommitRequestPartition(0, 50)])]
    commit = TxnOffsetCommitRequest("copies", "readers", producer_id, epoch, topics=offsets)
    answer = ask(broker, ApiKey.TXN_OFFSET_COMMIT, 5, commit)
    assert answer.topics[0].partitions[0].error_code == 0
    ended = ask(broker, ApiKey.END_TXN, 5, EndTxnRequest("copies", producer_id, epoch, True))
    assert (ended.error_code, ended.producer_epoch) == (0, epoch + 1)
    # The answer does not wait for markers.
    wait_until(lambda: state_of(broker, "copies"), equals="CompleteCommit")
    assert broker.stop() == 0
    said = {}
    for decoder, internal in (("offsets", "__consumer_offsets"), ("transaction-log", "__transaction_state")):
        files = [path for path in (tmp_path / "data").glob(f"{internal}-*/*.log") if path.stat().st_size]
        listed = ",".join(map(str, files))
        dumped = run_kafka_tool("DumpLogSegments", f"--{decoder}-decoder", "--files", listed)
        assert FAULTS.search(dumped.stdout + dumped.stderr) is None
        said[decoder] = output(dumped)
    assert '"group":"readers"' in said["offsets"]
    assert '"offset":50' in said["offsets"]
    assert "endTxnMarker: COMMIT" in said["offsets"]
    states = re.findall(r'"transactionStatus":(\d)', said["transaction-log"])
    assert states[:2] == ["0", "1"]
    assert states[-2:] == ["2", "4"]
