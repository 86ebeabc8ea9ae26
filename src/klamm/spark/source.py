"""The data source `klamm`, which creates readers and writers for Spark.

Named, configured and shaped like Spark's own Kafka connector: `format("klamm")` instead of `format("kafka")`
is all that a query changes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
)
from pyspark.sql.types import StructType

from klamm.config import ConfigError
from klamm.spark.decode.tables import table_schema
from klamm.spark.options.options import SinkOptions, SourceOptions, sink_options, source_options
from klamm.spark.schema import check_projection, check_sink_schema, source_schema
from klamm.spark.schemas.options import ReadSchemas, read_schemas
from klamm.spark.setup.freezing import freeze_once
from klamm.spark.setup.refusals import explained


def offered_schema(options: SourceOptions) -> StructType:
    """All columns that a query with these options has."""
    if options.read_schemas is not None:
        from klamm.spark.read.typed_rows import typed_schema  # noqa: PLC0415 - few queries need it

        return typed_schema(options.read_schemas, includes_headers=options.includes_headers)
    if options.decode is not None:
        return table_schema(options.decode.format_name, options.decode.table)
    return source_schema(options.includes_headers)


class KlammDataSource(DataSource):
    """Reads and writes topics of any Kafka cluster. Options are checked before anything runs."""

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        freeze_once()  # a process that makes one makes many
        self._is_fresh = True
        self._read_schemas: ReadSchemas | None = None

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Spark plans each micro-batch with a source that it makes, and commits with a copy of that."""
        self.__dict__ = {**state, "_is_fresh": False}

    @classmethod
    def name(cls) -> str:
        return "klamm"

    @explained
    def schema(self) -> StructType:
        """All columns. Whether it will be a batch or a stream is not known yet: one must be possible."""
        try:
            options = source_options(self.options, is_streaming=False)
        except ConfigError as error:
            has_end = any(name.lower().startswith("ending") for name in self.options)
            if has_end:
                raise error  # only a batch has one, so a batch is meant
            options = source_options(self.options, is_streaming=True)
        return offered_schema(self._with_schemas(options))

    def _with_schemas(self, options: SourceOptions) -> SourceOptions:
        """The registry is asked once: later it may have another schema than the one of the columns."""
        if options.schemas is None:
            return options
        if self._read_schemas is None:
            self._read_schemas = read_schemas(options.schemas, options.subscription.names)
        return replace(options, read_schemas=self._read_schemas)

    @explained
    def reader(self, schema: StructType) -> DataSourceReader:
        # Imported where they are needed: Spark imports this module for every query of any format.
        from klamm.spark.read.batch_reader import BatchReader  # noqa: PLC0415
        from klamm.spark.read.pushdown import FilteringReader  # noqa: PLC0415

        freeze_once()
        options = self._with_schemas(source_options(self.options, is_streaming=False))
        check_projection(schema, offered_schema(options))
        return (FilteringReader if options.pushes_filters else BatchReader)(options, schema)

    @explained
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        from klamm.spark.read.stream_reader import StreamReader  # noqa: PLC0415

        options = self._with_schemas(source_options(self.options, is_streaming=True))
        check_projection(schema, offered_schema(options))
        return StreamReader(options, schema)

    @explained
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        from klamm.spark.write.writers import BatchWriter, ExactlyOnceBatchWriter  # noqa: PLC0415

        if overwrite:
            raise ConfigError("mode", 'a topic cannot be overwritten: use .mode("append")')
        options = self._sink(schema)
        return ExactlyOnceBatchWriter(options) if options.is_exactly_once else BatchWriter(options)

    @explained
    def streamWriter(  # noqa: N802 - Spark's name
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamArrowWriter:
        from klamm.spark.write.writers import ExactlyOnceStreamWriter, StreamWriter  # noqa: PLC0415

        freeze_once()  # one process plans the sink of every batch
        # Output mode `complete` overwrites; a topic gets all rows again, as with Spark's own connector.
        options = self._sink(schema)
        if options.is_exactly_once:
            return ExactlyOnceStreamWriter(options, is_planned=self._is_fresh)
        return StreamWriter(options)

    def _sink(self, schema: StructType) -> SinkOptions:
        from klamm.spark.write.topics import require_sink_topic  # noqa: PLC0415 - connects

        options = sink_options(self.options)
        check_sink_schema(schema, options.topic, has_schemas=options.schemas is not None)
        if options.topic is not None and self._is_fresh:
            require_sink_topic(options, options.topic)
        return options
