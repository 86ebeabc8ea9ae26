"""The pipeline on Spark: a data source that reads and writes topics of any Kafka cluster.

Only this package imports pyspark, and it stops at klamm's client. `klamm.spark.session()` gives a session in
which `format("klamm")` works at once.
"""

from typing import TYPE_CHECKING, Any

from klamm.spark.setup.java import SparkSetupError
from klamm.spark.setup.sessions import session

if TYPE_CHECKING:
    from klamm.spark.write.partitioning import by_partition

__all__ = ["SparkSetupError", "by_partition", "session"]


def __getattr__(name: str) -> Any:
    """Imported when it is used: Spark's workers import this package, and few need pyarrow from here."""
    if name == "by_partition":
        from klamm.spark.write.partitioning import by_partition  # noqa: PLC0415

        return by_partition
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
