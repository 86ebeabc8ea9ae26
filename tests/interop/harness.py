"""The clients under test, each a process behind the line protocol of `clients/serve.py`."""

from __future__ import annotations

import base64
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from interop.kafka_tools import cache_dir, java_command
from interop.processes import ROOT, LineProcess

CLIENTS: Final = ("aiokafka", "confluent", "franz-go", "java", "kafka-python", "kafkajs", "klamm")
COMPRESSIONS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
# These let a header have no value at all.
WRITES_NULL_HEADERS: Final = frozenset({"confluent", "java", "klamm"})

# An hour ago: older than anything the tests measure, and younger than what retention deletes.
START_MS: Final = int(time.time() * 1000) - 3_600_000

TOPIC_EXISTS: Final = 36
UNKNOWN_TOPIC: Final = 3
INVALID_PARTITIONS: Final = 37
MESSAGE_TOO_LARGE: Final = 10
INVALID_CONFIG: Final = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A record as a test writes it and wants it back."""

    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()

    def to_wire(self) -> dict[str, Any]:
        return {
            "timestamp_ms": self.timestamp_ms,
            "key": _encode(self.key),
            "value": _encode(self.value),
            "headers": [(name, _encode(value)) for name, value in self.headers],
        }

    @classmethod
    def from_wire(cls, wire: dict[str, Any]) -> Record:
        return cls(
            timestamp_ms=wire["timestamp_ms"],
            key=_decode(wire["key"]),
            value=_decode(wire["value"]),
            headers=tuple((name, _decode(value)) for name, value in wire["headers"] or ()),
        )


def _encode(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def _decode(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


class ClientError(Exception):
    """A client's refusal; `code` is Kafka's error code where the library gave one."""

    def __init__(self, code: int | None, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


def _given(**limits: int | None) -> dict[str, int]:
    return {name: limit for name, limit in limits.items() if limit is not None}


def client_command(name: str) -> list[str]:
    """How to start a client's program; the bootstrap address comes last."""
    built = cache_dir() / "clients"
    match name:
        case "java":
            return java_command("Client", classes=built / "java")
        case "franz-go":
            return [str(built / "go" / "client")]
        case "kafkajs":
            return ["node", str(built / "js" / "client.js")]
        case _:
            return [sys.executable, "-m", f"interop.clients.{name.replace('-', '_')}_client"]


class ClientProcess(LineProcess):
    """One client library in a process of its own."""

    def __init__(self, name: str, bootstrap: str, *, stderr_path: Path) -> None:
        self.name = name
        super().__init__(
            [*client_command(name), bootstrap],
            stderr_path=stderr_path,
            environment={"PYTHONPATH": f"{ROOT / 'tests'}:{ROOT / 'src'}"},
        )

    def refusal(self, do: str, **arguments: Any) -> int | str | None:
        """The error code that a command ends with, or "none" if it went well."""
        try:
            self.ask(do, **arguments)
        except ClientError as error:
            return error.code
        return "none"

    def ask(self, do: str, **arguments: Any) -> dict[str, Any]:
        """Send one command and give its answer; a refusal is a ClientError."""
        self.begin(do, **arguments)
        return self.finish(do)

    def begin(self, do: str, **arguments: Any) -> None:
        """Send one command; `finish` gives its answer."""
        self.write_line(json.dumps({"do": do, **arguments}))

    def finish(self, do: str) -> dict[str, Any]:
        """The answer to the command that was begun."""
        answer = json.loads(self.read_line(60))
        if "ok" in answer:
            ok: dict[str, Any] = answer["ok"]
            return ok
        raise ClientError(answer["error"], f"{self.name} {do}: {answer['message']}")

    def produce(
        self,
        topic: str,
        records: Sequence[Record],
        *,
        partition: int = 0,
        compression: str = "none",
        acks: str | int = "all",
        idempotent: bool = False,
        max_bytes: int | None = None,
        batch_records: int | None = None,
        batch_bytes: int | None = None,
    ) -> list[int]:
        """Write records to a partition; their offsets as acknowledged."""
        answer = self.ask(
            "produce",
            topic=topic,
            partition=partition,
            compression=compression,
            acks=acks,
            idempotent=idempotent,
            records=[record.to_wire() for record in records],
            **_given(max_bytes=max_bytes, batch_records=batch_records, batch_bytes=batch_bytes),
        )
        offsets: list[int] = answer["offsets"]
        return offsets

    def consume(
        self, topic: str, count: int, *, partition: int = 0, offset: int = 0, **more: int
    ) -> list[Record]:
        """Read `count` records of a partition, without a group."""
        answer = self.ask("consume", topic=topic, partition=partition, offset=offset, count=count, **more)
        read_offsets = [wire["offset"] for wire in answer["records"]]
        assert read_offsets == sorted(set(read_offsets)), "offsets rise"
        return [Record.from_wire(wire) for wire in answer["records"]]

    def create_topic(self, topic: str, partitions: int = 1, **configs: str) -> None:
        """Create a topic; configs are written with `_` for Kafka's dots."""
        dotted = {name.replace("_", "."): value for name, value in configs.items()}
        self.ask("create_topic", topic=topic, partitions=partitions, configs=dotted)

    def offset_at(self, topic: str, at: str | int, *, partition: int = 0) -> int:
        """The offset at `earliest`, `latest`, or the first at or after a timestamp; -1 if there is none."""
        offset: int = self.ask("offsets", topic=topic, partition=partition, at=at)["offset"]
        return offset
