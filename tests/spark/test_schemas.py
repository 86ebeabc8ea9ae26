"""Values with schemas in a real Spark: read, written, in functions and jobs, beside Spark's own Avro."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import fastavro
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.avro.functions import from_avro

from avro_schemas import Typed, records
from klamm.registry.server import RegistryServer
from klamm.schemas import AvroSerde, SchemaRegistry
from klamm.schemas.framing import framed
from klamm.spark import from_klamm_avro, to_klamm_avro
from klamm.spark.pipe.failures import BAD_RECORD, JobFailedError
from klamm.spark.pipe.job import job_of
from klamm.spark.pipe.running import run
from spark.clusters import Cluster

_NULLABILITY = ("nullable", "containsNull", "valueContainsNull", "metadata")


@pytest.fixture(scope="module")
def registry(klamm_cluster: Cluster) -> Iterator[SchemaRegistry]:
    with RegistryServer({"bootstrap.servers": klamm_cluster.bootstrap}) as server:
        yield SchemaRegistry(server.url)


def url_of(registry: SchemaRegistry) -> str:
    return repr(registry).split("'")[1]


# Without shrinking: the test of single parts, which reads and writes the same values, does that.
@settings(
    max_examples=5,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.generate],
)
@given(st.lists(records(), min_size=10, max_size=10), st.data())
def test_values_of_any_avro_schema_are_what_sparks_own_from_avro_makes_of_them(
    spark: SparkSession, registry: SchemaRegistry, cases: list[Typed], data: st.DataObject
) -> None:
    url = url_of(registry)
    columns, ours, theirs = [], [], []
    for number, (schema, values) in enumerate(cases):
        text = json.dumps(schema)
        schema_id = registry.id_of(f"case-{hash(text)}", "AVRO", text)
        parsed = fastavro.parse_schema(schema)
        drawn = data.draw(st.lists(values, min_size=3, max_size=3))
        columns.append([framed(schema_id, written(parsed, each)) for each in drawn])
        ours.append(from_klamm_avro(f"c{number}", url, str(schema_id)).alias(f"c{number}"))
        theirs.append(from_avro(f.substr(f.col(f"c{number}"), f.lit(6)), text).alias(f"c{number}"))
    names = ", ".join(f"c{number} binary" for number in range(len(cases)))
    frame = spark.createDataFrame([tuple(row) for row in zip(*columns, strict=True)], names)
    one, other = frame.select(*ours), frame.select(*theirs)
    assert shape(one.schema.jsonValue()) == shape(other.schema.jsonValue())
    assert [plain(row) for row in one.collect()] == [plain(row) for row in other.collect()]


def written(schema: Any, value: Any) -> bytes:
    made = io.BytesIO()
    fastavro.schemaless_writer(made, schema, value)
    return made.getvalue()


def shape(tree: Any) -> Any:
    """A type without what may be null."""
    if isinstance(tree, dict):
        return {name: shape(each) for name, each in tree.items() if name not in _NULLABILITY}
    return [shape(each) for each in tree] if isinstance(tree, list) else tree


def plain(value: Any) -> Any:
    return value.asDict(recursive=True) if isinstance(value, Row) else value


ORDER = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [{"name": "product", "type": "string"}, {"name": "cents", "type": "long"}],
    }
)


def test_a_job_reads_and_writes_avro_and_keeps_what_is_not(
    spark: SparkSession,
    klamm_cluster: Cluster,
    names: Iterator[str],
    registry: SchemaRegistry,
    tmp_path: Path,
) -> None:
    cluster = klamm_cluster
    origin, target, dead = (cluster.create(next(names), 1) for _ in range(3))
    serde = AvroSerde(registry, ORDER)
    good = [serde.serialize(origin, {"product": "a", "cents": cents}) for cents in (1, 2)]
    cluster.fill(origin, [good[0], b"not avro", good[1]])
    tables = {
        "bootstrap": cluster.bootstrap,
        "trigger": "once",
        "checkpoint": str(tmp_path / "checkpoint"),
        "schema_registry": url_of(registry),
        "source": {"topics": origin, "format": "avro", "dead_letters": dead},
        "transform": {"sql": "SELECT product, cents * 2 AS doubled FROM input"},
        "sink": {"topic": target, "format": "avro", "key": "product"},
    }
    job = job_of(tables, name=f"{origin}-job")
    batches: list[Any] = []
    run(spark, job, say=lambda _line: None, report=batches.append)
    read = (
        spark.read.format("klamm")
        .options(
            **{
                "kafka.bootstrap.servers": cluster.bootstrap,
                "subscribe": target,
                "schemaRegistry": url_of(registry),
                "valueColumns": "columns",
                "kafka.isolation.level": "read_committed",
            }
        )
        .load()
    )
    cluster.until_stable(target)
    assert [tuple(row) for row in read.select("product", "doubled", "_key").sort("doubled").collect()] == [
        ("a", 2, b"a"),
        ("a", 4, b"a"),
    ]
    assert batches[0]["first_dead_letter"].startswith(f"{origin}-0 offset 1: value: b'not avro'")
    alone = replace(job, dead_letters=None, checkpoint=str(tmp_path / "alone"), name=f"{origin}-alone")
    with pytest.raises(JobFailedError, match=f"{origin}-0 offset 1: value: b'not avro' does not") as failed:
        run(spark, alone, say=lambda _line: None, report=batches.append)
    assert failed.value.exit_code == BAD_RECORD


def test_a_column_that_is_written_by_a_function_is_read_by_the_other(
    spark: SparkSession, registry: SchemaRegistry
) -> None:
    url = url_of(registry)
    frame = spark.range(3).select(f.struct("id", f.lit("x").alias("note")).alias("row"))
    rows = frame.select(to_klamm_avro("row", url, "functions-value").alias("value")).collect()
    made = spark.createDataFrame(rows, "value binary")  # the schema is registered when the first row is
    back = made.select(from_klamm_avro("value", url, "functions-value").alias("row"))
    assert [tuple(row.row) for row in back.collect()] == [(0, "x"), (1, "x"), (2, "x")]
    odd = made.select(f.lit(b"odd").alias("value"))
    with pytest.raises(PySparkException, match="value 1 of a batch: b'odd' does not begin"):
        odd.select(from_klamm_avro("value", url, "functions-value")).collect()
    kept = odd.select(from_klamm_avro("value", url, "functions-value", mode="PERMISSIVE").alias("row"))
    assert [row.row for row in kept.collect()] == [None, None, None]
