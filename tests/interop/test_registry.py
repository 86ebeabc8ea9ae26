"""confluent-kafka's serializers with klamm's registry, on klamm and on Apache Kafka."""

from __future__ import annotations

import base64
from collections.abc import Iterator

import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from klamm.registry.server import RegistryServer

AVRO = (
    '{"type":"record","name":"Order","fields":[{"name":"id","type":"long"},'
    '{"name":"note","type":["null","string"],"default":null}]}'
)
JSON = (
    '{"$schema":"http://json-schema.org/draft-07/schema#","title":"Order",'
    '"type":"object","properties":{"id":{"type":"integer"}}}'
)


@pytest.fixture
def registry(cluster: str) -> Iterator[SchemaRegistryClient]:
    with (
        RegistryServer({"bootstrap.servers": cluster}) as server,
        SchemaRegistryClient({"url": server.url}) as client,
    ):
        yield client


def in_topic(topic: str) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE)


def test_avro_goes_and_comes_back(registry: SchemaRegistryClient, topic: str) -> None:
    serialize = AvroSerializer(registry, AVRO)
    data = serialize({"id": 5, "note": "now"}, in_topic(topic))
    assert AvroDeserializer(registry)(data, in_topic(topic)) == {"id": 5, "note": "now"}
    latest = registry.get_latest_version(f"{topic}-value")
    assert data is not None
    assert int.from_bytes(data[1:5], "big") == latest.schema_id


def test_an_avro_reader_of_a_later_schema_reads_earlier_records(
    registry: SchemaRegistryClient, topic: str
) -> None:
    later = AVRO.replace("]}", ',{"name":"cents","type":"int","default":7}]}')
    data = AvroSerializer(registry, AVRO)({"id": 5}, in_topic(topic))
    read = AvroDeserializer(registry, later)(data, in_topic(topic))
    assert read == {"id": 5, "note": None, "cents": 7}
    assert AvroSerializer(registry, later)({"id": 1, "cents": 2}, in_topic(topic)) is not None
    with pytest.raises(SchemaRegistryError, match="READER_FIELD_MISSING_DEFAULT_VALUE"):
        AvroSerializer(registry, AVRO.replace("note", "other").replace(',"default":null', ""))(
            {"id": 1}, in_topic(topic)
        )


def test_json_goes_and_comes_back(registry: SchemaRegistryClient, topic: str) -> None:
    data = JSONSerializer(JSON, registry)({"id": 5}, in_topic(topic))
    read = JSONDeserializer(JSON, schema_registry_client=registry)(data, in_topic(topic))
    assert read == {"id": 5}


def an_order_type() -> type[Message]:
    """The class of a message, as protoc would generate it."""
    file = FileDescriptorProto(name="klamm_tests/order.proto", package="klamm_tests", syntax="proto3")
    message = file.message_type.add(name="Order")
    message.field.add(name="id", number=1, type=FieldDescriptorProto.TYPE_INT64, label="LABEL_OPTIONAL")
    pool = DescriptorPool()
    pool.Add(file)
    made: type[Message] = GetMessageClass(pool.FindMessageTypeByName("klamm_tests.Order"))
    return made


def test_protobuf_goes_and_comes_back(registry: SchemaRegistryClient, topic: str) -> None:
    order_type = an_order_type()
    order = order_type(id=5)
    data = ProtobufSerializer(order_type, registry)(order, in_topic(topic))
    assert ProtobufDeserializer(order_type, {}, registry)(data, in_topic(topic)) == order


def test_a_text_of_protobuf_is_given_as_a_descriptor_to_those_that_ask(
    registry: SchemaRegistryClient, topic: str
) -> None:
    inner = Schema('syntax = "proto3"; package p; message Inner { int32 a = 1; }', "PROTOBUF")
    registry.register_schema(f"{topic}-inner", inner)
    outer = Schema(
        'syntax = "proto3"; package p; import "inner.proto"; message Outer { Inner inner = 1; }',
        "PROTOBUF",
        [SchemaReference("inner.proto", f"{topic}-inner", 1)],
    )
    schema_id = registry.register_schema(f"{topic}-outer", outer)
    serialized = registry.get_schema(schema_id, fmt="serialized")
    assert serialized.references == outer.references
    assert b"inner.proto" in base64.b64decode(str(serialized.schema_str))


def test_every_call_of_the_client_is_answered(registry: SchemaRegistryClient, topic: str) -> None:
    subject, schema = f"{topic}-value", Schema(AVRO, "AVRO")
    schema_id = registry.register_schema(subject, schema)
    assert set(registry.get_schema_types()) == {"AVRO", "JSON", "PROTOBUF"}
    assert registry.get_contexts() == ["."]
    assert subject in registry.get_subjects_by_schema_id(schema_id)
    versions = registry.get_schema_versions(schema_id)  # other subjects may have the same schema
    assert (subject, 1) in [(each.subject, each.version) for each in versions]
    assert registry.lookup_schema(subject, schema).version == 1
    assert registry.get_version(subject, 1).schema_id == schema_id
    assert registry.get_versions(subject) == [1]
    assert registry.get_referenced_by(subject, 1) == []
    assert registry.test_compatibility(subject, schema) is True
    registry.set_compatibility(subject, "FULL")
    assert registry.get_compatibility(subject) == "FULL"
    assert registry.get_compatibility() == "BACKWARD"
    assert registry.update_mode(subject, "READONLY")
    with pytest.raises(SchemaRegistryError, match="read-only"):
        registry.register_schema(subject, Schema('"int"', "AVRO"))
    assert registry.update_mode(subject, "READWRITE")
    assert registry.delete_version(subject, 1) == 1
    with pytest.raises(SchemaRegistryError) as absent:
        registry.get_versions(subject)
    assert absent.value.error_code == 40401
    assert registry.delete_subject(subject, permanent=True) == [1]
