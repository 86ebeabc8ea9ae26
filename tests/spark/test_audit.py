"""The audit's numbers beside Kafka's own tools and a brute-force decode of the same files.

`KLAMM_AUDIT_RECORDS=1000000` makes it a million records; it is a few ten thousand otherwise.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import klamm
from interop.kafka_tools import ApacheKafka, run_kafka_tool
from interop.processes import KlammProcess
from klamm.client.admin.model import NewTopic
from klamm.spark.audit import BASE, DERIVED, Audit
from klamm.spark.audit.figures import figures
from klamm.spark.audit.report import write_report
from klamm.spark.audit.schemas import LATEST_COLUMNS
from spark.audit_load import SETTINGS, WIDE, AuditLoad
from spark.audit_queries import by_sql
from spark.brute_force import Read, read_offsets
from spark.clusters import Cluster

RECORDS = int(os.environ.get("KLAMM_AUDIT_RECORDS", "30000"))
TOPIC = "__consumer_offsets"
Key = tuple[str, str, int]


@dataclass
class Evidence:
    """One history as the audit, Kafka's tools and the files have it."""

    kind: str
    load: AuditLoad
    audit: Audit
    described: dict[Key, tuple[int, int]]  # committed offset and lag, as kafka-consumer-groups has them
    states: dict[str, int]  # members of each group
    transactions: dict[str, str]
    shown: dict[str, Any]  # the figures of the report
    few: dict[str, Any]  # the same, of a page that lists only two groups and one transaction
    raw: Read
    latest: list[tuple[Any, ...]]  # as read from the log, not from what was written
    direct: dict[str, Counter[str]]  # as are these tables
    dumped: list[dict[str, Any]]


def tool(bootstrap: str, name: str, *arguments: str) -> list[list[str]]:
    done = run_kafka_tool(name, "--bootstrap-server", bootstrap, *arguments, timeout_s=300)
    assert done.returncode == 0, done.stderr
    return [line.split() for line in done.stdout.splitlines() if line.strip()]


def described(bootstrap: str) -> dict[Key, tuple[int, int]]:
    lines = tool(bootstrap, "consumer.group.ConsumerGroupCommand", "--describe", "--all-groups")
    return {
        (cells[0], cells[1], int(cells[2])): (int(cells[3]), int(cells[5]))
        for cells in lines
        if cells[0] != "GROUP" and cells[3] != "-"
    }


def states(bootstrap: str) -> dict[str, int]:
    arguments = ("--describe", "--all-groups", "--state")
    lines = tool(bootstrap, "consumer.group.ConsumerGroupCommand", *arguments)
    return {cells[0]: int(cells[-1]) for cells in lines if cells[0] != "GROUP"}


def dumped(folder: Path, ends: dict[int, tuple[int, int]]) -> list[dict[str, Any]]:
    """Every record as kafka-dump-log prints it."""
    files = sorted(folder.glob(f"{TOPIC}-*/*.log"))
    done = run_kafka_tool(
        "DumpLogSegments", "--offsets-decoder", "--files", ",".join(map(str, files)), timeout_s=600
    )
    found = []
    partition = -1
    pattern = re.compile(r"\| offset: (\d+) .*? key: (\{.*?\}\}) payload: (.*)$")
    for line in done.stdout.splitlines():
        if line.startswith("Dumping "):
            partition = int(Path(line[8:]).parent.name.rpartition("-")[2])
        elif (match := pattern.match(line)) and int(match[1]) < ends[partition][1]:
            key = json.loads(match[2])
            value = None if match[3] in ("null", "<DELETE>") else json.loads(match[3])
            found.append({"place": (partition, int(match[1])), **key, "value": value})
    return found


@pytest.fixture(scope="module", params=["klamm", "kafka"])
def evidence(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Evidence]:
    folder = tmp_path_factory.mktemp("scale")
    with ExitStack() as stack:
        broker: KlammProcess | ApacheKafka
        if request.param == "klamm":
            broker = KlammProcess(folder / "data", stderr_path=folder / "log", settings=SETTINGS)
            logs = folder / "data"
            stack.callback(broker.close)
        else:
            broker = ApacheKafka(folder, settings=SETTINGS, flags=("-Xmx512m", "-XX:TieredStopAtLevel=1"))
            broker.start()
            logs = broker.logs_dir
            stack.callback(broker.stop)
        with Cluster(request.param, broker.bootstrap) as cluster:
            load = AuditLoad(cluster, "audited", RECORDS)
            load.make()
            audit = Audit(spark, broker.bootstrap, stuck_ms=0)
            audit.write(folder / "tables")
            transactions = tool(broker.bootstrap, "TransactionsCommand", "list")
            answers = described(broker.bootstrap), states(broker.bootstrap)
            shown = figures(audit)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("klamm.spark.audit.figures.MAX_GROUPS", 2)
                patch.setattr("klamm.spark.audit.figures.MAX_TRANSACTIONS", 1)
                few = figures(audit)
            unwritten = Audit(spark, broker.bootstrap)
            latest = tuples(unwritten.table("latest_offsets"), *LATEST_COLUMNS)
            direct = {
                name: Counter(str(row) for row in tuples(unwritten.table(name), "group_id", "log_offset"))
                for name in ("rebalances", "group_registrations")
            }
        broker.stop()
        yield Evidence(
            request.param,
            load,
            audit,
            *answers,
            {cells[0]: cells[3] for cells in transactions[1:]},
            shown,
            few,
            read_offsets(logs, {number: end for number, (_, end) in audit.ends[TOPIC].items()}),
            latest,
            direct,
            dumped(logs, audit.ends[TOPIC]),
        )


def tuples(frame: DataFrame, *columns: str) -> list[tuple[Any, ...]]:
    table = frame.select(*columns).toArrow()
    return list(zip(*(table.column(name).to_pylist() for name in columns), strict=True))


def comparable(value: Any) -> Any:
    """A value of a row whose arrays have no order."""
    return tuple(sorted(value)) if isinstance(value, list) else value


@pytest.mark.parametrize("name", DERIVED)
def test_a_derived_table_is_the_one_that_sql_makes_of_the_records(evidence: Evidence, name: str) -> None:
    audit = evidence.audit
    written, expected = audit.table(name), by_sql(audit.spark, audit, name)
    assert written.schema.simpleString() == expected.schema.simpleString()
    found = Counter(tuple(map(comparable, row)) for row in tuples(written, *written.columns))
    assert found == Counter(tuple(map(comparable, row)) for row in tuples(expected, *expected.columns))
    assert found.total() > 0


def test_derived_tables_can_be_read_without_writing_them(evidence: Evidence) -> None:
    assert evidence.direct == {
        name: Counter(str(row) for row in tuples(evidence.audit.table(name), "group_id", "log_offset"))
        for name in evidence.direct
    }


def test_every_commit_is_the_one_that_the_files_hold(evidence: Evidence) -> None:
    columns = ("log_partition", "log_offset", "group_id", "topic", "partition", "committed_offset", "txn")
    found = tuples(evidence.audit.table("offset_commits"), *columns)
    assert len(found) > RECORDS * 0.7
    assert sorted(found, key=lambda row: row[:2]) == sorted(
        map(tuple, evidence.raw.commits), key=lambda row: row[:2]
    )
    printed = [item for item in evidence.dumped if item["type"] == "1"]
    assert sorted(row[:6] for row in found) == sorted(
        (
            *item["place"],
            item["data"]["group"],
            item["data"]["topic"],
            item["data"]["partition"],
            item["value"] and item["value"]["data"]["offset"],
        )
        for item in printed
    )
    outcomes = Counter(row[6] for row in found)
    assert (outcomes["committed"], outcomes["aborted"], outcomes["open"]) == (300, 300, 100)


def test_latest_offsets_and_lag_are_those_of_kafkas_tool(evidence: Evidence) -> None:
    audit = evidence.audit
    latest = {
        tuple(row[:3]): row[3]
        for row in tuples(audit.table("latest_offsets"), "group_id", "topic", "partition", "committed_offset")
    }
    assert latest == evidence.raw.latest()
    assert sorted(evidence.latest) == sorted(tuples(audit.table("latest_offsets"), *LATEST_COLUMNS))
    assert latest == {key: offset for key, (offset, _) in evidence.described.items()}
    lags = {
        tuple(row[:3]): row[3] for row in tuples(audit.table("lag"), "group_id", "topic", "partition", "lag")
    }
    # A commit beyond the end is a negative lag there, and none here.
    assert lags == {
        key: max(0, lag) for key, (_, lag) in evidence.described.items() if key[0] != "audited.sink"
    }


def test_groups_and_their_members_are_those_of_kafkas_tool(evidence: Evidence) -> None:
    found = dict(tuples(evidence.audit.table("groups"), "group_id", "member_count"))
    assert {name: count for name, count in evidence.states.items() if name in found} == found
    # A group of which nothing is left but a registration without offsets is no group any more.
    assert all(not evidence.states[name] for name in evidence.states.keys() - found.keys())
    assert all(group not in found for group in evidence.load.groups[14:17])


def test_generations_and_rebalances_are_all_there(evidence: Evidence) -> None:
    audit = evidence.audit
    registered = audit.table("group_registrations").where("NOT is_tombstone")
    found = tuples(registered, "group_id", "generation", "member_count")
    assert sorted(found) == sorted(evidence.raw.generations)
    rebalances = audit.table("rebalances").where("group_type = 'classic'")
    by_group = Counter(row[0] for row in tuples(rebalances, "group_id"))
    assert by_group == dict.fromkeys(evidence.load.groups[:8], 8)
    sizes = tuples(rebalances.orderBy("log_offset"), "group_id", "members_before", "members_after")
    assert [row[1:] for row in sizes if row[0] == evidence.load.groups[0]] == [
        (0, 1),
        *[(1, 2), (2, 1)] * 3,
        (1, 0),
    ]


def test_every_record_is_in_exactly_one_table(evidence: Evidence) -> None:
    audit = evidence.audit
    types = Counter(int(item["type"]) for item in evidence.dumped)
    assert types == evidence.raw.types
    found = {
        1: audit.table("offset_commits").count(),
        2: audit.table("group_registrations").count(),
        3: audit.table("consumer_groups").where("kind = 'group'").count(),
        5: audit.table("consumer_members").count(),
        6: audit.table("consumer_groups").where("kind = 'target'").count(),
        7: audit.table("consumer_assignments").where("kind = 'target'").count(),
        8: audit.table("consumer_assignments").where("kind = 'current'").count(),
    }
    assert {version: count for version, count in found.items() if count} == dict(types)
    assert audit.table("undecoded").count() == 0
    removed = Counter(row[0] for row in tuples(audit.table("tombstones"), "key_version"))
    assert removed == +evidence.raw.tombstones
    # 75 deleted, three deleted groups, and those that expired.
    assert removed[1] == 75 + 3 * 300 + 300


def test_transactions_are_in_the_state_that_kafkas_tool_lists(evidence: Evidence) -> None:
    spans = evidence.audit.table("transaction_spans").orderBy("start_ts")
    rows = tuples(spans, "transactional_id", "state", "is_open")
    assert {row[0]: row[1] for row in rows} == evidence.transactions
    assert [row[1] for row in rows if row[0].endswith("txn-0")] == [
        f"Complete{step}" for step in ("Commit", "Abort", "Commit", "Abort", "Abort")
    ]
    assert [row[2] for row in rows if row[0].endswith("txn-1")] == [False, True]


def test_groups_of_the_consumer_protocol_are_as_the_dump_tool_prints_them(evidence: Evidence) -> None:
    audit = evidence.audit
    group = evidence.load.consumer_group
    if evidence.kind == "klamm":  # it has groups of the classic protocol only
        assert audit.table("consumer_groups").count() == 0
        return
    members = tuples(audit.table("consumer_members"), "member_id", "client_id", "is_tombstone")
    printed = [item for item in evidence.dumped if item["type"] == "5"]
    assert sorted(members, key=str) == sorted(
        (
            (
                item["data"]["memberId"],
                item["value"] and item["value"]["data"]["clientId"],
                item["value"] is None,
            )
            for item in printed
        ),
        key=str,
    )
    current = audit.table("consumer_assignments").where("kind = 'current' AND NOT is_tombstone")
    found = [
        (row[0], row[1], row[2], sorted(item["partition"] for item in row[3]))
        for row in tuples(
            current.orderBy("log_offset"), "member_id", "member_epoch", "previous_epoch", "assigned"
        )
    ]
    assert found == [
        (
            item["data"]["memberId"],
            item["value"]["data"]["memberEpoch"],
            item["value"]["data"]["previousMemberEpoch"],
            sorted(
                number
                for topic in item["value"]["data"]["assignedPartitions"]
                for number in topic["partitions"]
            ),
        )
        for item in sorted(evidence.dumped, key=lambda item: item["place"])
        if item["type"] == "8" and item["value"]
    ]
    rebalances = audit.table("rebalances").where(f"group_id = '{group}'").orderBy("log_offset")
    rows = tuples(rebalances, "members_before", "members_after", "cause", "is_inferred", "group_type")
    assert [row[:3] for row in rows] == [
        (0, 1, "the first member joined"),
        (1, 2, "a member joined"),
        (2, 1, "a member left or its session expired"),
    ]
    assert {row[3:] for row in rows} == {(True, "consumer")}
    (now,) = tuples(audit.table("groups").where(f"group_id = '{group}'"), "member_count", "expires_ts")
    assert now == (1, None), "a group with members does not expire"


def test_rebalances_have_their_causes(evidence: Evidence) -> None:
    rebalances = evidence.audit.table("rebalances").where(f"group_id = '{evidence.load.groups[0]}'")
    rows = rebalances.orderBy("log_offset").collect()
    assert [len(row.joined) for row in rows] == [1, *[1, 0] * 3, 0]
    assert [len(row["left"]) for row in rows] == [0, *[0, 1] * 3, 1]
    assert {row.is_inferred for row in rows} == {evidence.kind != "klamm"}
    if evidence.kind == "klamm":
        assert [row.cause for row in rows[1:3]] == ["a member joined", "a member left"]
        assert rows[1].duration_ms is not None
    else:
        assert [row.cause for row in (*rows[:3], rows[-1])] == [
            "the first member joined",
            "a member joined",
            "a member left or its session expired",
            "the last member left",
        ]


def test_stickiness_counts_every_partition(evidence: Evidence) -> None:
    stickiness = evidence.audit.table("stickiness").where(f"group_id = '{evidence.load.groups[0]}'")
    rows = stickiness.orderBy("to_generation").collect()
    assert [(row.common, row.kept, row.moved) for row in rows] == [(WIDE, WIDE // 2, WIDE // 2)] * 6
    # Half had to go to the new member, and all of the one that left to the one that stayed.
    assert [(row.forced_moves, row.excess_moves) for row in rows] == [(WIDE // 2, 0)] * 6


def test_the_report_stands_alone(evidence: Evidence, tmp_path: Path) -> None:
    shown = evidence.shown
    assert shown["exact"] == (evidence.kind == "klamm")
    groups = {group["id"] for group in shown["groups"]}
    assert groups >= set(evidence.load.groups[:14])
    assert "audited.sink" not in groups, "a sink's decision is no group with a lag"
    commits = evidence.audit.table("offset_commits").where("NOT is_tombstone").count()
    assert sum(map(sum, shown["rates"].values())) == commits
    path = tmp_path / "report.html"
    write_report(shown, path)
    page = path.read_text()
    assert evidence.load.groups[0] in page
    assert "http://www.w3.org/2000/svg" in page
    assert page.count("http") == 1, "no resource from elsewhere"


def drawn(shown: dict[str, Any], folder: Path, width: int) -> str:
    """The report as a browser has it after its script has run."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None and "CI" not in os.environ:
        pytest.skip("chromium is not installed")
    assert chromium is not None
    path = folder / "report.html"
    write_report(shown, path)
    flags = (
        "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking --disable-sync"
    )
    done = subprocess.run(
        [
            chromium,
            *flags.split(),
            f"--user-data-dir={folder / 'profile'}",
            f"--window-size={width},2000",
            "--dump-dom",
            path.as_uri(),
        ],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert 'data-drawn="yes"' in done.stdout, "the script failed"
    return done.stdout.partition("<main>")[2].partition("<script>")[0]


@pytest.mark.parametrize("width", [1280, 400])
def test_a_browser_draws_the_report(evidence: Evidence, tmp_path: Path, width: int) -> None:
    page = drawn(evidence.shown, tmp_path, width)
    assert not re.search(r"NaN|undefined|\[object", page)
    charted = set(evidence.shown["charted"])
    dots = [item for item in evidence.shown["rebalances"] if item["group"] in charted]
    assert page.count("<circle") == len(dots) > 0
    marks = Counter(re.findall(r'class="tag (exact|inferred)"', page))
    assert marks["exact" if evidence.kind == "klamm" else "inferred"] >= len(dots)
    assert "open too long" in page
    (room,) = {int(found) for found in re.findall(r'viewBox="0 0 (\d+) ', page)}
    assert room < max(width, 500), "charts are as wide as the page has room"


@pytest.mark.parametrize(("lag", "is_logarithmic"), [(30_000, True), (300, False)])
def test_a_group_that_is_far_behind_does_not_hide_the_others(
    tmp_path: Path, lag: int, is_logarithmic: bool
) -> None:
    names = ["anna", "bert", "carl"]
    groups = [{"id": name, "members": 1, "lag": 7, "commits": 1, "rebalances": 0} for name in names]
    counts = "records events commits registrations rebalances transactions groups lag stuck expiring"
    totals = {**dict.fromkeys(counts.split(), 1), "late_transactions": 0}
    empty: dict[str, Any] = {name: {} for name in ("commits_by_txn", "tombstones", "undecoded", "causes")}
    shown = {
        "cluster": "here",
        **dict(zip(("from", "as_of", "width", "starts"), (0, 2_000, 1_000, [0, 1_000]), strict=True)),
        **dict.fromkeys(("retention", "stuck_after", "long_transaction", "soon"), 60_000),
        "exact": True,
        "totals": totals | empty,
        "groups": [{**group, "partitions": 1, "last_commit": 1, "stuck": False} for group in groups],
        "charted": names,
        **{key: [] for key in ("rebalances", "stickiness", "transactions")},
        "rates": {},
        "lag": {"anna": [7, 7], "bert": [20, 20], "carl": [lag, lag]},
    }
    page = drawn(shown, tmp_path, 1280)
    assert ("logarithmic scale" in page) is is_logarithmic
    heights = [float(found) for found in re.findall(r'<path d="M[0-9.]+ ([0-9.]+)', page)]
    assert len(heights) == 3
    assert sorted(heights, reverse=True) == heights, "more is higher"
    if is_logarithmic:
        assert heights[0] - heights[1] > 10, "seven and twenty can be told apart"


def test_what_is_not_listed_is_counted(evidence: Evidence) -> None:
    few = evidence.few
    assert (len(few["groups"]), len(few["transactions"])) == (2, 1)
    assert few["totals"] == evidence.shown["totals"]
    groups = evidence.shown["groups"]
    assert few["totals"]["groups"] == len(groups) > 2
    assert few["totals"]["lag"] == sum(group["lag"] or 0 for group in groups)
    assert few["totals"]["stuck"] == sum(group["stuck"] for group in groups)
    late = [item for item in evidence.shown["transactions"] if item["open"]]
    assert 0 <= few["totals"]["late_transactions"] <= len(late)


def test_every_table_can_be_read_again_from_parquet(evidence: Evidence) -> None:
    for name in (*BASE, "events", *DERIVED):
        assert evidence.audit.table(name).schema.fieldNames(), name
    with pytest.raises(ValueError, match="unknown table nothing"):
        evidence.audit.table("nothing")


def test_a_cluster_without_coordinator_topics_gives_empty_tables(spark: SparkSession, tmp_path: Path) -> None:
    with klamm.Broker() as broker:
        with klamm.Admin(bootstrap_servers=broker.bootstrap) as admin:
            admin.create_topics([NewTopic("lonely", 1)]).unwrap()
        empty = Audit(spark, broker.bootstrap)
        assert empty.record_count == 0
        assert empty.table("groups").collect() == []
        empty.write(tmp_path)
        assert empty.table("rebalances").collect() == []
        assert figures(empty)["rebalances"] == []
