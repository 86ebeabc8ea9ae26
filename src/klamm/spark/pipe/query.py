"""A job as Spark's DataFrames: source, transform, sink."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import BinaryType, StringType, StructType

from klamm.client.admin.admin import Admin
from klamm.client.config import ADMIN
from klamm.config import ConfigError
from klamm.spark.options.options import for_client, sink_options
from klamm.spark.pipe.dead_letters import WRITTEN, dead_letters
from klamm.spark.pipe.ends import reading, writing
from klamm.spark.pipe.failures import cause_of
from klamm.spark.pipe.fitting import check_fits, fit
from klamm.spark.pipe.job import WITH_SCHEMAS, Job, transform_function
from klamm.spark.pipe.plan import facts_of
from klamm.spark.pipe.record import record_of
from klamm.spark.pipe.resuming import ReadCluster, keep_record
from klamm.spark.read.typed_rows import BAD, ERROR
from klamm.spark.schema import HEADERS_TYPE
from klamm.spark.schemas.functions import to_klamm_avro
from klamm.spark.write.partitioning import by_partition, takes_turns, with_partition

VIEW: Final = "input"
_CORRUPT: Final = "_corrupt_record"
_DEAD: Final = "_dead"
_META: Final = ("key", "topic", "partition", "offset", "timestamp")
_HEADERS: Final = "headers"


def source(spark: SparkSession, job: Job) -> DataFrame:
    """The rows of the job's topics, unchanged."""
    return spark.readStream.format("klamm").options(**reading(job)).load()


def parsed(job: Job, raw: DataFrame) -> DataFrame:
    """Rows in the columns of the job's schema, with the record's place as `_topic`, `_offset` and so on.

    Column `_dead` has the value of a record that does not fit the schema.
    """
    if job.source_format == "raw":
        return raw
    if job.has_schemas:
        bad = f.when(f.col(ERROR.name).isNotNull(), f.coalesce(BAD.name, f.lit(b"")))
        return raw.withColumn(_DEAD, bad).drop(BAD.name)
    fields = [field.name for field in schema_of(job).fields]
    text = f.col("value").cast("string")
    wide = f"{job.schema}, {_CORRUPT} string"
    settings = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    read = f.from_json if job.source_format == "json" else f.from_csv
    meta = [*_META, *(name for name in raw.columns if name == _HEADERS)]
    columns = [f.col(name).alias(f"_{name}") for name in meta]
    found: Any = read(text, wide, settings)
    rows = raw.select(*columns, f.col("value").alias("_value"), found.alias("_parsed"))
    corrupt = f.col(f"_parsed.{_CORRUPT}").isNotNull() | f.col("_parsed").isNull()
    return rows.select(
        *(f.col(f"_parsed.`{name}`").alias(name) for name in fields),
        *(f.col(f"_{name}") for name in meta),
        f.when(corrupt, f.col("_value")).alias(_DEAD),
    )


def schema_of(job: Job) -> StructType:
    """The columns that the values are read into; raises ConfigError when Spark cannot read the text."""
    try:
        found = StructType.fromDDL(job.schema or "")
    except PySparkException as error:
        raise ConfigError(
            "source.schema", f'invalid value "{job.schema}" for source.schema: {cause_of(str(error))}'
        ) from None
    assert isinstance(found, StructType)
    return found


def transformed(spark: SparkSession, job: Job, rows: DataFrame) -> DataFrame:
    """What the job makes of the rows; the rows themselves when it has no transform."""
    if job.sql is not None:
        rows.createOrReplaceTempView(VIEW)
        return spark.sql(job.sql)
    if job.function is not None:
        try:
            made = transform_function(job.function)(rows)
        except PySparkException:
            raise  # says by itself what is wrong with the query
        except Exception as error:
            raise ConfigError(
                "transform.function", f"{job.function} raised {type(error).__name__}: {error}"
            ) from error
        if not isinstance(made, DataFrame):
            raise ConfigError(
                "transform.function", f"{job.function} returned {type(made).__name__}, not a DataFrame"
            )
        return made
    return rows


def records(job: Job, result: DataFrame) -> DataFrame:
    """Rows as records: columns `key`, `value` and `topic`."""
    columns = [name for name in result.columns if not name.startswith("_")]
    if job.source_format == "raw" and job.sql is None and job.function is None:
        return result.select("key", "value", f.lit(job.target).alias("topic"))
    key: Any = f.lit(None).cast("binary")
    if job.key is not None:
        if job.key not in columns:
            raise ConfigError("sink.key", f"there is no column {job.key}: {', '.join(columns)}")
        key = f.col(job.key).cast("string").cast("binary")
    elif job.sink_format == "raw" and "key" in columns:
        key = f.col("key").cast("binary")
    if job.sink_format == "raw":
        if "value" not in columns or not isinstance(result.schema["value"].dataType, BinaryType | StringType):
            raise ConfigError("sink.format", 'sink.format = "raw" needs a column value of text or bytes')
        value: Any = f.col("value")
    else:
        value = _encoded(job, f.struct(*(f.col(name) for name in columns)))
    return result.select(
        key.alias("key"), value.cast("binary").alias("value"), f.lit(job.target).alias("topic")
    )


def _encoded(job: Job, row: Column) -> Column:
    """The columns of a row as one value."""
    if job.sink_format in WITH_SCHEMAS:
        assert job.schema_registry is not None
        subject = f"{job.target}-value"
        return to_klamm_avro(row, job.schema_registry, subject, schema=job.sink_schema)
    return f.to_json(row) if job.sink_format == "json" else f.to_csv(row)


def _results(spark: SparkSession, job: Job, rows: DataFrame) -> DataFrame:
    """The records of the target, counted."""
    made = records(job, transformed(spark, job, rows))
    return made.observe(WRITTEN, f.count(f.lit(1)).alias("count"))


def output(spark: SparkSession, job: Job, partition_counts: Mapping[str, int]) -> DataFrame:
    """Everything that the job writes, dead letters included: one query, so one transaction."""
    rows = parsed(job, source(spark, job))
    if job.source_format == "raw":
        return _placed(_results(spark, job, rows), job, job.target, partition_counts)
    if job.dead_letters is None:
        # Without a dead-letter topic, a record that does not fit the schema ends the query.
        message = f.concat(
            f.lit("the record does not fit source.schema: "),
            f.concat_ws("-", "_topic", "_partition"),
            f.lit(" offset "),
            f.col("_offset").cast("string"),
            *((f.lit(": "), f.col(ERROR.name)) if job.has_schemas else ()),
        )
        rows = rows.where(f.when(f.col(_DEAD).isNull(), f.lit(True)).otherwise(f.raise_error(message)))
        rows = rows.drop(_DEAD, ERROR.name)
        return _placed(_results(spark, job, rows), job, job.target, partition_counts)
    fitting = rows.where(f.col(_DEAD).isNull()).drop(_DEAD, ERROR.name)
    good = _results(spark, job, fitting)
    good = good.withColumn("headers", f.lit(None).cast(HEADERS_TYPE))
    # A source of its own, the last one of the query: it can be added to a checkpoint, and be taken away.
    dead = parsed(job, source(spark, job.for_dead_letters))
    return _placed(good, job, job.target, partition_counts).unionByName(
        _placed(dead_letters(job, dead, _DEAD), job, job.dead_letters, partition_counts)
    )


def _placed(frame: DataFrame, job: Job, topic: str, partition_counts: Mapping[str, int]) -> DataFrame:
    return with_partition(frame, partition_counts[topic]) if _is_shuffled(job, frame.sparkSession) else frame


def _is_shuffled(job: Job, spark: SparkSession) -> bool:
    """Whether each partition of the output must be written by one task."""
    if not job.is_exactly_once or job.sink_options.get("txn.mode") == "per-task":
        return False
    return job.parallelism is not None or not takes_turns(spark)


def started(spark: SparkSession, job: Job) -> Any:
    """Start the query, on a checkpoint that fits it. Raises JobFailedError if there is another one."""
    counts = partition_counts(job)
    cluster = ReadCluster(job)
    frame = output(spark, cluster.resumed(), counts)
    facts = facts_of(frame, has_dead_letters=job.dead_letters is not None)
    now = record_of(job, cluster_id=cluster.cluster_id, plan=facts)
    found = check_fits(job, now)
    fit(
        job,
        found,
        source_count=facts.source_count + (job.dead_letters is not None),
        firsts=cluster.firsts(found.checkpoint),
    )
    if _is_shuffled(job, spark):
        frame = by_partition(frame, max(counts.values()), tasks=job.parallelism)
    writer = frame.writeStream.format("klamm").outputMode(job.mode).options(**writing(job))
    if job.trigger == "once":
        writer = writer.trigger(availableNow=True)
    elif job.trigger != "continuous":
        writer = writer.trigger(processingTime=job.trigger)
    # Before its first batch: what that one leaves behind is known by the name and the delivery of this job.
    keep_record(job, found, now)
    return writer.queryName(job.name).start()


def partition_counts(job: Job) -> dict[str, int]:
    """The partitions of the topics that the job writes to. Raises KlammError when one does not exist."""
    names = sorted({job.target, *([job.dead_letters] if job.dead_letters else [])})
    with Admin(for_client(sink_options(writing(job)).client, ADMIN)) as admin:
        described = admin.describe_topics(names).unwrap()
    return {name: len(described[name].partitions) for name in names}
