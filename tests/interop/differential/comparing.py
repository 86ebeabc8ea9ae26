"""Answers of two brokers as plain values in which only a real difference differs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Set
from typing import Any, Final

from interop.differential.batches import PRODUCER_ID, with_field
from interop.differential.sides import Side
from klamm.protocol.errors import DecodeError
from klamm.protocol.message import Message
from klamm.protocol.messages.api_versions import ApiVersionsResponse
from klamm.protocol.messages.fetch import FetchResponse
from klamm.protocol.types import ZERO_ID
from klamm.records.batch import TimestampType, crc_is_valid, iter_headers
from klamm.records.markers import decode_marker
from klamm.records.record import decode_records

# Every broker has its own.
_OWN: Final = frozenset(
    {
        "batch_index_error_message",
        "broker_epoch",
        "cluster_id",
        "documentation",
        "error_message",
        "finalized_features_epoch",
        "host",
        "log_dir",
        "port",
        "throttle_time_ms",
        "total_bytes",
        "usable_bytes",
    }
)
# Where the order of an answer's parts means something to clients.
_ORDERED: Final = frozenset({"DescribeTopicPartitionsResponse", "FetchResponse", "FetchableTopicResponse"})
_MEMBERS: Final = frozenset({"member_id", "leader"})
_NAMES: Final = (
    "group_id",
    "member_id",
    "key",
    "name",
    "topic",
    "resource_type",
    "resource_name",
    "transactional_id",
    "producer_id",
    "topic_id",
    "index",
    "partition",
    "partition_index",
    "partition_id",
)
_TIMES: Final = frozenset({"timestamp", "last_timestamp"})
_MARKER_TIMES: Final = frozenset({"last_timestamp", "transaction_start_time_ms"})  # the broker's own clock
_WORDS: Final = {None: "null", "": "empty", 0: "nothing", -1: "nothing"}


class Plain:
    """Makes answers of one side plain."""

    def __init__(
        self, side: Side, rewriting: frozenset[str] = frozenset(), groups: Set[str] | None = None
    ) -> None:
        self._side = side
        self._groups = groups  # those that are compared; none: all
        self._own_values = side.own_values
        self._rewriting = rewriting  # topics whose batches the broker writes anew: bytes may differ

    def of(self, answer: Any) -> Any:
        """The answer without what is the broker's own."""
        if isinstance(answer, bytes):
            return answer.hex()
        if not isinstance(answer, Message):
            return answer
        plain = self._structure(answer, "")
        if isinstance(answer, ApiVersionsResponse) and answer.error_code == 0:
            # What each serves is no secret, and not the same.
            for name in ("api_keys", "supported_features", "finalized_features"):
                plain[name] = "a list" if plain[name] else "an empty list"
        if isinstance(answer, FetchResponse):
            plain["responses"] = {
                f"{topic['topic'] or topic['topic_id']}-{data['partition_index']}": data
                for topic in plain["responses"]
                for data in topic["partitions"]
            }
            plain["order"] = list(plain["responses"])
        return plain

    def _structure(self, value: Any, topic: str) -> dict[str, Any]:
        topic_id = self._side.id_stand_in(getattr(value, "topic_id", ZERO_ID))
        topic = (
            getattr(value, "topic", None)
            or getattr(value, "name", None)
            or (topic_id if topic_id != "none" else topic)
        )
        kind = type(value).__name__
        return {
            name: (
                "an id"
                if kind == "InitProducerIdResponse"
                and name == "producer_id"
                and item >= 0
                and not self._side.knows_producers
                else self._field(name, item, topic, kind in _ORDERED)
            )
            for name, item in value.values().items()
        }

    def _field(self, name: str, value: Any, topic: str, is_ordered: bool) -> Any:
        if name in _OWN:
            return _own(name, value)
        if name == "value" and value in self._own_values:
            return "an own value"
        if name == "partition_size" and topic in self._rewriting:
            return "a size"
        if name == "topic_id":
            return self._side.id_stand_in(value)
        if name == "session_id":
            return self._side.session_stand_in(value)
        if name == "log_append_time_ms" or (name in _TIMES and topic in self._rewriting):
            return value if value == -1 else "a time"
        if self._side.knows_producers:
            if name == "producer_id":
                return self._side.producer_stand_in(value)
            if name in _MARKER_TIMES or name == "coordinator_epoch":
                return value if value == -1 else "its own"
        if name == "records":
            return self._batches(value, topic)
        if name in _MEMBERS and isinstance(value, str):
            return self._side.member_stand_in(value)
        if isinstance(value, list | tuple):
            if name == "groups" and self._groups is not None:
                value = [item for item in value if item.group_id in self._groups]
            # Each keeps its own topics behind the scenes, and its own records in them.
            value = [item for item in value if not _name(item).startswith("__")]
            items = [self._structure(item, topic) if isinstance(item, Message) else item for item in value]
            return items if is_ordered or name == "replica_nodes" else sorted(items, key=_place)
        if isinstance(value, Message):
            return self._structure(value, topic)
        if isinstance(value, bytes | bytearray | memoryview):
            return bytes(value).hex()
        return value

    def _batches(self, records: Any, topic: str) -> Any:
        if records is None:
            return None
        data = bytes(records)
        found = []
        position = 0
        while position + 12 <= len(data):
            size = 12 + int.from_bytes(data[position + 8 : position + 12], "big", signed=True)
            if position + size > len(data):
                break  # Kafka may cut the last batch
            found.append(self._batch(data[position : position + size], topic))
            position += size
        return found

    def _batch(self, batch: bytes, topic: str) -> Any:
        _, header = next(iter_headers(batch))
        if self._side.knows_producers:
            stand_in = self._side.producer_stand_in(header.producer_id)
            if header.is_control:
                marker = decode_marker(batch)
                return {
                    "offset": header.base_offset,
                    "producer_id": stand_in,
                    "producer_epoch": header.producer_epoch,
                    "sequence": header.base_sequence,
                    "bytes": len(batch),
                    "is_commit": marker is not None and marker.is_commit,
                }
            if stand_in != header.producer_id:
                batch = with_field(batch, PRODUCER_ID, stand_in)
                _, header = next(iter_headers(batch))
        shown: dict[str, Any] = {
            name: value for name, value in header._asdict().items() if name not in ("crc", "batch_length")
        }
        shown["crc_is_valid"] = crc_is_valid(batch, 0, header)
        stamps = header.timestamp_type is TimestampType.LOG_APPEND_TIME
        if stamps:
            shown["max_timestamp_ms"] = "a time"
        if not stamps and topic not in self._rewriting:
            shown["bytes"] = batch[17:].hex()
            return shown
        try:
            shown["records"] = [
                str(record._replace(timestamp_ms=0) if stamps else record) for record in decode_records(batch)
            ]
        except DecodeError:
            shown["bytes"] = batch[61:].hex()
        return shown


def _name(item: Any) -> str:
    return str(getattr(item, "name", None) or getattr(item, "topic", None))


def _own(name: str, value: Any) -> str:
    """Whether there is a value, whatever it is. Epoch 0 is one."""
    if name == "finalized_features_epoch":
        return "something" if value >= 0 else "nothing"
    return _WORDS.get(value, "something")


def _place(item: Any) -> str:
    """Where an item of an unordered answer goes: by what it is about, whatever is said of it."""
    names = [item[name] for name in _NAMES if name in item] if isinstance(item, dict) else []
    return json.dumps([names, item], default=str)


def without_correlation(frame: bytes | str) -> str:
    return frame if isinstance(frame, str) else frame[4:].hex()


def differences(ours: Any, kafkas: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Every place where two plain answers differ: (path, ours, Kafka's)."""
    if isinstance(ours, dict) and isinstance(kafkas, dict):
        for key in {**ours, **kafkas}:
            yield from differences(ours.get(key), kafkas.get(key), f"{path}.{key}" if path else key)
    elif isinstance(ours, list) and isinstance(kafkas, list) and len(ours) == len(kafkas):
        for index, (our, their) in enumerate(zip(ours, kafkas, strict=True)):
            yield from differences(our, their, f"{path}[{index}]")
    elif ours != kafkas:
        yield path, ours, kafkas
