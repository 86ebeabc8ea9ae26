"""The audit's tables beside a brute-force decode, the broker's own answers and Kafka's own tools."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from pyspark.sql import SparkSession

import klamm
from interop.kafka_tools import run_kafka_tool
from klamm.client.admin.model import CommittedOffset, NewTopic
from klamm.coordinator.group.records import UnknownKey, decode_record
from klamm.coordinator.group.remembered import GroupForgotten, GroupRegistered, OffsetCommitted
from klamm.protocol.types import TopicPartition
from klamm.spark.audit import BASE, DERIVED, Audit
from klamm.spark.audit.figures import figures
from klamm.spark.audit.report import write_report
from klamm.spark.source import KlammDataSource
from spark.clusters import Cluster

WIDE = 300


def values_of(source: KlammDataSource) -> Iterator[str]:
    reader = source.reader(source.schema())
    for task in reader.partitions():
        batches: Any = reader.read(task)
        for batch in batches:
            yield from (value.decode() for value in batch.column("value").to_pylist())


class History:
    """What was done to a cluster."""

    def __init__(self, cluster: Cluster, prefix: str) -> None:
        self.cluster = cluster
        self.prefix = prefix
        self.wide = cluster.create(f"{prefix}-wide", WIDE)
        self.busy = f"{prefix}-busy"
        self.quiet = f"{prefix}-quiet"
        self.generations = 0

    def commits(self, rounds: int) -> None:
        """Many commits of one group; some of its offsets are deleted again."""
        partitions = [TopicPartition(self.wide, number) for number in range(WIDE)]
        for number in range(rounds):
            self.cluster.admin.alter_group_offsets(self.quiet, dict.fromkeys(partitions, number)).unwrap()
        self.cluster.admin.delete_group_offsets(self.quiet, partitions[:7]).unwrap()
        decision = {partitions[0]: CommittedOffset(12, -1, "v1;some-query")}
        self.cluster.admin.alter_group_offsets(f"{self.prefix}.sink", decision).unwrap()

    def rebalances(self) -> None:
        """Two members come one after the other and leave again."""
        first = self.member("first")
        second = self.member("second")
        joined = threading.Event()

        def follow() -> None:
            while not joined.is_set():
                first.poll(timeout=0.1)
            first.commit({TopicPartition(self.wide, 0): 3})

        poller = threading.Thread(target=follow)
        poller.start()
        while not second.assignment():
            second.poll(timeout=0.2)
        joined.set()
        poller.join()
        second.close()
        while len(first.assignment()) < WIDE:
            first.poll(timeout=0.2)
        first.close()

    def member(self, name: str) -> klamm.Consumer:
        consumer = klamm.Consumer(
            bootstrap_servers=self.cluster.bootstrap,
            group_id=self.busy,
            client_id=name,
            enable_auto_commit=False,
        )
        consumer.subscribe([self.wide])
        if name == "first":
            while not consumer.assignment():
                consumer.poll(timeout=0.2)
        return consumer

    def await_events(self) -> None:
        """The broker writes events a little later than what they are about."""
        source = KlammDataSource(
            {"kafka.bootstrap.servers": self.cluster.bootstrap, "subscribe": "__klamm_events"}
        )
        deadline = time.monotonic() + 30
        while not any(self.busy in value and "group_emptied" in value for value in values_of(source)):
            assert time.monotonic() < deadline, "no event says that the group is empty"
            time.sleep(0.1)

    def transactions(self) -> None:
        for number, ends in enumerate(("commit_transaction", "abort_transaction", None)):
            producer = confluent_kafka.Producer(
                {
                    "bootstrap.servers": self.cluster.bootstrap,
                    "transactional.id": f"{self.prefix}-txn-{number}",
                    "transaction.timeout.ms": 600_000,
                }
            )
            producer.init_transactions(60)
            producer.begin_transaction()
            group = confluent_kafka.Consumer(
                {"bootstrap.servers": self.cluster.bootstrap, "group.id": f"{self.prefix}-txn-group-{number}"}
            )
            producer.send_offsets_to_transaction(
                [confluent_kafka.TopicPartition(self.wide, 0, 40 + number)],
                group.consumer_group_metadata(),
                60,
            )
            group.close()
            if ends is not None:
                getattr(producer, ends)(60)


@pytest.fixture(scope="module", params=["klamm", "kafka"])
def history(request: pytest.FixtureRequest, names: Iterator[str]) -> History:
    cluster: Cluster = request.getfixturevalue("kafka" if request.param == "kafka" else "klamm_cluster")
    made = History(cluster, next(names))
    made.commits(40)
    made.rebalances()
    made.transactions()
    if request.param == "klamm":
        made.await_events()
    return made


@pytest.fixture(scope="module")
def audit(spark: SparkSession, history: History, tmp_path_factory: pytest.TempPathFactory) -> Audit:
    made = Audit(spark, history.cluster.bootstrap, stuck_ms=0)
    made.write(tmp_path_factory.mktemp("audit"))
    return made


def raw_records(audit: Audit) -> list[tuple[int, int, Any]]:
    """Every record of `__consumer_offsets`, decoded one by one by the coordinator's own code."""
    topic = "__consumer_offsets"
    bounds = audit.ends[topic]
    source = KlammDataSource(
        {
            "kafka.bootstrap.servers": audit.bootstrap_servers,
            "subscribe": topic,
            "endingOffsets": json.dumps({topic: {str(n): end for n, (_, end) in bounds.items()}}),
        }
    )
    reader = source.reader(source.schema())
    found = []
    for task in reader.partitions():
        batches: Any = reader.read(task)
        for batch in batches:
            for row in batch.to_pylist():
                found.append((row["partition"], row["offset"], decode_record(row["key"], row["value"])))
    return found


def test_every_record_is_in_the_table_it_belongs_to(audit: Audit) -> None:
    expected = raw_records(audit)
    kinds = Counter(type(record).__name__ for _, _, record in expected)
    commits = audit.table("offset_commits")
    assert commits.count() == kinds["OffsetCommitted"] + kinds["OffsetForgotten"]
    assert commits.where("is_tombstone").count() == kinds["OffsetForgotten"]
    found = {
        (row.log_partition, row.log_offset, row.group_id, row.topic, row.partition, row.committed_offset)
        for row in commits.where("NOT is_tombstone").collect()
    }
    assert found == {
        (partition, offset, item.group_id, item.topic, item.partition, item.committed.offset)
        for partition, offset, item in expected
        if isinstance(item, OffsetCommitted)
    }
    registered = audit.table("group_registrations")
    assert registered.count() == kinds["GroupRegistered"] + kinds["GroupForgotten"]
    groups = [item for _, _, item in expected if isinstance(item, GroupRegistered)]
    assert sorted(
        (row.group_id, row.generation) for row in registered.where("NOT is_tombstone").collect()
    ) == sorted((item.group_id, item.generation) for item in groups)
    assert audit.table("group_members").count() == sum(len(item.members) for item in groups)
    forgotten = sum(isinstance(item, GroupForgotten) for _, _, item in expected)
    assert audit.table("tombstones").where("key_version = 2").count() == forgotten
    unknown = sum(isinstance(item, UnknownKey) for _, _, item in expected)
    assert audit.table("undecoded").count() == unknown


def test_latest_offsets_are_what_the_broker_answers(audit: Audit, history: History) -> None:
    rows = audit.table("latest_offsets").where(f"group_id LIKE '{history.prefix}%'").collect()
    found: dict[str, dict[TopicPartition, int]] = {}
    for row in rows:
        found.setdefault(row.group_id, {})[TopicPartition(row.topic, row.partition)] = row.committed_offset
    assert len(found[history.quiet]) == WIDE - 7
    for group, offsets in found.items():
        answered = history.cluster.committed(group)
        assert offsets == {partition: item.offset for partition, item in answered.items()}


def test_lag_is_what_kafkas_tool_prints(audit: Audit, history: History) -> None:
    history.cluster.fill(history.wide, [b"x"] * 50, partition=9)
    again = Audit(audit.spark, audit.bootstrap_servers)
    tool = run_kafka_tool(
        "consumer.group.ConsumerGroupCommand",
        *("--bootstrap-server", audit.bootstrap_servers, "--describe", "--group", history.quiet),
    )
    printed = {
        (cells[1], int(cells[2])): int(cells[5])
        for cells in (line.split() for line in tool.stdout.splitlines())
        if len(cells) > 5 and cells[0] == history.quiet
    }
    assert len(printed) == WIDE - 7
    rows = again.table("lag").where(f"group_id = '{history.quiet}'").collect()
    # A commit beyond the end is a negative lag there, and none here.
    assert {(row.topic, row.partition): row.lag for row in rows} == {
        key: max(0, lag) for key, lag in printed.items()
    }


def test_rebalances_have_their_causes(audit: Audit, history: History) -> None:
    rows = audit.table("rebalances").where(f"group_id = '{history.busy}'").orderBy("log_offset").collect()
    assert [(row.members_before, row.members_after) for row in rows] == [(0, 1), (1, 2), (2, 1), (1, 0)]
    assert [len(row.joined) for row in rows] == [1, 1, 0, 0]
    assert [len(row["left"]) for row in rows] == [0, 0, 1, 1]
    if history.cluster.kind == "klamm":
        assert [row.is_inferred for row in rows] == [False] * 4
        assert rows[1].cause == "a member joined"
        assert rows[2].cause == "a member left"
        assert rows[1].duration_ms is not None
    else:
        assert [row.is_inferred for row in rows] == [True] * 4
        assert [row.cause for row in rows] == [
            "the first member joined",
            "a member joined",
            "a member left or its session expired",
            "the last member left",
        ]


def test_stickiness_counts_every_partition(audit: Audit, history: History) -> None:
    rows = audit.table("stickiness").where(f"group_id = '{history.busy}'").orderBy("to_generation").collect()
    assert [(row.common, row.kept, row.moved) for row in rows] == [(WIDE, WIDE // 2, WIDE // 2)] * 2
    # Half had to go to the new member, and all of the one that left to the one that stayed.
    assert [(row.forced_moves, row.excess_moves) for row in rows] == [(WIDE // 2, 0)] * 2


def test_transactions_are_told_by_their_outcome(audit: Audit, history: History) -> None:
    rows = audit.table("offset_commits").where(f"group_id LIKE '{history.prefix}-txn-group-%'").collect()
    outcomes = {row.group_id.rsplit("-", 1)[1]: (row.txn, row.committed_offset) for row in rows}
    assert outcomes == {"0": ("committed", 40), "1": ("aborted", 41), "2": ("open", 42)}
    spans = audit.table("transaction_spans").where(f"transactional_id LIKE '{history.prefix}%'").collect()
    states = {row.transactional_id.rsplit("-", 1)[1]: (row.state, row.is_open) for row in spans}
    assert states == {"0": ("CompleteCommit", False), "1": ("CompleteAbort", False), "2": ("Ongoing", True)}
    latest = audit.table("latest_offsets").where(f"group_id LIKE '{history.prefix}-txn-group-%'").collect()
    assert [(row.group_id[-1], row.committed_offset) for row in latest] == [("0", 40)]


def test_the_report_stands_alone(audit: Audit, history: History, tmp_path: Path) -> None:
    shown = figures(audit)
    assert shown["exact"] == (history.cluster.kind == "klamm")
    groups = {group["id"] for group in shown["groups"]}
    assert groups >= {history.quiet, history.busy}
    assert f"{history.prefix}.sink" not in groups, "a sink's decision is no group with a lag"
    assert (
        sum(map(sum, shown["rates"].values()))
        == audit.table("offset_commits").where("NOT is_tombstone").count()
    )
    path = tmp_path / "report.html"
    write_report(shown, path)
    page = path.read_text()
    assert history.busy in page
    assert "http://www.w3.org/2000/svg" in page
    assert page.count("http") == 1, "no resource from elsewhere"


def test_every_table_can_be_read_again_from_parquet(audit: Audit) -> None:
    for name in (*BASE, "events", *DERIVED):
        assert audit.table(name).schema.fieldNames(), name
    with pytest.raises(ValueError, match="unknown table nothing"):
        audit.table("nothing")


def test_a_cluster_without_coordinator_topics_gives_empty_tables(spark: SparkSession) -> None:
    with klamm.Broker() as broker:
        with klamm.Admin(bootstrap_servers=broker.bootstrap) as admin:
            admin.create_topics([NewTopic("lonely", 1)]).unwrap()
        empty = Audit(spark, broker.bootstrap)
        assert empty.record_count == 0
        assert empty.table("groups").collect() == []
        assert figures(empty)["rebalances"] == []
