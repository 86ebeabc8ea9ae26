"""aiokafka behind the line protocol."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.errors import KafkaError, for_code

from interop.clients.serve import RefusedError, Tell, from_wire, serve, to_wire

DEADLINE_S = 30
ASSIGNORS = {"range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor}
Result = TypeVar("Result")


def run(work: Coroutine[Any, Any, Result], runner: asyncio.Runner | None = None) -> Result:
    async def bounded() -> Result:
        return await asyncio.wait_for(work, DEADLINE_S)

    try:
        return asyncio.run(bounded()) if runner is None else runner.run(bounded())
    except KafkaError as error:
        raise RefusedError(getattr(error, "errno", None), repr(error)) from error


class AiokafkaClient:
    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        # Transactional producers outlive a command, and with them their event loop.
        self.runner = asyncio.Runner()
        self.producers: dict[str, AIOKafkaProducer] = {}

    @asynccontextmanager
    async def admin(self) -> AsyncIterator[AIOKafkaAdminClient]:
        admin = AIOKafkaAdminClient(bootstrap_servers=self.bootstrap)
        await admin.start()
        try:
            yield admin
        finally:
            await admin.close()

    def consumer(self, *topics: str, **settings: Any) -> AIOKafkaConsumer:
        return AIOKafkaConsumer(
            *topics, bootstrap_servers=self.bootstrap, enable_auto_commit=False, **settings
        )

    def produce(self, command: dict[str, Any]) -> dict[str, Any]:
        async def work() -> dict[str, Any]:
            compression = command["compression"]
            async with AIOKafkaProducer(
                bootstrap_servers=self.bootstrap,
                compression_type=None if compression == "none" else compression,
                acks=command["acks"],
                enable_idempotence=command["idempotent"],
                max_request_size=command.get("max_bytes", 1_048_576),
                linger_ms=5,
            ) as producer:
                sent = [
                    await producer.send(
                        command["topic"],
                        partition=command["partition"],
                        key=from_wire(record["key"]),
                        value=from_wire(record["value"]),
                        headers=[(name, from_wire(value)) for name, value in record["headers"]],
                        timestamp_ms=record["timestamp_ms"],
                    )
                    for record in command["records"]
                ]
                delivered = [await future for future in sent]
                return {"offsets": [record.offset for record in delivered if record is not None]}

        return run(work())

    def consume(self, command: dict[str, Any]) -> dict[str, Any]:
        partition = TopicPartition(command["topic"], command["partition"])

        async def work() -> dict[str, Any]:
            records: list[dict[str, Any]] = []
            async with self.consumer(
                isolation_level=command.get("isolation", "read_uncommitted"),
                max_partition_fetch_bytes=command.get("max_bytes", 1_048_576),
            ) as consumer:
                consumer.assign([partition])
                consumer.seek(partition, command["offset"])
                while len(records) < command["count"]:
                    polled = await consumer.getmany(
                        timeout_ms=200, max_records=command["count"] - len(records)
                    )
                    records += [
                        {
                            "offset": record.offset,
                            "timestamp_ms": record.timestamp,
                            "key": to_wire(record.key),
                            "value": to_wire(record.value),
                            "headers": [(name, to_wire(value)) for name, value in record.headers],
                        }
                        for record in polled.get(partition, [])
                    ]
            return {"records": records}

        return run(work())

    def create_topic(self, command: dict[str, Any]) -> dict[str, Any]:
        topic = NewTopic(command["topic"], command["partitions"], 1, topic_configs=command["configs"])

        async def work() -> dict[str, Any]:
            async with self.admin() as admin:
                response = await admin.create_topics([topic])
            for _, code, message in response.topic_errors:
                if code:
                    raise RefusedError(code, f"{for_code(code).__name__}: {message}")
            return {}

        return run(work())

    def delete_topic(self, command: dict[str, Any]) -> dict[str, Any]:
        async def work() -> dict[str, Any]:
            async with self.admin() as admin:
                response = await admin.delete_topics([command["topic"]])
            for _, code in response.topic_error_codes:
                if code:
                    raise RefusedError(code, for_code(code).__name__)
            return {}

        return run(work())

    def create_partitions(self, command: dict[str, Any]) -> dict[str, Any]:
        async def work() -> dict[str, Any]:
            async with self.admin() as admin:
                response = await admin.create_partitions({command["topic"]: NewPartitions(command["total"])})
            for _, code, message in response.topic_errors:
                if code:
                    raise RefusedError(code, f"{for_code(code).__name__}: {message}")
            return {}

        return run(work())

    def describe_topic(self, command: dict[str, Any]) -> dict[str, Any]:
        async def work() -> dict[str, Any]:
            async with self.admin() as admin:
                (topic,) = await admin.describe_topics([command["topic"]])
            if topic["error_code"]:
                raise RefusedError(topic["error_code"], str(topic))
            return {"partitions": len(topic["partitions"])}

        return run(work())

    def describe_config(self, command: dict[str, Any]) -> dict[str, Any]:
        resource = ConfigResource(ConfigResourceType.TOPIC, command["topic"])

        async def work() -> dict[str, Any]:
            async with self.admin() as admin:
                (response,) = await admin.describe_configs([resource])
            code, message, _, _, entries = response.resources[0]
            if code:
                raise RefusedError(code, message)
            return {"value": next(entry[1] for entry in entries if entry[0] == command["name"])}

        return run(work())

    def alter_config(self, command: dict[str, Any]) -> dict[str, Any]:
        resource = ConfigResource(
            ConfigResourceType.TOPIC, command["topic"], configs={command["name"]: command["value"]}
        )

        async def work() -> dict[str, Any]:
            async with self.admin() as admin:
                (response,) = await admin.alter_configs([resource])
            code, message, *_ = response.resources[0]
            if code:
                raise RefusedError(code, message)
            return {}

        return run(work())

    def offsets(self, command: dict[str, Any]) -> dict[str, Any]:
        partition = TopicPartition(command["topic"], command["partition"])

        async def work() -> dict[str, Any]:
            async with self.consumer() as consumer:
                match command["at"]:
                    case "earliest":
                        return {"offset": (await consumer.beginning_offsets([partition]))[partition]}
                    case "latest":
                        return {"offset": (await consumer.end_offsets([partition]))[partition]}
                    case timestamp_ms:
                        found = (await consumer.offsets_for_times({partition: timestamp_ms}))[partition]
                        return {"offset": -1 if found is None else found.offset}

        return run(work())

    def delete_records(self, command: dict[str, Any]) -> dict[str, Any]:
        partition = TopicPartition(command["topic"], command["partition"])

        async def work() -> dict[str, Any]:
            async with self.admin() as admin:
                result = await admin.delete_records({partition: RecordsToDelete(command["before"])})
            return {"low_watermark": result[partition]}

        return run(work())

    def init_transactions(self, command: dict[str, Any]) -> dict[str, Any]:
        async def work() -> dict[str, Any]:
            producer = AIOKafkaProducer(
                bootstrap_servers=self.bootstrap, transactional_id=command["transactional_id"]
            )
            await producer.start()
            self.producers[command["producer"]] = producer
            return {}

        return run(work(), self.runner)

    def begin_transaction(self, command: dict[str, Any]) -> dict[str, Any]:
        run(self.producers[command["producer"]].begin_transaction(), self.runner)
        return {}

    def produce_in_transaction(self, command: dict[str, Any]) -> dict[str, Any]:
        run(self._send(command, [from_wire(value) for value in command["values"]]), self.runner)
        return {}

    async def _send(self, command: dict[str, Any], values: list[bytes | None]) -> None:
        producer = self.producers[command["producer"]]
        sent = [
            await producer.send(command["topic"], value, partition=command["partition"]) for value in values
        ]
        for future in sent:
            await future

    def transfer(self, command: dict[str, Any]) -> dict[str, Any]:
        async def work() -> dict[str, Any]:
            values: list[bytes | None] = []
            async with self.consumer(
                command["source"],
                group_id=command["group"],
                auto_offset_reset="earliest",
                isolation_level="read_committed",
            ) as consumer:
                while len(values) < command["count"]:
                    polled = await consumer.getmany(
                        timeout_ms=200, max_records=command["count"] - len(values)
                    )
                    values += [record.value for records in polled.values() for record in records]
                await self._send(command, values)
                # aiokafka sends the group's id alone, not the member and its generation.
                await self.producers[command["producer"]].send_offsets_to_transaction(
                    {partition: await consumer.position(partition) for partition in consumer.assignment()},
                    command["group"],
                )
            return {}

        return run(work(), self.runner)

    def commit_transaction(self, command: dict[str, Any]) -> dict[str, Any]:
        run(self.producers[command["producer"]].commit_transaction(), self.runner)
        return {}

    def abort_transaction(self, command: dict[str, Any]) -> dict[str, Any]:
        run(self.producers[command["producer"]].abort_transaction(), self.runner)
        return {}

    def close_producer(self, command: dict[str, Any]) -> dict[str, Any]:
        run(self.producers.pop(command["producer"]).stop(), self.runner)
        return {}

    def member(self, command: dict[str, Any], stopped: threading.Event, tell: Tell) -> None:
        class Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # the library is untyped
            def on_partitions_assigned(self, assigned: list[TopicPartition]) -> None:
                tell({"event": "assigned", "partitions": [p.partition for p in assigned]})

            def on_partitions_revoked(self, revoked: list[TopicPartition]) -> None:
                if revoked:
                    tell({"event": "revoked", "partitions": [p.partition for p in revoked]})

        async def work() -> None:
            consumer = self.consumer(
                group_id=command["group"],
                group_instance_id=command["instance_id"],
                auto_offset_reset="earliest",
                session_timeout_ms=command["session_timeout_ms"],
                heartbeat_interval_ms=command["session_timeout_ms"] // 10,
                partition_assignment_strategy=[ASSIGNORS[command["assignor"]]],
            )
            consumer.subscribe([command["topic"]], listener=Listener())
            await consumer.start()
            try:
                while not stopped.is_set():
                    polled = await consumer.getmany(timeout_ms=100)
                    for records in polled.values():
                        for record in records:
                            tell({"event": "record", "partition": record.partition, "offset": record.offset})
                    if polled:
                        try:
                            await consumer.commit()
                        except KafkaError as error:
                            tell({"event": "commit_failed", "message": repr(error)})
            finally:
                await consumer.stop()

        asyncio.run(work())


if __name__ == "__main__":
    serve(AiokafkaClient)
