"""Settings as keyword arguments: what editors and type checkers know is what the clients take."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

import klamm
import make_settings
from klamm import aio
from klamm.client.config import ADMIN, CONSUMER, PRODUCER
from klamm.client.consumer.settings import OBJECTS as CONSUMER_OBJECTS
from klamm.client.producer.settings import OBJECTS as PRODUCER_OBJECTS
from klamm.client.setting_types import AdminKeywords, ConsumerKeywords, ProducerKeywords, SerializerKeywords
from klamm.config import ConfigError, Definition
from klamm.net.security.settings import OBJECTS as SECURITY_OBJECTS

CLIENTS: list[Callable[..., Any]] = [
    klamm.Producer,
    klamm.Consumer,
    klamm.Admin,
    aio.Producer,
    aio.Consumer,
    aio.Admin,
]


def test_the_types_are_what_the_tool_makes_of_the_table() -> None:
    assert make_settings.PATH.read_text() == make_settings.text(), "run tools/make_settings.py"


@pytest.mark.parametrize(
    ("keywords", "definition", "objects"),
    [
        (AdminKeywords, ADMIN, SECURITY_OBJECTS),
        (ConsumerKeywords, CONSUMER, SECURITY_OBJECTS | CONSUMER_OBJECTS),
        (ProducerKeywords, PRODUCER, SECURITY_OBJECTS | PRODUCER_OBJECTS),
    ],
)
def test_every_setting_has_a_type_and_nothing_else_has(
    keywords: Any, definition: Definition, objects: frozenset[str]
) -> None:
    of_serializers = set(SerializerKeywords.__annotations__) - {"schema_registry_url"}
    typed = set(keywords.__annotations__) - of_serializers - {"schema_registry_url"}
    known = {name.replace(".", "_") for name in definition.settings.keys() | objects}
    arguments = {f"{side}_{way}serializer" for side in ("key", "value") for way in ("", "de")}
    assert typed == known - arguments


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: f"{client.__module__}")
def test_a_wrong_name_is_refused_with_the_right_one(client: Callable[..., Any]) -> None:
    with pytest.raises(ConfigError, match=r"bootstrap_server; did you mean bootstrap\.servers"):
        client(bootstrap_server="127.0.0.1:1")


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: f"{client.__module__}")
@pytest.mark.parametrize("name", ["clock", "random", "config"])
def test_no_internal_parameter_is_public(client: Callable[..., Any], name: str) -> None:
    kinds = {item.name: item.kind for item in inspect.signature(client).parameters.values()}
    assert kinds.get(name, inspect.Parameter.POSITIONAL_ONLY) is inspect.Parameter.POSITIONAL_ONLY
    with pytest.raises(ConfigError, match=f"unknown setting {name}"):
        client(**{"bootstrap_servers": "127.0.0.1:1", name: None})


def test_a_serializer_in_the_dictionary_is_used_where_no_argument_is_given() -> None:
    with klamm.Broker() as broker:
        settings: dict[str, Any] = {"bootstrap.servers": broker.bootstrap, "value.serializer": "json"}
        with klamm.Producer(settings) as producer:
            producer.send("t", {"n": 1}).result(10)
        settings = {"bootstrap.servers": broker.bootstrap, "value.deserializer": "json"}
        with klamm.Consumer("t", settings, group_id="g", auto_offset_reset="earliest") as consumer:
            assert [record.value for record in consumer.consume(1, 10)] == [{"n": 1}]
