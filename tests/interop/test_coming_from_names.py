"""Each public name of the other libraries is served, or refused with advice; others are listed here."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "tools"))

import compat_names
from klamm.compat.refusals import REFUSED

ABSENT: dict[str, set[str]] = {
    "kafka": {"KafkaProducer.max_usable_produce_magic"},
    "aiokafka": {"AIOKafkaConsumer.last_poll_timestamp"},
    "confluent_kafka": {"error.Message"},  # imported there by chance
}


@pytest.mark.parametrize("library", ABSENT)
def test_what_is_absent_is_known(library: str) -> None:
    found = {item.name for item in compat_names.names() if (item.library, item.fate) == (library, "absent")}
    assert found == ABSENT[library]


def test_an_import_of_what_is_refused_says_what_to_use() -> None:
    for library, names in REFUSED.items():
        for path, advice in names.items():
            module, _, name = path.rpartition(".")
            ours = importlib.import_module(f"klamm.compat.{library}" + (f".{module}" if module else ""))
            with pytest.raises(ImportError) as raised:
                getattr(ours, name)
            assert str(raised.value).endswith(f"{name}: {advice}")


def test_a_module_that_is_refused_says_what_to_use() -> None:
    with pytest.raises(ImportError, match=r"use klamm\.schemas"):
        importlib.import_module("klamm.compat.confluent_kafka.schema_registry")
    with pytest.raises(ImportError, match=r"read metrics\(\)"):
        importlib.import_module("klamm.compat.kafka.metrics")


def test_every_refused_name_is_one_of_theirs() -> None:
    refused = {(item.library, item.name) for item in compat_names.names() if item.fate == "refused"}
    modules = {("confluent_kafka", name) for name in ("aio", "avro", "kafkatest", "schema_registry")}
    modules |= {("kafka", name) for name in ("cluster", "metrics", "net", "partitioner")}
    modules |= {("aiokafka", name) for name in ("client", "cluster")}
    assert {(library, name) for library, names in REFUSED.items() for name in names} <= refused | modules
