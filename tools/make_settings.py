"""Generates the types of the clients' settings as keyword arguments from the one table of settings.

    .venv/bin/python tools/make_settings.py

Names, types, words and explanations come from `klamm.client.config`; OBJECTS below types what is not text.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from klamm.client.config import ADMIN, CONSUMER, PRODUCER
from klamm.client.consumer.settings import OBJECTS as CONSUMER_OBJECTS
from klamm.client.producer.settings import OBJECTS as PRODUCER_OBJECTS
from klamm.config import Definition, Kind, Setting
from klamm.net.security.settings import OBJECTS as SECURITY_OBJECTS
from klamm.schemas.named import REGISTRY_SETTINGS, SERIALIZER_OPTIONS, SERIALIZER_SIDES

PATH: Final = Path(__file__).parent.parent / "src/klamm/client/setting_types.py"
# Arguments of their own: they decide the types of keys and values.
SERIALIZERS: Final = frozenset(
    {"key.serializer", "value.serializer", "key.deserializer", "value.deserializer"}
)
PLAIN: Final[Mapping[Kind, str]] = {
    Kind.BOOLEAN: "bool",
    Kind.STRING: "str",
    Kind.INT: "int",
    Kind.SHORT: "int",
    Kind.LONG: "int",
    Kind.DOUBLE: "float",
    Kind.LIST: "str | Sequence[str]",
    Kind.CLASS: "str",
    Kind.PASSWORD: "str",
}
OBJECTS: Final[Mapping[str, tuple[str, str]]] = {
    "interceptors": (
        "{Face}Interceptor | Sequence[{Face}Interceptor]",
        "What sees every record and its outcome.",
    ),
    "stats.callback": (
        "Callable[[dict[str, Any]], object]",
        "A function of the metrics, called every statistics.interval.ms on the client's thread.",
    ),
    "partitioner.class": (
        "Partitioner | str",
        "Chooses partitions: a function of (topic, key, value, number of partitions), or a name.",
    ),
    "partition.assignment.strategy": ("Strategy | Sequence[Strategy]", ""),
    "offset.store": ("OffsetStore", "Where offsets are kept in place of the group."),
    "on.deserialize.error": (
        'Literal["raise", "skip"] | Callable[[RecordDeserializationError], object]',
        "What happens to a record that cannot be deserialized.",
    ),
    "start.at": (
        "Start | Mapping[TopicPartition, Start]",
        "Where partitions without a position begin: an offset, a time, earliest or latest.",
    ),
    "oauth_cb": (
        "Callable[[str], tuple[str, float] | tuple[str, float, str, Mapping[str, str]]]",
        "Returns a token and when it expires, in seconds since 1970.",
    ),
    "ssl.context": ("SSLContext", "The TLS context to use, in place of the other ssl settings."),
}
OF_REGISTRY: Final[Mapping[str, tuple[str, str]]] = {
    "schema.registry.url": ("str", "The schema registry, as http://host:port."),
    "schema.registry.basic.auth.user.info": ("str", "user:password for the schema registry."),
    "schema.registry.bearer.auth.token": ("str", "A token for the schema registry."),
    "schema.registry.ssl.ca.location": ("str", "A PEM file of the CA certificates of the schema registry."),
}
OF_SERIALIZER: Final[Mapping[str, tuple[str, str]]] = {
    "schema": ("Any", "The schema to write with."),
    "reader.schema": ("Any", "The schema to read as."),
    "message.type": ("Any", "The class of Protobuf messages."),
    "auto.register": ("bool", "Whether an unknown schema is registered."),
    "use.latest": ("bool", "Whether the latest schema of the subject is written with."),
    "subject": ("str", "The subject in the registry."),
}
HEAD: Final = '''"""The settings of clients as keyword arguments, for editors and type checkers.

Made by tools/make_settings.py: change the table in klamm.client.config, not this file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from ssl import SSLContext
from typing import Any, Literal, TypeAlias, TypedDict

from klamm.assignors.registry import Strategy
from klamm.client.consumer.offsets.stores import OffsetStore
from klamm.client.interceptors import ConsumerInterceptor, ProducerInterceptor
from klamm.client.producer.partitioner import Partitioner
from klamm.errors import RecordDeserializationError
from klamm.protocol.types import TopicPartition

Start: TypeAlias = Literal["earliest", "latest"] | int | datetime
'''


def keywords_of(definition: Definition, objects: Iterable[str], face: str) -> dict[str, tuple[str, str]]:
    """Of each keyword argument its type and its explanation."""
    found = {name: (_type_of(setting), setting.doc) for name, setting in definition.settings.items()}
    for name in sorted(frozenset(objects) - SERIALIZERS):
        kind, doc = OBJECTS[name]
        found[name] = (kind.format(Face=face), doc or found[name][1])
    return {name.replace(".", "_"): typed for name, typed in found.items()}


def serializer_keywords() -> dict[str, tuple[str, str]]:
    """What serializers by name take, for keys and for values."""
    assert OF_REGISTRY.keys() == REGISTRY_SETTINGS
    assert OF_SERIALIZER.keys() == SERIALIZER_OPTIONS.keys()
    found = dict(OF_REGISTRY)
    for side in SERIALIZER_SIDES:
        words = " Of keys." if "key" in side else ""
        found |= {side + name: (kind, doc + words) for name, (kind, doc) in OF_SERIALIZER.items()}
    return {name.replace(".", "_"): typed for name, typed in found.items()}


def _type_of(setting: Setting) -> str:
    words = re.fullmatch(r"one of (.*)", setting.check.wanted) if setting.check is not None else None
    kind = PLAIN[setting.kind]
    if words is not None:
        choices = words[1].split(", ")
        shown = [f'"{each}"' for each in choices] + [
            each for each in choices if re.fullmatch("-?[0-9]+", each)
        ]
        kind = f"Literal[{', '.join(shown)}]"
    return f"{kind} | None" if setting.default is None and not setting.required else kind


def _class(name: str, base: str, doc: str, fields: Mapping[str, tuple[str, str]]) -> str:
    rows = [f'    {field}: {kind}\n    """{words}"""' for field, (kind, words) in fields.items()]
    return f'class {name}({base}, total=False):\n    """{doc}"""\n\n' + "\n".join(rows) + "\n"


def text() -> str:
    """The module."""
    admin = keywords_of(ADMIN, SECURITY_OBJECTS, "Admin")
    consumer = keywords_of(CONSUMER, SECURITY_OBJECTS | CONSUMER_OBJECTS, "Consumer")
    producer = keywords_of(PRODUCER, SECURITY_OBJECTS | PRODUCER_OBJECTS, "Producer")
    common = {name: typed for name, typed in admin.items() if name in consumer and name in producer}

    def own(
        keywords: Mapping[str, tuple[str, str]], *bases: Mapping[str, tuple[str, str]]
    ) -> dict[str, tuple[str, str]]:
        return {name: typed for name, typed in keywords.items() if not any(name in base for base in bases)}

    parts = [
        HEAD,
        _class("CommonKeywords", "TypedDict", "What all clients take.", common),
        _class("AdminKeywords", "CommonKeywords", "What an admin takes.", own(admin, common)),
        _class("SerializerKeywords", "TypedDict", "What serializers by name take.", serializer_keywords()),
        _class(
            "ConsumerKeywords",
            "CommonKeywords, SerializerKeywords",
            "What a consumer takes.",
            own(consumer, common),
        ),
        _class(
            "ProducerKeywords",
            "CommonKeywords, SerializerKeywords",
            "What a producer takes.",
            own(producer, common),
        ),
    ]
    ruff = [str(Path(sys.executable).parent / "ruff"), "format", "--stdin-filename", str(PATH), "-"]
    made = subprocess.run(ruff, input="\n\n".join(parts), capture_output=True, text=True, check=True)
    return made.stdout


if __name__ == "__main__":
    PATH.write_text(text())
