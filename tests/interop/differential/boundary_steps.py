"""Requests of others with one field at a boundary: empty, null, twice, negative, the largest there is."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any, Final

from interop.differential.data_steps import wait_for_none_without_id
from klamm.protocol.api import ApiKey
from klamm.protocol.message import Message
from klamm.protocol.messages.fetch import FetchRequest
from klamm.protocol.schema import SchemaField, Struct, load_struct

Path = tuple[str | int, ...]

_BITS: Final = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
_STRINGS: Final = ("", " ", ".", "..", "a/b", "ü", "x" * 249, "x" * 250, "missing")
_IDS: Final = (bytes(16), bytes(15) + b"\1", b"\7" * 16, b"\xff" * 16)
# Kafka makes an array of as many partitions as it is asked for, and its controller runs out of memory.
_SMALL: Final = frozenset({"num_partitions", "count"})
# Times that both would wait for; names under which something would be left for the histories that follow.
_KEPT: Final = frozenset(
    {
        "group_id",
        "groups_names",
        "max_wait_ms",
        "timeout_ms",
        "transaction_timeout_ms",
        "transactional_id",
    }
)
# Fields of one API at whose boundaries klamm differs on purpose, Kafka fails, or nothing can be compared.
_KEPT_IN: Final = {
    # What is written is made by `batches`; a partition twice klamm refuses; without acks no answer comes.
    ApiKey.PRODUCE: {"topic_data", "partition_data", "name", "topic_id", "index", "records", "acks"},
    # The id of a broker makes a follower. A session that learns of divergence fails in Kafka's old versions.
    ApiKey.FETCH: {"replica_id", "replica_state", "last_fetched_epoch"},
    ApiKey.ADD_PARTITIONS_TO_TXN: {"transactions"},  # none: Kafka does not answer
    ApiKey.METADATA: {"name", "allow_auto_topic_creation"},  # creates
    # Of a broker Kafka takes unknown names; operations that do not exist are Kafka's error -1.
    ApiKey.INCREMENTAL_ALTER_CONFIGS: {"name", "config_operation"},
    ApiKey.ALTER_CONFIGS: {"name", "resources"},  # one resource twice: Kafka does not answer
    ApiKey.DESCRIBE_CONFIGS: {"configuration_keys"},  # all settings of a broker
    ApiKey.UPDATE_FEATURES: {"validate_only"},  # changes the cluster for the histories that follow
    # A partition twice, or none that exists, leaves Kafka silent. A later epoch, also that of another
    # producer, leaves a transaction for ever in the state before its end, in both.
    ApiKey.WRITE_TXN_MARKERS: {
        "markers",
        "topics",
        "partition_indexes",
        "name",
        "producer_id",
        "producer_epoch",
        "coordinator_epoch",
    },
    ApiKey.LIST_TRANSACTIONS: {"transactional_id_pattern", "producer_id_filters"},  # those of other histories
}
# A time may find a marker, which has the broker's own.
KEPT_WITH_MARKERS: Final = frozenset({"timestamp"})
# Those whose answers others wait for: what they send, the model of the groups has to know.
_LEFT_ALONE: Final = frozenset({ApiKey.JOIN_GROUP, ApiKey.LEAVE_GROUP, ApiKey.SYNC_GROUP})


def at_a_boundary(
    random: Random, api_key: ApiKey, version: int, request: Any, kept_too: frozenset[str] = frozenset()
) -> tuple[Any, str]:
    """A copy of the request with one field at a boundary, and which; the request itself if none can be."""
    kept = _KEPT | kept_too | _KEPT_IN.get(api_key, frozenset())
    struct = load_struct(api_key, version, "request")
    paths = [path for path in _paths(struct, request, ()) if path[-1] not in kept]
    if api_key in _LEFT_ALONE or not paths:
        return request, ""
    path = random.choice(paths)
    copied, value = _replaced(random, struct, request, path)
    if isinstance(copied, FetchRequest):
        wait_for_none_without_id(copied)
    return copied, f" {'.'.join(map(str, path))} = {value!r}"[:200]


def _paths(struct: Struct, message: Any, before: Path) -> Iterator[Path]:
    """The way to each field that this version has."""
    for field in struct.fields:
        path = (*before, field.name)
        yield path
        value = getattr(message, field.name)
        if field.struct is not None and isinstance(value, list | tuple):
            for index, item in enumerate(value):
                yield from _paths(field.struct, item, (*path, index))
        elif field.struct is not None and isinstance(value, Message):
            yield from _paths(field.struct, value, path)


def _replaced(random: Random, struct: Struct, message: Any, path: Path) -> tuple[Any, Any]:
    """A copy with another value at the end of the path, and that value."""
    name, *rest = path
    field = next(field for field in struct.fields if field.name == name)
    old = getattr(message, field.name)
    if not rest:
        new = value = _array(random, field, old) if field.is_array else _value(random, field, old)
    elif isinstance(rest[0], int):
        assert field.struct is not None
        index = rest[0]
        item, value = _replaced(random, field.struct, old[index], tuple(rest[1:]))
        new = [*old[:index], item, *old[index + 1 :]]
    else:
        assert field.struct is not None
        new, value = _replaced(random, field.struct, old, tuple(rest))
    return message.but(**{field.name: new}), value


def _array(random: Random, field: SchemaField, old: Any) -> Any:
    items = list(old or ())
    choices: list[Any] = [[], items + items[:1], items + items, items[::-1]]
    if field.is_nullable:
        choices.append(None)
    if items and field.struct is None:
        odd = _value(random, field.element(), items[0])
        choices += [[odd], [*items, odd]]
    return random.choice(choices)


def _value(random: Random, field: SchemaField, old: Any) -> Any:
    if field.is_nullable and random.random() < 0.25:
        return None
    if field.type in _BITS:
        top = 4 if field.name in _SMALL else 1 << _BITS[field.type] - 1
        near = (old - 1, old + 1) if -top < old < top - 1 else ()
        return random.choice((0, 1, 2, -1, -2, -3, top - 1, -top, *near))
    match field.type:
        case "bool":
            return not old
        case "string":
            return random.choice(_STRINGS)
        case "uuid":
            return random.choice(_IDS)
        case "struct":
            assert field.struct is not None
            return field.struct.message()
    return old
