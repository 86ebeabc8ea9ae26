"""Every setting of the three libraries, as installed here, is served, refused, or without meaning."""

from __future__ import annotations

import ctypes
import inspect
import warnings
from pathlib import Path
from typing import Any

import aiokafka
import confluent_kafka
import pytest

from klamm.compat.confluent_kafka.error_codes import CODES
from klamm.compat.confluent_kafka.setting_rules import RULES
from klamm.compat.python_settings import AIOKAFKA, KAFKA_PYTHON
from klamm.compat.settings import ClientKind, Fate, Rules

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # kafka-python reads its schemas the old way
    import kafka

pytestmark = [pytest.mark.filterwarnings("ignore::DeprecationWarning")]


def librdkafkas_settings(folder: Path) -> dict[str, str]:
    """Names in its CONFIGURATION table, as the library prints it, and which clients have them."""
    package = Path(confluent_kafka.__file__).parent
    (file,) = (package.parent / "confluent_kafka.libs").glob("librdkafka*")
    library, libc = ctypes.CDLL(str(file)), ctypes.CDLL(None)
    libc.fopen.restype = ctypes.c_void_p
    stream = ctypes.c_void_p(libc.fopen(str(folder / "table.md").encode(), b"w"))
    library.rd_kafka_conf_properties_show(stream)
    libc.fclose(stream)
    rows = [line.split("|") for line in (folder / "table.md").read_text().splitlines() if line.count("|") > 4]
    return {row[0].strip(): row[1].strip() for row in rows if row[1].strip() in ("*", "C", "P")}


def fates(rules: Rules, names: Any, kind: ClientKind) -> dict[str, Fate]:
    return {name: rules.fate(name, kind) for name in names}


def test_librdkafkas(tmp_path: Path) -> None:
    table = librdkafkas_settings(tmp_path)
    assert len(table) > 150
    of_python = ("on_delivery", "on_commit", "logger", "stats_cb", "error_cb", "throttle_cb", "oauth_cb")
    for kind, mark in ((ClientKind.CONSUMER, "C"), (ClientKind.PRODUCER, "P")):
        mine = [name for name, whose in table.items() if whose in ("*", mark)]
        found = fates(RULES, mine, kind)
        # Of a setting of the other kind, librdkafka logs that it has no use for it; so does klamm.
        for name in mine:
            if found[name] is Fate.UNKNOWN:
                assert any(RULES.fate(name, other) is Fate.SERVED for other in ClientKind), name
    for name in of_python:
        assert any(RULES.fate(name, kind) is not Fate.UNKNOWN for kind in ClientKind), name


def test_kafka_pythons() -> None:
    for client, kind in (
        (kafka.KafkaConsumer, ClientKind.CONSUMER),
        (kafka.KafkaProducer, ClientKind.PRODUCER),
        (kafka.KafkaAdminClient, ClientKind.ADMIN),
    ):
        for name, fate in fates(KAFKA_PYTHON, client.DEFAULT_CONFIG, kind).items():
            is_of_another = any(KAFKA_PYTHON.fate(name, other) is Fate.SERVED for other in ClientKind)
            assert fate is not Fate.UNKNOWN or is_of_another, (kind, name)


def test_aiokafkas() -> None:
    for client, kind in (
        (aiokafka.AIOKafkaConsumer, ClientKind.CONSUMER),
        (aiokafka.AIOKafkaProducer, ClientKind.PRODUCER),
    ):
        names = [name for name in inspect.signature(client).parameters if name != "topics"]
        for name, fate in fates(AIOKAFKA, names, kind).items():
            assert fate is not Fate.UNKNOWN, (kind, name)


@pytest.mark.parametrize("rules", [RULES, KAFKA_PYTHON, AIOKAFKA], ids=lambda rules: rules.library)
def test_no_setting_is_in_two_tables(rules: Rules) -> None:
    assert not rules.refused.keys() & rules.without_meaning.keys()


def test_the_defaults_of_the_libraries_are_accepted() -> None:
    defaults = inspect.signature(aiokafka.AIOKafkaConsumer).parameters
    given = {name: item.default for name, item in defaults.items() if name not in ("topics", "loop")}
    assert "bootstrap_servers" in AIOKAFKA.applied(given, ClientKind.CONSUMER)
    assert "bootstrap_servers" in KAFKA_PYTHON.applied(
        {name: value for name, value in kafka.KafkaConsumer.DEFAULT_CONFIG.items() if name != "kafka_client"},
        ClientKind.CONSUMER,
    )


def test_error_codes_are_librdkafkas() -> None:
    theirs = {
        name: value
        for name, value in vars(confluent_kafka.KafkaError).items()
        if isinstance(value, int) and not name.startswith("__")
    }
    assert theirs == CODES
