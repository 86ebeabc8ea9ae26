"""What Spark finds in a job without running it: columns, types, and what a stream cannot do."""

from __future__ import annotations

from typing import NamedTuple

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from klamm.config import ConfigError
from klamm.spark.pipe.failures import cause_of
from klamm.spark.pipe.job import Job
from klamm.spark.pipe.plan import PlanFacts, facts_of
from klamm.spark.pipe.query import output, parsed, source, transformed


class Analysis(NamedTuple):
    """The columns that the transform makes, and what a checkpoint depends on."""

    columns: str
    plan: PlanFacts


def analysed(spark: SparkSession, job: Job) -> Analysis:
    """What Spark makes of the job. Raises ConfigError with Spark's reason if it is wrong."""
    try:
        result = transformed(spark, job, parsed(job, source(spark, job)))
        # Any number of partitions: only the plan is made.
        whole = output(spark, job, dict.fromkeys(_targets(job), 1))
        _check_streaming(whole, job.mode)
        plan = facts_of(whole, has_dead_letters=job.dead_letters is not None)
    except PySparkException as error:
        raise ConfigError("transform", cause_of(str(error))) from None
    fields = [field for field in result.schema.fields if not field.name.startswith("_")]
    columns = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in fields)
    return Analysis(columns, plan)


def _targets(job: Job) -> list[str]:
    return [job.target, *([job.dead_letters] if job.dead_letters else [])]


def _check_streaming(frame: DataFrame, mode: str) -> None:
    """What Spark checks when it starts a query: an aggregation does not fit every output mode, for one."""
    jvm = frame.sparkSession._jvm  # PySpark offers no other way
    assert jvm is not None
    modes = jvm.org.apache.spark.sql.streaming.OutputMode
    jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker.checkForStreaming(
        frame._jdf.queryExecution().analyzed(),
        modes.Complete() if mode == "complete" else modes.Append(),
    )
