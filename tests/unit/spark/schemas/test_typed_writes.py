"""Rows as values with schemas: what the sink writes is read again, by us and by clients."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from pyspark.sql.pandas.types import from_arrow_schema

import klamm
from klamm.config import ConfigError
from klamm.registry.server import RegistryServer
from klamm.schemas import AvroSerde, JsonSchemaSerde, ProtobufSerde, SchemaRegistry
from klamm.schemas.registry_client import SchemaRegistryError
from klamm.spark.schemas.writing import UnfitValueError
from unit.spark.world import World

ORDER = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}


@pytest.fixture(scope="module")
def url(broker: klamm.Broker) -> Iterator[str]:
    with RegistryServer({"bootstrap.servers": broker.bootstrap}) as server:
        yield server.url


def write(world: World, topic: str, url: str, rows: pa.RecordBatch, **options: str) -> None:
    source = world.source(topic=topic, schemaRegistry=url, **options)
    writer = source.writer(from_arrow_schema(rows.schema), overwrite=False)
    writer.commit([writer.write(iter([rows]))])


def values(*found: Any, kind: Any = None) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"value": pa.array(found, kind)})


def test_a_row_is_written_with_a_schema_of_its_columns_and_read_again(world: World, url: str) -> None:
    topic = world.topic()
    row = {
        "id": 7,
        "day": date(2026, 1, 2),
        "at": datetime(2026, 1, 2, 3, 4, 5, 6, UTC),
        "price": Decimal("1.50"),
        "lines": [{"sku": "a", "count": 2}, None],
        "note": None,
    }
    kind = pa.struct(
        [
            ("id", pa.int32()),
            ("day", pa.date32()),
            ("at", pa.timestamp("us", "UTC")),
            ("price", pa.decimal128(9, 2)),
            ("lines", pa.list_(pa.struct([("sku", pa.string()), ("count", pa.int64())]))),
            ("note", pa.string()),
        ]
    )
    write(world, topic, url, values(row, None, kind=kind))
    assert world.values(subscribe=topic, schemaRegistry=url) == [row, None]
    assert json.loads(SchemaRegistry(url).latest(f"{topic}-value").text)["type"] == "record"


def test_a_registered_schema_is_used_as_it_is_named(world: World, url: str) -> None:
    topic = world.topic()
    schema_id = SchemaRegistry(url).id_of(f"{topic}-value", "AVRO", json.dumps(ORDER))
    for named in ("latest", str(schema_id), f"{topic}-value", json.dumps(ORDER)):
        write(world, topic, url, values({"id": 1}), valueSchema=named)
    read = world.rows(subscribe=topic)
    assert [AvroSerde(url).deserialize(topic, row["value"]) for row in read] == [{"id": 1}] * 4
    assert {row["value"][:5] for row in read} == {b"\0" + schema_id.to_bytes(4)}


def test_keys_are_written_with_a_schema_too(world: World, url: str) -> None:
    topic = world.topic()
    rows = pa.RecordBatch.from_pydict({"key": ["me"], "value": [b"plain"]})
    write(world, topic, url, rows, keySchema='"string"')
    (row,) = world.rows(subscribe=topic)
    assert (AvroSerde(url).deserialize(topic, row["key"]), row["value"]) == ("me", b"plain")


def test_members_of_a_union_are_written_as_what_they_hold(world: World, url: str) -> None:
    topic = world.topic()
    field = {"name": "either", "type": ["null", "int", "string"]}
    text = json.dumps({"type": "record", "name": "R", "fields": [field]})
    rows = [{"either": {"member0": None, "member1": "x"}}, {"either": None}]
    write(world, topic, url, values(*rows), valueSchema=text)
    assert world.values(subscribe=topic, schemaRegistry=url) == rows


def test_json_and_protobuf_are_written_with_their_schemas(world: World, url: str) -> None:
    registry = SchemaRegistry(url)
    topic = world.topic()
    schema = json.dumps({"type": "object", "properties": {"id": {"type": "integer"}}})
    registry.id_of(f"{topic}-value", "JSON", schema)
    write(world, topic, url, values({"id": 1, "note": None}), valueSchema="latest")
    (row,) = world.rows(subscribe=topic)
    assert JsonSchemaSerde(url).deserialize(topic, row["value"]) == {"id": 1}

    topic = world.topic()
    file = FileDescriptorProto(name="order.proto", syntax="proto3")
    message = file.message_type.add(name="Order")
    message.field.add(name="id", number=1, type=FieldDescriptorProto.TYPE_INT64, label=1)
    message.field.add(name="tags", number=2, type=FieldDescriptorProto.TYPE_STRING, label=3)
    pool = DescriptorPool()
    pool.Add(file)
    order = GetMessageClass(pool.FindMessageTypeByName("Order"))
    ProtobufSerde(url, message_type=order).serialize(topic, order())
    write(world, topic, url, values({"id": 1, "tags": ["a"]}), valueSchema="latest")
    assert world.values(subscribe=topic, schemaRegistry=url) == [{"id": 1, "tags": ["a"]}]


def test_what_does_not_fit_is_refused_and_nothing_of_it_written(world: World, url: str) -> None:
    topic = world.topic()
    with pytest.raises(UnfitValueError, match="more fields than the schema specifies: other"):
        write(world, topic, url, values({"other": 1}), valueSchema=json.dumps(ORDER))
    assert world.end_offset(topic) == 0
    topic = world.topic()
    write(world, topic, url, values({"id": 1}))
    with pytest.raises(SchemaRegistryError, match="incompatible"):
        write(world, topic, url, values({"id": "text"}))
    with pytest.raises(ConfigError, match="no subject nowhere"):
        write(world, topic, url, values({"id": 1}), valueSchema="nowhere")
    assert world.end_offset(topic) == 1


def test_a_struct_without_a_registry_is_refused_with_what_to_write(world: World) -> None:
    source = world.source(topic="t")
    with pytest.raises(ConfigError, match="or set option schemaRegistry"):
        source.writer(from_arrow_schema(values({"id": 1}).schema), overwrite=False)
