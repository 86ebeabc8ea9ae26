"""Values with schemas through klamm's own client, and by the serializers of both sides."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from google.protobuf import api_pb2
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import klamm
from klamm.cli import consume
from klamm.config import ConfigError
from klamm.registry.server import RegistryServer
from klamm.schemas import AvroSerde, JsonSchemaSerde, ProtobufSerde, SchemaRegistry, SchemaRegistryError
from klamm.schemas.framing import framed
from klamm.schemas.registry_client import SchemaReference

ORDER = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]})
JSON_ORDER = json.dumps({"title": "Order", "type": "object", "properties": {"id": {"type": "integer"}}})


@pytest.fixture(scope="module")
def broker() -> Iterator[klamm.Broker]:
    with klamm.Broker() as running:
        yield running


@pytest.fixture(scope="module")
def url(broker: klamm.Broker) -> Iterator[str]:
    with RegistryServer({"bootstrap.servers": broker.bootstrap}) as server:
        yield server.url


def test_a_program_writes_and_reads_by_the_names_of_formats(broker: klamm.Broker, url: str) -> None:
    settings: dict[str, Any] = {
        "bootstrap.servers": broker.bootstrap,
        "schema.registry.url": url,
        "serializer.schema": ORDER,
        "serializer.key.schema": '"string"',
    }
    with klamm.Producer(settings, key_serializer="avro", value_serializer="avro") as producer:
        producer.send("named", {"id": 5}, key="k").result(10)
    with klamm.Consumer(
        "named",
        {name: settings[name] for name in ("bootstrap.servers", "schema.registry.url")},
        auto_offset_reset="earliest",
        group_id="named",
        key_deserializer="avro",
        value_deserializer="avro",
    ) as consumer:
        record = next(iter(consumer))
    assert (record.key, record.value) == ("k", {"id": 5})
    assert SchemaRegistry(url).latest("named-key").text == '"string"'


def test_a_value_that_names_no_schema_is_a_record_that_does_not_deserialize(
    broker: klamm.Broker, url: str
) -> None:
    with klamm.Producer(bootstrap_servers=broker.bootstrap) as producer:
        producer.send("bad", b"{}").result(10)
    with (
        klamm.Consumer(
            "bad",
            bootstrap_servers=broker.bootstrap,
            auto_offset_reset="earliest",
            group_id="bad",
            value_deserializer=AvroSerde(url),
        ) as consumer,
        pytest.raises(klamm.RecordDeserializationError) as refused,
    ):
        next(iter(consumer))
    assert "zero byte" in str(refused.value.__cause__)


def test_a_reader_has_a_schema_of_its_own(url: str) -> None:
    data = AvroSerde(url, ORDER).serialize("own", {"id": 5})
    wider = json.loads(ORDER)
    wider["fields"].append({"name": "note", "type": "string", "default": "none"})
    assert AvroSerde(url, reader_schema=json.dumps(wider)).deserialize("own", data) == {
        "id": 5,
        "note": "none",
    }


def test_references_are_resolved_on_both_sides(url: str) -> None:
    registry = SchemaRegistry(url)
    registry.id_of("order", "AVRO", ORDER)
    wrapped = json.dumps({"type": "record", "name": "Box", "fields": [{"name": "o", "type": "Order"}]})
    serde = AvroSerde(registry, wrapped, references=[SchemaReference("Order", "order", 1)])
    data = serde.serialize("boxes", {"o": {"id": 1}})
    assert AvroSerde(url).deserialize("boxes", data) == {"o": {"id": 1}}


def test_the_subject_is_what_a_strategy_says(url: str) -> None:
    registry = SchemaRegistry(url)
    for strategy, subject in (("record", "Order"), ("topic-record", "many-Order")):
        AvroSerde(registry, ORDER, subject=strategy).serialize("many", {"id": 1})
        assert registry.latest(subject).text
    AvroSerde(
        registry, ORDER, subject=lambda topic, record, is_key: f"{topic}+{record}+{is_key}", is_key=True
    ).serialize("many", {"id": 1})
    assert registry.latest("many+Order+True").text
    with pytest.raises(ValueError, match="no name"):
        AvroSerde(registry, '"string"', subject="record").serialize("many", "x")


def test_a_schema_that_is_not_registered_is_refused_where_nothing_is_registered_by_itself(url: str) -> None:
    with pytest.raises(SchemaRegistryError, match="40401"):
        AvroSerde(url, ORDER, auto_register=False).serialize("absent", {"id": 1})
    AvroSerde(url, ORDER).serialize("there", {"id": 1})
    assert AvroSerde(url, ORDER, auto_register=False).serialize("there", {"id": 1})
    with pytest.raises(SchemaRegistryError, match="register it, or set auto_register=True"):
        AvroSerde(url, '"int"', auto_register=False).serialize("there", 1)
    assert AvroSerde(url, use_latest=True).serialize("there", {"id": 7})


@pytest.mark.parametrize("value", [{"id": "x"}, {}, 5, None])
def test_a_value_that_does_not_fit_is_told_to_the_writer(url: str, value: Any) -> None:
    with pytest.raises(ValueError, match=r".+"):
        AvroSerde(url, ORDER).serialize("fit", value)


def test_json_is_validated_on_both_sides(url: str) -> None:
    serde = JsonSchemaSerde(url, JSON_ORDER)
    data = serde.serialize("json", {"id": 5})
    assert serde.deserialize("json", data) == {"id": 5}
    with pytest.raises(ValueError, match=r"at \$\.id"):
        serde.serialize("json", {"id": "x"})
    with pytest.raises(ValueError, match=r"at \$\.id"):
        serde.deserialize("json", data[:5] + b'{"id":"x"}')
    with pytest.raises(ValueError, match="type AVRO, not JSON"):
        serde.deserialize("json", AvroSerde(url, ORDER).serialize("json-avro", {"id": 1}))


def test_protobuf_is_read_with_and_without_its_class(url: str) -> None:
    file = FileDescriptorProto(name="tests/shop.proto", package="shop", syntax="proto3")
    file.message_type.add(name="Other")
    order = file.message_type.add(name="Order")
    item = order.nested_type.add(name="Item")
    item.field.add(name="id", number=1, type=FieldDescriptorProto.TYPE_INT64, label="LABEL_OPTIONAL")
    pool = DescriptorPool()
    pool.Add(file)
    item_type = GetMessageClass(pool.FindMessageTypeByName("shop.Order.Item"))
    data = ProtobufSerde(url, item_type).serialize("shop", item_type(id=5))
    assert ProtobufSerde(url, item_type).deserialize("shop", data) == item_type(id=5)
    assert ProtobufSerde(url).deserialize("shop", data).id == 5


@pytest.mark.parametrize("rest", [b"", b"\x02", b"\xff" * 9, b"\x02\x09", b"\x00\xff"])
def test_bytes_that_are_no_message_are_refused(url: str, rest: bytes) -> None:
    serde = ProtobufSerde(url, api_pb2.Mixin)
    data = serde.serialize("mixins", api_pb2.Mixin(name="m"))
    with pytest.raises(ValueError, match=r".+"):
        ProtobufSerde(url).deserialize("mixins", data[:5] + rest)


@given(rest=st.binary(max_size=40))
def test_damaged_values_raise_nothing_but_value_errors(rest: bytes, url: str) -> None:
    serde = AvroSerde(url, ORDER)
    header = serde.serialize("damaged", {"id": 1})[:5]
    with suppress(ValueError):
        serde.deserialize("damaged", header + rest)
    with pytest.raises((ValueError, SchemaRegistryError)):
        serde.deserialize("damaged", framed(999_999, rest))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "schema.registry.url is missing"),
        ({"schema.registry.url": "nowhere"}, "write http://host:port"),
        ({"schema.registry.url": "http://h", "schema.registry.colour": "x"}, "unknown setting"),
        ({"schema.registry.url": "http://h", "serializer.colour": "x"}, "unknown setting"),
        ({"schema.registry.url": "http://h", "serializer.use.latest": "maybe"}, "true or false"),
        ({"schema.registry.url": "http://h", "serializer.schema": "{"}, "avro"),
        ({"schema.registry.url": "http://h", "serializer.subject": "x"}, "topic, record, topic-record"),
    ],
)
def test_wrong_settings_are_told_when_the_client_is_made(settings: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        klamm.Producer({"bootstrap.servers": "127.0.0.1:9", **settings}, value_serializer="avro")


def test_a_registry_that_is_away_is_named_and_the_next_one_is_asked(url: str) -> None:
    with pytest.raises(SchemaRegistryError, match=r"http://127\.0\.0\.1:9/schemas/ids/1"):
        SchemaRegistry("http://127.0.0.1:9").schema(1)
    AvroSerde(f"http://127.0.0.1:9,{url}", ORDER).serialize("second", {"id": 1})


def test_klamm_consume_prints_values_of_all_formats_as_json(broker: klamm.Broker, url: str) -> None:
    mixin = api_pb2.Mixin(name="m")
    with klamm.Producer(bootstrap_servers=broker.bootstrap) as producer:
        for data in (
            AvroSerde(url, ORDER).serialize("all-avro", {"id": 5}),
            JsonSchemaSerde(url, JSON_ORDER).serialize("all-json", {"id": 6}),
            ProtobufSerde(url, api_pb2.Mixin).serialize("all-protobuf", mixin),
            None,
        ):
            producer.send("all", data)
        producer.flush()
        arguments = ["all", "-b", broker.bootstrap, "--from-beginning", "--exit", "--schema-registry", url]
        done = CliRunner().invoke(consume.app, arguments)
        assert (done.exit_code, done.stdout) == (0, '{"id":5}\n{"id":6}\n{"name":"m"}\n\n')
        producer.send("all", b"plain").result(10)
    failed = CliRunner().invoke(consume.app, arguments)
    assert failed.exit_code == 1
    assert "record 4 of all-0 cannot be read with its schema: b'plain' does not begin with" in failed.output
