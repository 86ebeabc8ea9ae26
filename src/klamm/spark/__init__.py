"""The pipeline on Spark: a data source that reads and writes topics of any Kafka cluster.

Only this package imports pyspark, and it stops at klamm's client. `klamm.spark.session()` gives a session in
which `format("klamm")` works at once.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from klamm.spark.setup.java import SparkSetupError
from klamm.spark.setup.sessions import session

if TYPE_CHECKING:
    from klamm.spark.read.progress import offsets_behind_latest
    from klamm.spark.schemas.functions import from_klamm_avro, to_klamm_avro
    from klamm.spark.write.partitioning import by_partition

# Imported when they are used: Spark's workers import this package, and few need pyarrow from here.
_LATE = {
    "by_partition": "klamm.spark.write.partitioning",
    "from_klamm_avro": "klamm.spark.schemas.functions",
    "offsets_behind_latest": "klamm.spark.read.progress",
    "to_klamm_avro": "klamm.spark.schemas.functions",
}
__all__ = [
    "SparkSetupError",
    "by_partition",
    "from_klamm_avro",
    "offsets_behind_latest",
    "session",
    "to_klamm_avro",
]


def __getattr__(name: str) -> Any:
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LATE[name]), name)
