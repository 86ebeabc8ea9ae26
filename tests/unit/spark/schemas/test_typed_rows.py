"""Values with schemas as columns: what the source makes of a topic, with a real registry."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

import klamm
from klamm.config import ConfigError
from klamm.registry.server import RegistryServer
from klamm.schemas import AvroSerde, JsonSchemaSerde, ProtobufSerde, SchemaRegistry, SchemaRegistryError
from klamm.schemas.framing import framed
from klamm.spark.read.typed_rows import BadValueError
from unit.spark.world import Query, World

V1 = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
V2 = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "cents", "type": ["null", "long"], "default": None},
    ],
}


@pytest.fixture(scope="module")
def url(broker: klamm.Broker) -> Iterator[str]:
    with RegistryServer({"bootstrap.servers": broker.bootstrap}) as server:
        yield server.url


def avro(url: str, topic: str, schema: Any, *values: Any) -> list[bytes]:
    """Values as a producer with this schema writes them."""
    serde = AvroSerde(url, json.dumps(schema))
    return [serde.serialize(topic, value) for value in values]


def test_the_value_is_a_struct_of_the_latest_schema(world: World, url: str) -> None:
    topic = world.topic()
    world.fill(topic, avro(url, topic, V1, {"id": 1}))
    world.fill(topic, [*avro(url, topic, V2, {"id": 2, "cents": 250}), None])
    rows = world.rows(subscribe=topic, schemaRegistry=url)
    assert [row["value"] for row in rows] == [{"id": 1, "cents": None}, {"id": 2, "cents": 250}, None]
    assert [row["offset"] for row in rows] == [0, 1, 2]


def test_its_fields_are_columns_when_that_is_asked_for(world: World, url: str) -> None:
    topic = world.topic()
    world.fill(topic, avro(url, topic, V1, {"id": 1}), key=b"k")
    (row,) = world.rows(subscribe=topic, schemaRegistry=url, valueColumns="columns")
    assert list(row) == ["id", "_key", "_topic", "_partition", "_offset", "_timestamp", "_timestampType"]
    assert (row["id"], row["_key"], row["_topic"], row["_offset"]) == (1, b"k", topic, 0)


def test_values_are_read_as_a_schema_that_is_named(world: World, url: str) -> None:
    topic = world.topic()
    world.fill(topic, avro(url, topic, V2, {"id": 1, "cents": 5}))
    first = SchemaRegistry(url).id_of(f"other-{topic}", "AVRO", json.dumps(V1))
    for named in (str(first), f"other-{topic}", json.dumps(V1)):
        assert world.values(subscribe=topic, schemaRegistry=url, valueSchema=named) == [{"id": 1}]


def test_keys_have_a_schema_when_it_is_named(world: World, url: str) -> None:
    topic = world.topic()
    key = AvroSerde(url, '"string"', is_key=True).serialize(topic, "me")
    world.fill(topic, avro(url, topic, V1, {"id": 1}), key=key)
    (row,) = world.rows(subscribe=topic, schemaRegistry=url, keySchema="latest")
    assert row["key"] == "me"


def test_several_types_of_records_are_fields_of_one_struct(world: World, url: str) -> None:
    topic = world.topic()
    refund = {"type": "record", "name": "shop.Refund", "fields": [{"name": "why", "type": "string"}]}
    names = []
    for schema, value in ((V1, {"id": 1}), (refund, {"why": "late"})):
        serde = AvroSerde(url, json.dumps(schema), subject="topic-record")
        world.fill(topic, [serde.serialize(topic, value)])
        names.append(f"{topic}-{schema['name']}")
    assert world.values(subscribe=topic, schemaRegistry=url, valueSchema=",".join(names)) == [
        {"Order": {"id": 1}, "Refund": None},
        {"Order": None, "Refund": {"why": "late"}},
    ]


def test_a_value_that_cannot_be_read_is_named_by_its_place(world: World, url: str) -> None:
    topic = world.topic()
    world.fill(topic, [*avro(url, topic, V1, {"id": 1}), b"text"])
    with pytest.raises(BadValueError, match=rf"{topic}-0 offset 1: value: b'text' does not begin"):
        world.rows(subscribe=topic, schemaRegistry=url)


def test_what_cannot_be_read_is_kept_beside_the_rest_when_asked_for(world: World, url: str) -> None:
    topic = world.topic()
    (good,) = avro(url, topic, V1, {"id": 1})
    bad = [b"", b"text", framed(999_999, b"\x02"), good + b"x", good[:5]]
    world.fill(topic, [good, *bad, good])
    rows = world.rows(subscribe=topic, schemaRegistry=url, badValues="keep", valueColumns="columns")
    assert [row["id"] for row in rows] == [1, None, None, None, None, None, 1]
    assert [row["_bad"] for row in rows] == [None, *bad, None]
    errors = [row["_error"] for row in rows]
    assert (errors[0], errors[-1]) == (None, None)
    for reason, said in zip(
        errors[1:-1],
        ("does not begin", "does not begin", "does not know", "ends after", "not a value"),
        strict=True,
    ):
        assert said in reason


def test_a_registry_that_is_away_fails_the_batch_and_no_value(
    world: World, url: str, broker: klamm.Broker
) -> None:
    topic = world.topic()
    with RegistryServer({"bootstrap.servers": broker.bootstrap}) as soon_away:
        values = avro(soon_away.url, topic, V1, {"id": 1})
        gone = soon_away.url
        text = json.dumps(V1)
    world.fill(topic, values)
    with pytest.raises(SchemaRegistryError, match="did not answer"):
        world.rows(subscribe=topic, schemaRegistry=gone, valueSchema=text, badValues="keep")


def test_a_stream_keeps_the_columns_that_it_began_with(world: World, url: str) -> None:
    topic = world.topic()
    world.fill(topic, avro(url, topic, V1, {"id": 1}))
    query = Query(world.stream(subscribe=topic, startingOffsets="earliest", schemaRegistry=url))
    assert [row["value"] for row in query.everything()] == [{"id": 1}]
    world.fill(topic, avro(url, topic, V2, {"id": 2, "cents": 3}))
    assert [row["value"] for row in query.everything()] == [{"id": 2}]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"schemaRegistry": "ftp://x"}, "not the URL of a schema registry"),
        ({"valueSchema": "7"}, "needs option schemaRegistry"),
        ({"schemaRegistry": "URL", "schemaRegistry.colour": "x"}, "unknown setting schemaRegistry.colour"),
        ({"schemaRegistry": "URL"}, "has no subject missing-value: register it, or set option valueSchema"),
        ({"schemaRegistry": "URL", "valueSchema": "999999"}, "has no schema 999999"),
        ({"schemaRegistry": "URL", "valueSchema": '{"type": "nonsense"}'}, "not an Avro schema"),
        ({"schemaRegistry": "URL", "valueSchema": '"long"', "valueColumns": "columns"}, "schema of records"),
        ({"schemaRegistry": "URL", "decode": "consumer_offsets", "table": "offset_commits"}, "with decode"),
    ],
)
def test_options_that_cannot_be_are_refused(
    world: World, url: str, options: dict[str, str], said: str
) -> None:
    given = {name: url if value == "URL" else value for name, value in options.items()}
    source = {} if "decode" in given else {"subscribe": "missing"}
    with pytest.raises(ConfigError, match=said):
        world.source(**source, **given).schema()


def test_a_recursive_schema_and_one_that_stands_for_millions_of_columns_are_refused(
    world: World, url: str
) -> None:
    link = {"name": "next", "type": ["null", "Node"]}
    recursive = {"type": "record", "name": "Node", "fields": [link]}
    with pytest.raises(ConfigError, match="recursive: Node contains itself"):
        world.source(subscribe="t", schemaRegistry=url, valueSchema=json.dumps(recursive)).schema()
    grown: Any = {"type": "record", "name": "R0", "fields": [{"name": "x", "type": "int"}]}
    for depth in range(1, 30):
        fields = [{"name": "a", "type": grown}, {"name": "b", "type": f"R{depth - 1}"}]
        grown = {"type": "record", "name": f"R{depth}", "fields": fields}
    with pytest.raises(ConfigError, match="more than 10000 types"):
        world.source(subscribe="t", schemaRegistry=url, valueSchema=json.dumps(grown)).schema()


def test_a_schema_of_two_megabytes_is_read(world: World, url: str) -> None:
    topic = world.topic()
    wide = V1 | {"doc": "x" * 2_000_000}
    world.fill(topic, avro(url, topic, V1, {"id": 1}))
    assert world.values(subscribe=topic, schemaRegistry=url, valueSchema=json.dumps(wide)) == [{"id": 1}]


def test_json_with_a_schema_has_its_columns(world: World, url: str) -> None:
    topic = world.topic()
    schema = {
        "title": "Order",
        "type": "object",
        "definitions": {"line": {"type": "object", "properties": {"sku": {"type": "string"}}}},
        "properties": {
            "id": {"type": "integer"},
            "price": {"type": ["number", "null"]},
            "lines": {"type": "array", "items": {"$ref": "#/definitions/line"}},
            "tags": {"type": "object", "additionalProperties": {"type": "boolean"}},
            "rest": {},
        },
        "required": ["id"],
    }
    serde = JsonSchemaSerde(url, json.dumps(schema))
    value = {"id": 1, "price": 2, "lines": [{"sku": "a"}], "tags": {"new": True}, "rest": {"a": [1]}}
    good = [serde.serialize(topic, each) for each in (value, {"id": 2})]
    world.fill(topic, [*good, good[0][:5] + b'{"price": 1}'])
    rows = world.rows(subscribe=topic, schemaRegistry=url, badValues="keep")
    assert [row["value"] for row in rows] == [
        {"id": 1, "price": 2.0, "lines": [{"sku": "a"}], "tags": [("new", True)], "rest": '{"a":[1]}'},
        {"id": 2, "price": None, "lines": None, "tags": None, "rest": None},
        None,
    ]
    assert "'id' is a required property" in rows[2]["_error"]


def test_messages_of_protobuf_have_their_columns(world: World, url: str) -> None:
    topic = world.topic()
    file = FileDescriptorProto(name="order.proto", package="shop", syntax="proto3")
    message = file.message_type.add(name="Order")
    message.field.add(name="id", number=1, type=FieldDescriptorProto.TYPE_INT64, label=1)
    message.field.add(name="tags", number=2, type=FieldDescriptorProto.TYPE_STRING, label=3)
    message.field.add(name="next", number=3, type=11, label=1, type_name="shop.Line")
    line = file.message_type.add(name="Line")
    line.field.add(name="sku", number=1, type=FieldDescriptorProto.TYPE_BYTES, label=1)
    pool = DescriptorPool()
    pool.Add(file)
    order = GetMessageClass(pool.FindMessageTypeByName("shop.Order"))
    serde = ProtobufSerde(url, message_type=order)
    good = serde.serialize(topic, order(id=7, tags=["a", "b"]))
    other = GetMessageClass(pool.FindMessageTypeByName("shop.Line"))
    world.fill(topic, [good, ProtobufSerde(url, message_type=other).serialize(topic, other(sku=b"x"))])
    rows = world.rows(subscribe=topic, schemaRegistry=url, badValues="keep")
    assert [row["value"] for row in rows] == [{"id": 7, "tags": ["a", "b"], "next": None}, None]
    assert "a message shop.Line, not shop.Order" in rows[1]["_error"]


def test_logical_types_of_avro_are_types_of_spark(world: World, url: str) -> None:
    topic = world.topic()
    types = {
        "day": {"type": "int", "logicalType": "date"},
        "at": {"type": "long", "logicalType": "timestamp-millis"},
        "local": {"type": "long", "logicalType": "local-timestamp-micros"},
        "price": {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2},
        "colour": {"type": "enum", "name": "Colour", "symbols": ["RED", "BLUE"]},
        "either": ["null", "int", "string"],
    }
    schema = {"type": "record", "name": "R", "fields": [{"name": n, "type": k} for n, k in types.items()]}
    value = {
        "day": date(2026, 1, 2),
        "at": datetime(2026, 1, 2, 3, 4, 5, 6000, UTC),
        "local": datetime(2026, 1, 2, 3, 4, 5, 6),  # noqa: DTZ001 - a local time has no zone
        "price": Decimal("-12.50"),
        "colour": "BLUE",
        "either": "x",
    }
    world.fill(topic, avro(url, topic, schema, value))
    assert world.values(subscribe=topic, schemaRegistry=url) == [
        {**value, "either": {"member0": None, "member1": "x"}}
    ]
