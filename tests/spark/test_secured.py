"""Spark's source and sink on a secured cluster, with the connector's options; no secret is shown."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import klamm
from klamm.spark.audit import Audit
from klamm.testing import SecureBroker

MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
AT_ONCE_S = 20.0  # with Python workers that start; every time-out of a client is longer
ROWS = 20


@pytest.fixture(scope="module")
def broker() -> Iterator[SecureBroker]:
    with SecureBroker(clock="system") as broker:
        broker.client("alice")
        broker.allow("alice", "read", "write", topic="t-", prefixed=True)
        broker.allow("alice", "all", group="*")
        broker.allow("alice", "all", transactional_id="*")
        for name in ("t-in", "t-out", "t-wrong"):
            broker.create_topic(name, 2)
        yield broker


def options(broker: SecureBroker, folder: Path, password: str | None = None) -> dict[str, str]:
    ca = folder / "ca.pem"
    ca.write_text(broker.ca_pem)
    secret = password or broker.client("alice")["sasl.password"]
    return {
        "kafka.bootstrap.servers": broker.bootstrap,
        "kafka.security.protocol": "SASL_SSL",
        "kafka.ssl.truststore.location": str(ca),
        "kafka.ssl.truststore.type": "PEM",
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.jaas.config": f'{MODULE} required username="alice" password="{secret}";',
    }


def plans(frame: Any) -> str:
    """What the pages of Spark's UI show of a query."""
    execution = frame._jdf.queryExecution()
    return "\n".join([execution.toString(), execution.stringWithStats(), execution.logical().toString()])


def of_the_ui(spark: SparkSession) -> list[str]:
    """What the page SQL tells of all queries."""
    listed = spark._jsparkSession.sharedState().statusStore().executionsList()
    found = [listed.apply(number) for number in range(listed.size())]
    assert found
    return [str(text) for each in found for text in (each.physicalPlanDescription(), each.description())]


def test_batches_and_queries_work_and_show_no_secret(
    spark: SparkSession, broker: SecureBroker, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    given, secret = options(broker, tmp_path), broker.client("alice")["sasl.password"]
    rows = spark.range(ROWS).selectExpr("cast(id as string) as value")
    rows.write.format("klamm").mode("append").options(**given, topic="t-in").save()
    read = spark.read.format("klamm").options(**given, subscribe="t-in").load()
    assert {bytes(row.value) for row in read.collect()} == {b"%d" % number for number in range(ROWS)}
    stream = spark.readStream.format("klamm").options(**given, subscribe="t-in", startingOffsets="earliest")
    frame = stream.load()
    query = (
        frame.selectExpr("value")
        .writeStream.format("klamm")
        .options(**given, topic="t-out", checkpointLocation=str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(90)
    assert len(broker.records("t-out")) == ROWS
    seen = [plans(read), plans(frame), str(query.lastProgress), repr(read), repr(query)]
    seen.append(query._jsq.toString())
    read.explain(extended=True)
    seen += capfd.readouterr()
    seen += of_the_ui(spark)
    files = [file for file in (tmp_path / "checkpoint").rglob("*") if file.is_file()]
    kept = [file.read_text(errors="replace") for file in files]
    assert kept
    assert [text for text in (*seen, *kept) if secret in text] == []


def test_the_tables_of_an_audit_show_no_secret(
    spark: SparkSession, broker: SecureBroker, capfd: pytest.CaptureFixture[str]
) -> None:
    broker.client("auditor")
    for name in ("__consumer_offsets", "__transaction_state", "__klamm_events"):
        broker.allow("auditor", "read", topic=name)
    client = broker.client("auditor")
    secret = client["sasl.password"]
    with klamm.Admin(broker.client("alice")) as admin:
        admin.alter_group_offsets("audited", {("t-in", 0): 0})
    audit = Audit(spark, client["bootstrap.servers"], client=client)
    seen = []
    for name in ("offset_commits", "commit_history", "latest_offsets"):
        table = audit.table(name)
        assert "audited" in {row.group_id for row in table.select("group_id").collect()}
        table.explain(extended=True)
        seen += [plans(table), repr(table), *capfd.readouterr()]
    seen += of_the_ui(spark)
    assert [text for text in seen if any(form in text for form in forms(secret))] == []


def forms(secret: str) -> list[str]:
    """A secret as it is, and in base64 wherever it begins."""
    raw = secret.encode()
    coded = [base64.b64encode(b"\0" * shift + raw)[shift + 2 : -4].decode() for shift in range(3)]
    return [secret, *coded]


def test_a_wrong_password_fails_at_once_and_is_not_in_the_error(
    spark: SparkSession, broker: SecureBroker, tmp_path: Path
) -> None:
    given = options(broker, tmp_path, "wrong-but-secret")
    rows = spark.range(2).selectExpr("cast(id as string) as value")

    def read() -> None:
        spark.read.format("klamm").options(**given, subscribe="t-in").load().collect()

    def write() -> None:
        rows.write.format("klamm").mode("append").options(**given, topic="t-wrong").save()

    def stream() -> None:
        frame = spark.readStream.format("klamm").options(**given, subscribe="t-in").load()
        query = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "c")).start()
        query.awaitTermination(60)

    for run in (read, write, stream):
        began = time.monotonic()
        with pytest.raises(Exception, match="SCRAM-SHA-512: user alice") as raised:
            run()
        assert time.monotonic() - began < AT_ONCE_S
        assert "wrong-but-secret" not in str(raised.value)
