"""klamm's own client behind the line protocol."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from interop.clients.serve import RefusedError, Tell, from_wire, serve, to_wire
from klamm import Admin, Consumer, KlammError, Producer, TopicPartition
from klamm.client.admin.model import AlterOp, NewTopic, Resource
from klamm.client.admin.offsets import EARLIEST, LATEST, MAX_TIMESTAMP
from klamm.errors import BrokerError

DEADLINE_S: Final = 30
SPECS: Final = {"earliest": EARLIEST, "latest": LATEST, "max_timestamp": MAX_TIMESTAMP}


@contextmanager
def refusals() -> Iterator[None]:
    try:
        yield
    except BrokerError as error:
        raise RefusedError(error.error_code, repr(error)) from error
    except KlammError as error:
        raise RefusedError(None, repr(error)) from error


def partition_of(command: dict[str, Any]) -> TopicPartition:
    return TopicPartition(command["topic"], command["partition"])


class KlammClient:
    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.producers: dict[str, Producer] = {}
        self.admin = Admin(bootstrap_servers=bootstrap, default_api_timeout_ms=DEADLINE_S * 1000)

    def produce(self, command: dict[str, Any]) -> dict[str, Any]:
        with (
            refusals(),
            Producer(
                bootstrap_servers=self.bootstrap,
                compression_type=command["compression"],
                acks=command["acks"],
                enable_idempotence=command["idempotent"],
                max_request_size=command.get("max_bytes", 1_048_576),
                batch_size=command.get("batch_bytes", 16_384),
                linger_ms=5,
                max_block_ms=10_000,
            ) as producer,
        ):
            sent = [
                producer.send(
                    command["topic"],
                    partition=command["partition"],
                    key=from_wire(record["key"]),
                    value=from_wire(record["value"]),
                    headers=[(name, from_wire(value)) for name, value in record["headers"]],
                    timestamp_ms=record["timestamp_ms"],
                )
                for record in command["records"]
            ]
            return {"offsets": [delivery.result(DEADLINE_S).offset for delivery in sent]}

    def consume(self, command: dict[str, Any]) -> dict[str, Any]:
        records: list[dict[str, Any]] = []
        partition = partition_of(command)
        with (
            refusals(),
            Consumer(
                bootstrap_servers=self.bootstrap,
                allow_auto_create_topics=False,
                auto_offset_reset="none",
                isolation_level=command.get("isolation", "read_uncommitted"),
                max_partition_fetch_bytes=command.get("max_bytes", 1_048_576),
            ) as consumer,
        ):
            consumer.assign([partition])
            consumer.seek(partition, command["offset"])
            deadline = time.monotonic() + DEADLINE_S
            while len(records) < command["count"] and time.monotonic() < deadline:
                polled = consumer.poll(0.2, max_records=command["count"] - len(records))
                records += [
                    {
                        "offset": record.offset,
                        "timestamp_ms": record.timestamp_ms,
                        "key": to_wire(record.key),
                        "value": to_wire(record.value),
                        "headers": [(name, to_wire(value)) for name, value in record.headers],
                    }
                    for record in polled
                ]
        return {"records": records}

    def create_topic(self, command: dict[str, Any]) -> dict[str, Any]:
        topic = NewTopic(command["topic"], command["partitions"], 1, configs=command["configs"])
        with refusals():
            self.admin.create_topics([topic]).unwrap()
        return {}

    def delete_topic(self, command: dict[str, Any]) -> dict[str, Any]:
        with refusals():
            self.admin.delete_topics([command["topic"]]).unwrap()
        return {}

    def create_partitions(self, command: dict[str, Any]) -> dict[str, Any]:
        with refusals():
            self.admin.create_partitions({command["topic"]: command["total"]}).unwrap()
        return {}

    def describe_topic(self, command: dict[str, Any]) -> dict[str, Any]:
        with refusals():
            described = self.admin.describe_topics([command["topic"]]).unwrap()
        return {"partitions": len(described[command["topic"]].partitions)}

    def describe_config(self, command: dict[str, Any]) -> dict[str, Any]:
        resource = (Resource.TOPIC, command["topic"])
        with refusals():
            entries = self.admin.describe_configs([resource]).unwrap()[resource]
        return {"value": entries[command["name"]].value}

    def alter_config(self, command: dict[str, Any]) -> dict[str, Any]:
        resource = (Resource.TOPIC, command["topic"])
        with refusals():
            change = (command["name"], AlterOp.SET, command["value"])
            self.admin.alter_configs({resource: [change]}).unwrap()
        return {}

    def offsets(self, command: dict[str, Any]) -> dict[str, Any]:
        partition = partition_of(command)
        at = SPECS.get(command["at"], command["at"])
        with refusals():
            return {"offset": self.admin.list_offsets({partition: at}).unwrap()[partition].offset}

    def delete_records(self, command: dict[str, Any]) -> dict[str, Any]:
        partition = partition_of(command)
        with refusals():
            starts = self.admin.delete_records({partition: command["before"]}).unwrap()
        return {"low_watermark": starts[partition]}

    def init_transactions(self, command: dict[str, Any]) -> dict[str, Any]:
        with refusals():
            producer = Producer(
                bootstrap_servers=self.bootstrap, transactional_id=command["transactional_id"]
            )
            self.producers[command["producer"]] = producer
            producer.init_transactions()
        return {}

    def begin_transaction(self, command: dict[str, Any]) -> dict[str, Any]:
        with refusals():
            self.producers[command["producer"]].begin_transaction()
        return {}

    def produce_in_transaction(self, command: dict[str, Any]) -> dict[str, Any]:
        with refusals():
            self._send(command, [from_wire(value) for value in command["values"]])
        return {}

    def _send(self, command: dict[str, Any], values: list[bytes | None]) -> None:
        producer = self.producers[command["producer"]]
        sent = [producer.send(command["topic"], value, partition=command["partition"]) for value in values]
        for delivery in sent:
            delivery.result(DEADLINE_S)

    def transfer(self, command: dict[str, Any]) -> dict[str, Any]:
        with (
            refusals(),
            Consumer(
                bootstrap_servers=self.bootstrap,
                group_id=command["group"],
                enable_auto_commit=False,
                auto_offset_reset="earliest",
                isolation_level="read_committed",
            ) as consumer,
        ):
            consumer.subscribe([command["source"]])
            values: list[bytes | None] = []
            offsets: dict[TopicPartition, Any] = {}
            deadline = time.monotonic() + DEADLINE_S
            while len(values) < command["count"] and time.monotonic() < deadline:
                polled = consumer.poll(0.2, max_records=command["count"] - len(values))
                values += [record.value for record in polled]
                offsets |= polled.next_offsets()
            self._send(command, values)
            producer = self.producers[command["producer"]]
            producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
        return {}

    def commit_transaction(self, command: dict[str, Any]) -> dict[str, Any]:
        with refusals():
            self.producers[command["producer"]].commit_transaction()
        return {}

    def abort_transaction(self, command: dict[str, Any]) -> dict[str, Any]:
        with refusals():
            self.producers[command["producer"]].abort_transaction()
        return {}

    def close_producer(self, command: dict[str, Any]) -> dict[str, Any]:
        self.producers.pop(command["producer"]).close()
        return {}

    def member(self, command: dict[str, Any], stopped: threading.Event, tell: Tell) -> None:
        def assigned(partitions: list[TopicPartition]) -> None:
            tell({"event": "assigned", "partitions": [item.partition for item in partitions]})

        def revoked(partitions: list[TopicPartition]) -> None:
            tell({"event": "revoked", "partitions": [item.partition for item in partitions]})

        classic: dict[str, Any] = {
            "session_timeout_ms": command["session_timeout_ms"],
            "heartbeat_interval_ms": command["session_timeout_ms"] // 10,
            "partition_assignment_strategy": [command["assignor"]],
        }
        if command["protocol"] != "classic":
            classic.clear()
        with Consumer(
            bootstrap_servers=self.bootstrap,
            group_id=command["group"],
            group_instance_id=command["instance_id"],
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            group_protocol=command["protocol"],
            **classic,
        ) as consumer:
            consumer.subscribe([command["topic"]], on_assign=assigned, on_revoke=revoked)
            while not stopped.is_set():
                records = consumer.poll(0.1)
                for record in records:
                    tell({"event": "record", "partition": record.partition, "offset": record.offset})
                if records:
                    try:
                        consumer.commit_sync()
                    except KlammError as error:
                        tell({"event": "commit_failed", "message": repr(error)})


if __name__ == "__main__":
    serve(KlammClient)
