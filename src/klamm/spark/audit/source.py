"""Derived tables of an audit as a data source: rows go to Spark instead of into files."""

from __future__ import annotations

import base64
import pickle
from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from klamm.spark.audit.one_pass import AuditTask, audit_rows
from klamm.spark.audit.schemas import schema_of
from klamm.spark.read.rows import MAX_ROWS


class AuditReader(DataSourceReader):
    """One table of one pass."""

    def __init__(self, table: str, planned: tuple[AuditTask, Sequence[InputPartition]]) -> None:
        self._table = table
        self._task, self._ranges = planned

    def partitions(self) -> Sequence[InputPartition]:
        return self._ranges

    def read(self, partition: InputPartition) -> Iterator[Any]:
        schema = to_arrow_schema(schema_of(self._table), timezone="UTC")
        for name, batch in audit_rows(self._task, partition):
            if name != self._table:
                continue
            fitting = batch.cast(schema)
            for start in range(0, fitting.num_rows, MAX_ROWS):
                yield fitting.slice(start, MAX_ROWS)


class AuditSource(DataSource):
    """Options: `table`, and `plan`, which `Audit` makes."""

    @classmethod
    def name(cls) -> str:
        return "klamm_audit"

    @staticmethod
    def plan_text(planned: tuple[AuditTask, Sequence[InputPartition]]) -> str:
        """A plan as an option."""
        return base64.b64encode(pickle.dumps(planned)).decode()

    def schema(self) -> StructType:
        return schema_of(self.options["table"])

    def reader(self, schema: StructType) -> DataSourceReader:
        planned = pickle.loads(base64.b64decode(self.options["plan"]))  # made by this program itself
        return AuditReader(self.options["table"], planned)
