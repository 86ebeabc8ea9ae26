"""Every setting that is listed as effective is read by the code that it is for.

The source is searched, not run: a value that is parsed into a field that nothing reads is a setting without
effect, and must be listed as one.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import klamm
from klamm.broker.config.settings import BROKER_SETTINGS
from klamm.client import config as client
from klamm.config import ConfigError, Definition
from klamm.storage.topic_settings import BROKER_DEFAULT_SETTINGS, BROKER_NAMES, TOPIC_SETTINGS

SOURCE = Path(klamm.__file__).parent
# Where settings are declared and documented: what is named there only is not read.
DECLARATIONS = {
    "broker/config/security_settings.py",
    "broker/config/settings.py",
    "broker/config/kept_settings.py",
    "broker/config/idle_settings.py",
    "client/setting_docs.py",
    "storage/topic_settings.py",
}
# Settings with one accepted value: what the client does is what they say.
ONE_VALUE = ("group.protocol", "security.protocol", "partitioner.availability.timeout.ms")


@cache
def what_is_read() -> frozenset[str]:
    """Fields whose values are used, and texts that are an argument, an index or a constant."""
    return frozenset(
        found
        for path in SOURCE.rglob("*.py")
        if path.relative_to(SOURCE).as_posix() not in DECLARATIONS
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        for found in _read_by(node)
    )


def _read_by(node: ast.AST) -> Iterator[str]:
    places: list[ast.AST] = []
    match node:
        case ast.Attribute(attr=name, ctx=ast.Load()):
            yield name
        case ast.Call(func=ast.Name(id="Setting")):
            pass  # a declaration
        case ast.Call(args=given):
            places += given
        case ast.Subscript(slice=index):
            places.append(index)
        case ast.Assign(value=ast.Constant() as constant) | ast.AnnAssign(value=ast.Constant() as constant):
            places.append(constant)
        case ast.JoinedStr(values=parts):  # f"compression.{compression}.level"
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "*" for part in parts)
    for place in places:
        if isinstance(place, ast.Constant) and isinstance(place.value, str):
            yield place.value


def is_read(name: str) -> bool:
    of_any_codec = re.sub(r"\.(gzip|lz4|zstd)\.", ".*.", name)
    return bool({name, of_any_codec, name.replace(".", "_")} & what_is_read())


def effective(definition: Definition) -> list[str]:
    return sorted(name for name, setting in definition.settings.items() if setting.has_effect)


def topic_setting_of(broker_name: str) -> str:
    """The topic setting that this broker setting is a default of, or the name itself."""
    found = (
        topic for topic, brokers in BROKER_NAMES.items() if broker_name in {each.name for each in brokers}
    )
    return next(found, broker_name)


def test_a_broker_setting_that_nothing_reads_is_listed_as_without_effect() -> None:
    names = effective(BROKER_SETTINGS)
    assert [name for name in names if not is_read(name) and not is_read(topic_setting_of(name))] == []


def test_a_topic_setting_that_nothing_reads_is_listed_as_without_effect() -> None:
    assert [name for name in effective(TOPIC_SETTINGS) if not is_read(name)] == []


def test_the_default_of_a_topic_setting_has_an_effect_where_the_topic_setting_has() -> None:
    for name, setting in BROKER_DEFAULT_SETTINGS.settings.items():
        assert setting.has_effect is TOPIC_SETTINGS[topic_setting_of(name)].has_effect, name


@pytest.mark.parametrize("definition", [client.CONSUMER, client.PRODUCER, client.ADMIN])
def test_a_client_setting_that_nothing_reads_has_one_accepted_value(definition: Definition) -> None:
    unread = [name for name in effective(definition) if not is_read(name)]
    assert set(unread) <= set(ONE_VALUE)


@pytest.mark.parametrize(
    ("definition", "name"),
    [
        (client.CONSUMER, "group.protocol"),
        (client.PRODUCER, "security.protocol"),
        (client.PRODUCER, "partitioner.availability.timeout.ms"),
    ],
)
def test_a_client_setting_with_one_accepted_value_refuses_others(definition: Definition, name: str) -> None:
    definition[name].parse(str(definition[name].default))
    with pytest.raises(ConfigError, match=re.escape(name)):
        definition[name].parse("1")
