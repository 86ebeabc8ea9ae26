"""Properties of Java's client are taken over as they are: assignors and serializers by their classes."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

import klamm
from klamm.assignors.registry import load_assignors
from klamm.client.java_serdes import PREFIX, java_serde
from klamm.config import ConfigError, parse_properties

CLIENTS = "org.apache.kafka.clients.consumer."
ID = UUID("0f8fad5b-d9cb-469f-a165-70867728950e")


@pytest.mark.parametrize(
    ("kind", "value", "data"),
    [
        ("String", "grün", b"gr\xc3\xbcn"),
        ("ByteArray", b"\x00x", b"\x00x"),
        ("ByteBuffer", b"x", b"x"),
        ("Bytes", b"x", b"x"),
        ("Short", -2, b"\xff\xfe"),
        ("Integer", 258, b"\x00\x00\x01\x02"),
        ("Long", -1, b"\xff" * 8),
        ("Float", 1.5, b"\x3f\xc0\x00\x00"),
        ("Double", -0.5, b"\xbf\xe0" + bytes(6)),
        ("Boolean", True, b"\x01"),
        ("UUID", ID, b"0f8fad5b-d9cb-469f-a165-70867728950e"),
    ],
)
def test_values_are_written_as_java_writes_them(kind: str, value: object, data: bytes) -> None:
    assert java_serde("value.serializer", f"{PREFIX}{kind}Serializer").serialize("t", value) == data
    assert java_serde("value.deserializer", f"{PREFIX}{kind}Deserializer").deserialize("t", data) == value


@pytest.mark.parametrize(
    ("kind", "value"), [("Integer", 2**31), ("Long", "1"), ("Short", 1.5), ("ByteArray", 5), ("String", 5)]
)
def test_a_value_of_another_kind_is_refused(kind: str, value: object) -> None:
    with pytest.raises((TypeError, ValueError, AttributeError)):
        java_serde("value.serializer", f"{PREFIX}{kind}Serializer").serialize("t", value)


def test_data_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match="LongDeserializer expects 8 bytes, and there are 4"):
        java_serde("value.deserializer", f"{PREFIX}LongDeserializer").deserialize("t", bytes(4))


@pytest.mark.parametrize(
    ("setting", "name", "message"),
    [
        ("value.serializer", "StringDeserializer", "expected org.apache.kafka.*StringSerializer"),
        ("key.deserializer", "LongSerializer", "expected org.apache.kafka.*LongDeserializer"),
        ("key.deserializer", "ListDeserializer", "is not known: write one of StringDeserializer"),
    ],
)
def test_a_class_that_does_not_fit_is_refused_with_one_that_does(
    setting: str, name: str, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        java_serde(setting, PREFIX + name)


def test_properties_of_java_make_clients() -> None:
    with klamm.Broker() as broker:
        pasted = f"""
            bootstrap.servers={broker.bootstrap}
            key.serializer={PREFIX}StringSerializer
            value.serializer={PREFIX}LongSerializer
        """
        with klamm.Producer(parse_properties(pasted)) as producer:
            producer.send("t", 7, key="anna").result(10)
        pasted = f"""
            bootstrap.servers={broker.bootstrap}
            group.id=g
            auto.offset.reset=earliest
            partition.assignment.strategy={CLIENTS}RangeAssignor,{CLIENTS}CooperativeStickyAssignor
            key.deserializer={PREFIX}StringDeserializer
            value.deserializer={PREFIX}LongDeserializer
        """
        with klamm.Consumer("t", parse_properties(pasted)) as consumer:
            record: Any = consumer.getone(10)
            assert (record.key, record.value) == ("anna", 7)


def test_assignors_have_the_names_of_javas_classes() -> None:
    classes = ["RangeAssignor", "RoundRobinAssignor", "StickyAssignor"]
    found = load_assignors(",".join(CLIENTS + name for name in classes))
    assert [assignor.name for assignor in found] == ["range", "roundrobin", "sticky"]
    assert load_assignors([f"{CLIENTS}CooperativeStickyAssignor"])[0].name == "cooperative-sticky"
