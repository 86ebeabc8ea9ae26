"""Values that do not fit, as records of the dead-letter topic: with their origin, and what was wrong."""

from __future__ import annotations

from typing import Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from klamm.spark.pipe.job import Job
from klamm.spark.read.typed_rows import ERROR
from klamm.spark.schema import HEADERS_TYPE

PREFIX: Final = "klamm."
TOPIC: Final = "klamm.origin.topic"
PARTITION: Final = "klamm.origin.partition"
OFFSET: Final = "klamm.origin.offset"
TIMESTAMP: Final = "klamm.origin.timestamp"  # milliseconds since 1970
JOB: Final = "klamm.job"
CLASS: Final = "klamm.error.class"
MESSAGE: Final = "klamm.error.message"
STAGE: Final = "klamm.error.stage"
REDRIVES: Final = "klamm.redrives"  # how often the record was put back; stays with it

# In the progress of the query.
METRIC: Final = "klamm_dead_letters"
WRITTEN: Final = "klamm_written"


def dead_letters(job: Job, rows: DataFrame, value: str) -> DataFrame:
    """The rows whose column `value` holds what does not fit, with headers; the record's own stay."""
    assert job.dead_letters is not None
    dead = rows.where(f.col(value).isNotNull())
    message = _message(job)
    place = f.concat(
        f.concat_ws("-", "_topic", "_partition"), f.lit(" offset "), f.col("_offset").cast("string")
    )
    first = f.concat(place, f.lit(": "), message)
    dead = dead.observe(METRIC, f.count(f.lit(1)).alias("count"), f.min(first).alias("first"))
    headers = {
        TOPIC: f.col("_topic"),
        PARTITION: f.col("_partition").cast("string"),
        OFFSET: f.col("_offset").cast("string"),
        TIMESTAMP: f.unix_millis("_timestamp").cast("string"),
        JOB: f.lit(job.name),
        CLASS: f.lit("MalformedValue"),
        MESSAGE: message,
        STAGE: f.lit("decode"),
    }
    return dead.select(
        f.col("_key").alias("key"),
        f.col(value).alias("value"),
        f.lit(job.dead_letters).alias("topic"),
        _headers(headers).cast(HEADERS_TYPE).alias("headers"),
    )


def _message(job: Job) -> Column:
    if job.has_schemas:
        return f.col(ERROR.name)
    what = {"json": "JSON", "csv": "CSV"}.get(job.source_format, job.source_format)
    return f.lit(f"the value is not {what} with columns {job.schema}")


def _headers(added: dict[str, Column]) -> Column:
    """The record's own headers, and ours after them; those of an earlier failure are replaced."""

    def is_kept(header: Any) -> Any:
        name = f.coalesce(header["key"], f.lit(""))
        return ~name.startswith(PREFIX) | (name == REDRIVES)

    kept = f.filter(f.coalesce(f.col("_headers"), f.array().cast(HEADERS_TYPE)), is_kept)
    ours = [
        f.struct(f.lit(name).alias("key"), value.cast("binary").alias("value"))
        for name, value in added.items()
    ]
    return f.concat(kept, f.array(*ours))
