"""What happened in a cluster's groups and transactions, from the coordinators' own logs.

`Audit` gives the tables as DataFrames; `klamm audit` writes them as Parquet with a report.
"""

from klamm.spark.audit.schemas import BASE, DERIVED
from klamm.spark.audit.tables import Audit

__all__ = ["BASE", "DERIVED", "Audit"]
