"""One task for each partition of a topic: what one transaction for a whole batch needs."""

from __future__ import annotations

import re
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from klamm.records.columns import partition_rows
from klamm.spark.write.turns import CAN_SHARE
from klamm.spark.write.writing import binary_input

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame, SparkSession


def by_partition(df: DataFrame, partition_count: int, *, tasks: int | None = None) -> DataFrame:
    """Make rows fit one transaction for all tasks, for a topic of so many partitions.

    On one machine nothing is to be done, unless `tasks` is given: there, tasks take turns. On a cluster every
    partition gets one task, and column `partition` is filled: rows with a key go to the partition that Java's
    producer chooses, others to any; a value that is there already is kept. `tasks` is the number of tasks, as
    many as partitions by default.
    """
    from pyspark.sql import functions as f  # noqa: PLC0415

    if partition_count < 1:
        raise ValueError(f"a topic has 1 partition or more, not {partition_count}")
    if tasks is None and takes_turns(df.sparkSession):
        return df
    filled = with_partition(df, partition_count)
    count = min(tasks or partition_count, partition_count)
    if count == 1:
        return filled.repartition(1)
    return filled.repartitionById(count, f.pmod(f.col("partition"), f.lit(count)).cast("int"))


def takes_turns(spark: SparkSession) -> bool:
    """Whether all tasks run in one process of Spark, so that any of them may write to any partition."""
    context: SparkContext | None = getattr(spark, "_sc", None)  # a remote session has none
    return (
        CAN_SHARE
        and context is not None
        and re.fullmatch(r"local(\[.*\])?", context.master or "") is not None
    )


def with_partition(df: DataFrame, partition_count: int) -> DataFrame:
    """Only fill column `partition`; rows stay in the tasks where they are."""
    from pyspark.sql import functions as f  # noqa: PLC0415

    if partition_count < 1:
        raise ValueError(f"a topic has 1 partition or more, not {partition_count}")
    chosen = _partition_of(df, partition_count)
    if "partition" in df.columns:
        chosen = f.coalesce(f.col("partition"), chosen)
    return df.withColumn("partition", chosen.cast("int"))


def _partition_of(df: DataFrame, partition_count: int) -> Any:
    from pyspark.sql import functions as f  # noqa: PLC0415
    from pyspark.sql.pandas.functions import arrow_udf  # noqa: PLC0415

    if partition_count == 1:
        return f.lit(0)
    if "key" not in df.columns:
        return f.floor(f.rand() * partition_count)

    def hashed(keys: Any) -> Any:
        rows = len(keys)
        key = binary_input(keys)
        found = partition_rows(rows, key, None, partition_count, Random().randrange(partition_count))
        return pa.Array.from_buffers(pa.int32(), rows, [None, pa.py_buffer(found)])

    hashed.__annotations__ = {"keys": pa.Array, "return": pa.Array}  # Spark goes by them
    made: Any = arrow_udf  # its stubs require the function type, which warns at run time
    return made(hashed, "int")(f.col("key"))
