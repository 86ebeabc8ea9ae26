"""The table of what becomes of each public name of the other libraries, made by importing them."""

from __future__ import annotations

import importlib
import importlib.metadata
import inspect
import warnings
from collections.abc import Iterator
from enum import Enum
from types import ModuleType
from typing import Any, Final, NamedTuple

from klamm.compat.kafka.admin.client import REFUSED as OF_ADMIN
from klamm.compat.refusals import REFUSED

# The modules that the libraries document; "" is the library itself.
MODULES: Final = {
    "kafka": ("", "admin", "errors", "serializer", "structs"),
    "aiokafka": ("", "abc", "admin", "errors", "helpers", "structs"),
    "confluent_kafka": ("", "admin", "error", "serialization"),
}
# Classes whose methods are compared, too.
CLASSES: Final = {
    "kafka": ("KafkaConsumer", "KafkaProducer", "KafkaAdminClient"),
    "aiokafka": ("AIOKafkaConsumer", "AIOKafkaProducer", "admin.AIOKafkaAdminClient"),
    "confluent_kafka": (
        "Consumer",
        "DeserializingConsumer",
        "Message",
        "Producer",
        "SerializingProducer",
        "TopicPartition",
        "admin.AdminClient",
    ),
}
# Methods that raise an error which says what to use.
REFUSED_METHODS: Final = {
    ("kafka", "KafkaAdminClient"): OF_ADMIN,
    ("confluent_kafka", "admin.AdminClient"): {
        "set_sasl_credentials": "give the credentials when the client is made"
    },
    ("confluent_kafka", "Consumer"): {"set_sasl_credentials": "give the credentials when the client is made"},
    ("confluent_kafka", "Producer"): {"set_sasl_credentials": "give the credentials when the client is made"},
}
DISTRIBUTIONS: Final = {"kafka": "kafka-python", "aiokafka": "aiokafka", "confluent_kafka": "confluent-kafka"}


class Name(NamedTuple):
    """A public name of a library, and what becomes of it."""

    library: str
    name: str
    fate: str  # served, refused, absent
    advice: str = ""


def names() -> list[Name]:
    """All of them."""
    return [item for library in MODULES for item in (*_of_modules(library), *_of_classes(library))]


def page() -> str:
    """The table, as Markdown: what is not served by name, what is served by number and name."""
    lines = [
        "# Names of other libraries\n",
        "Made by importing the libraries and klamm: each public name of their documented modules, and of the "
        "methods of their clients. *Served* means that `klamm.compat` has it; *refused*, that using it "
        "raises an error with the advice shown; *absent*, that it is not there.\n",
    ]
    every = names()
    for library, distribution in DISTRIBUTIONS.items():
        mine = [item for item in every if item.library == library]
        version = importlib.metadata.version(distribution)
        served = [item for item in mine if item.fate == "served"]
        lines.append(f"## {distribution} {version}\n")
        lines.append(f"{len(served)} of {len(mine)} names are served.\n")
        lines += ["| name | | |", "| --- | --- | --- |"]
        lines += [
            f"| `{item.name}` | {item.fate} | {item.advice} |" for item in mine if item.fate != "served"
        ]
        errors = [item for item in served if item.name.startswith("error")]
        others = ", ".join(f"`{item.name}`" for item in served if item not in errors)
        lines.append(f"\nServed: {len(errors)} classes of errors, and {others}.\n")
    return "\n".join(lines)


def _of_modules(library: str) -> Iterator[Name]:
    paths = {module: f".{module}" if module else "" for module in MODULES[library]}
    # All before the first is looked at: a module has a name in its package once it has been imported.
    pairs = {
        module: (_theirs(library + path), importlib.import_module(f"klamm.compat.{library}{path}"))
        for module, path in paths.items()
    }
    for module, (theirs, ours) in pairs.items():
        for name in sorted(_public(theirs, library)):
            shown = f"{module}.{name}" if module else name
            advice = REFUSED[library].get(shown, "")
            fate = "refused" if advice else "served" if hasattr(ours, name) else "absent"
            yield Name(library, shown, fate, advice)


def _theirs(name: str) -> ModuleType:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # kafka-python reads its resources in an old way
        return importlib.import_module(name)


def _public(module: ModuleType, library: str) -> Iterator[str]:
    listed = getattr(module, "__all__", None)
    for name, value in vars(module).items():
        if name.startswith("_") or (inspect.ismodule(value) and not value.__name__.startswith(library)):
            continue
        if listed is not None:
            if name in listed:
                yield name
        elif not inspect.ismodule(value) and str(getattr(value, "__module__", "")).startswith(
            (library, "cimpl")
        ):
            yield name


def _of_classes(library: str) -> Iterator[Name]:
    for path in CLASSES[library]:
        _theirs(library)
        theirs, ours = _found(library, path), _found(f"klamm.compat.{library}", path)
        refused = REFUSED_METHODS.get((library, path), {})
        for name, value in inspect.getmembers(theirs):
            if name.startswith("_") or not (callable(value) or isinstance(value, property)):
                continue
            if name in vars(Enum) or name in vars(object):
                continue
            advice = refused.get(name, "")
            fate = "refused" if advice else "served" if hasattr(ours, name) else "absent"
            yield Name(library, f"{path}.{name}", fate, advice)


def _found(library: str, path: str) -> Any:
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(f"{library}.{module}" if module else library), name)
