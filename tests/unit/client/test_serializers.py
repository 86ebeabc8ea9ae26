"""Serializers by name, also from other packages."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import klamm
from klamm.client.consumer.settings import parse as parse_consumer
from klamm.client.producer.settings import parse as parse_producer
from klamm.client.serializers import JsonSerde, Serde, serde_of
from klamm.config import ConfigError

PLUGIN = """
class Reversed:
    def __init__(self, settings, is_key):
        self.mark = settings["schema.registry.url"].encode() + (b"k" if is_key else b"v")
    def serialize(self, topic, value):
        return self.mark + topic.encode() + value[::-1].encode()
    def deserialize(self, topic, data):
        assert bytes(data).startswith(self.mark + topic.encode())
        return bytes(data)[len(self.mark + topic.encode()):].decode()[::-1]

def make(settings, *, is_key):
    return Reversed(settings, is_key)

def broken(settings, *, is_key):
    return 3
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package with entry points, as pip would leave it."""
    (tmp_path / "reversing.py").write_text(PLUGIN)
    info = tmp_path / "reversing-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: reversing\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[klamm.serializers]\nreversed = reversing:make\nbroken = reversing:broken\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "reversing", raising=False)


@pytest.mark.usefixtures("installed")
def test_a_format_of_another_package_serves_both_ends() -> None:
    settings = {"schema.registry.url": "there"}
    with klamm.Broker() as broker:
        with klamm.Producer(
            settings,
            bootstrap_servers=broker.bootstrap,
            key_serializer="reversed",
            value_serializer="reversed",
        ) as producer:
            producer.send("t", "value", key="key").result(10)
        with klamm.Consumer(
            settings,
            bootstrap_servers=broker.bootstrap,
            auto_offset_reset="earliest",
            key_deserializer="reversed",
            value_deserializer="reversed",
        ) as consumer:
            consumer.assign([klamm.TopicPartition("t", 0)])
            (record,) = consumer.consume(1, 10)
            assert (record.key, record.value) == ("key", "value")
        with klamm.Consumer(bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest") as plain:
            plain.assign([klamm.TopicPartition("t", 0)])
            (record,) = plain.consume(1, 10)
            assert (record.key, record.value) == (b"therektyek", b"therevteulav")


@pytest.mark.parametrize("name", ["schema_registry_url", "schema.registry.url", "serializer.value.schema"])
def test_an_admin_refuses_settings_of_serializers(name: str) -> None:
    with pytest.raises(ConfigError, match=f"unknown setting {name}"):
        klamm.Admin({"bootstrap.servers": "127.0.0.1:9", name: "http://127.0.0.1:8081"})


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("serializer", "has_effect"), [("json", False), (str.encode, False), ("reversed", True)]
)
def test_settings_that_no_serializer_takes_are_told(
    serializer: Any, has_effect: bool, caplog: pytest.LogCaptureFixture
) -> None:
    given = {
        "bootstrap.servers": "127.0.0.1:9",
        "schema.registry.url": "there",
        "value.serializer": serializer,
    }
    parse_producer(given, {})
    given["value.deserializer"] = given.pop("value.serializer")
    parse_consumer(given, {}, 1)
    told = [record.getMessage() for record in caplog.records]
    assert [text.partition(" in ")[2] for text in told] == (
        [] if has_effect else ["key.serializer or value.serializer", "key.deserializer or value.deserializer"]
    )
    assert all(text.startswith("schema.registry.url has no effect: name one of avro,") for text in told)


@pytest.mark.usefixtures("installed")
def test_an_entry_point_that_makes_something_else_is_refused() -> None:
    with pytest.raises(ConfigError, match="not a Serde"):
        serde_of("value.serializer", "broken", {})
    known = "avro, broken, json, json-schema, protobuf, reversed, string"
    with pytest.raises(ConfigError, match=known):
        serde_of("value.serializer", "xml", {})


def test_json_and_text_are_built_in_and_null_stays_null() -> None:
    with klamm.Broker() as broker:
        with klamm.Producer(bootstrap_servers=broker.bootstrap, value_serializer="json") as producer:
            producer.send("t", {"n": [1, None]}, key="k")
            producer.send("t", None, key="k")
        with klamm.Consumer(
            bootstrap_servers=broker.bootstrap,
            auto_offset_reset="earliest",
            key_deserializer="string",
            value_deserializer=JsonSerde(),
        ) as consumer:
            consumer.assign([klamm.TopicPartition("t", 0)])
            records = consumer.consume(2, 10)
    assert [(record.key, record.value) for record in records] == [("k", {"n": [1, None]}), ("k", None)]


def test_a_serde_is_anything_with_both_directions() -> None:
    assert isinstance(JsonSerde(), Serde)
    assert serde_of("value.serializer", len, {}) is None
    with pytest.raises(ConfigError, match="a function of bytes"):
        parse_consumer({"bootstrap.servers": "x:1"}, {"value_deserializer": lambda: None}, 1)
