"""The pipeline on Spark: a data source that reads and writes topics of any Kafka cluster.

Only this package imports pyspark, and it stops at klamm's client. `klamm.spark.session()` gives a session in
which `format("klamm")` works at once.
"""

from klamm.spark.setup.java import SparkSetupError
from klamm.spark.setup.sessions import session

__all__ = ["SparkSetupError", "session"]
