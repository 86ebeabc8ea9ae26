"""Statistics for `stats_cb`: librdkafka's form. A field of which klamm knows no true value is left out."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from klamm.client.consumer.consumer_operations import ConsumerOperations
from klamm.client.producer.producer import Producer
from klamm.client.runtime import Core
from klamm.clock import Clock
from klamm.net.network import Node


class Emitter:
    """A component of the client's core: every interval it makes the statistics and passes them on as text."""

    def __init__(
        self, read: Callable[[], dict[str, Any]], emit: Callable[[str], None], interval_ms: int, clock: Clock
    ) -> None:
        self._read = read
        self._emit = emit
        self._interval_ms = interval_ms
        self._clock = clock
        self._began_ms = clock.now_ms()
        self._due_ms = self._began_ms + interval_ms

    def tick(self, now_ms: int) -> int:
        """Emit if it is time; when to be called again."""
        if now_ms >= self._due_ms:
            self._due_ms = now_ms + self._interval_ms
            moment = {
                "ts": now_ms * 1000,
                "time": self._clock.timestamp_ms() // 1000,
                "age": (now_ms - self._began_ms) * 1000,
            }
            self._emit(json.dumps({**self._read(), **moment}))
        return self._due_ms


def _brokers(core: Core) -> dict[str, Any]:
    """Brokers, and whether there is a connection that can be used."""
    found = {}
    for info in list(core.metadata.cluster.brokers.values()):
        name = f"{info.host}:{info.port}/{info.broker_id}"
        node = Node("broker", info.broker_id)
        is_down = (info.host, info.port) in core.network.unreachable
        state = "UP" if core.network.is_ready(node) else "DOWN" if is_down else "INIT"
        found[name] = {
            "name": name,
            "nodeid": info.broker_id,
            "nodename": f"{info.host}:{info.port}",
            "source": "learned",
            "state": state,
            "waitresp_cnt": core.network.in_flight(node),
        }
    return found


def _name(core: Core, kind: str) -> dict[str, Any]:
    client_id = core.network.config.client_id
    return {"name": f"{client_id}#{kind}", "client_id": client_id, "type": kind}


def statistics_of_producer(producer: Producer, replies: Any, waiting: Callable[[], int]) -> dict[str, Any]:
    """What a producer has waiting. `replies`: callbacks that wait for poll()."""
    core, accumulator = producer._thread.core, producer._accumulator
    topics: dict[str, Any] = {}
    for key in accumulator.partitions():
        partition = core.metadata.cluster.partition(key)
        entry = topics.setdefault(key.topic, {"topic": key.topic, "partitions": {}})
        entry["partitions"][str(key.partition)] = {
            "partition": key.partition,
            **({} if partition is None else {"leader": partition.leader_id}),
        }
    return {
        **_name(core, "producer"),
        "replyq": len(replies),
        "msg_cnt": waiting(),
        "msg_size": accumulator.used_bytes,
        "msg_size_max": producer._settings.buffer_memory,
        "brokers": _brokers(core),
        "topics": topics,
    }


def statistics_of_consumer(operations: ConsumerOperations, replies: Any) -> dict[str, Any]:
    """What a consumer has assigned, and how far it is."""
    engine = operations.engine
    core = engine.core
    topics: dict[str, Any] = {}
    with engine.state.lock:
        for key, item in engine.state.partitions.items():
            entry = topics.setdefault(key.topic, {"topic": key.topic, "partitions": {}})
            known = {
                "app_offset": item.offset if item.has_position else -1,
                "hi_offset": item.high_watermark,
                "ls_offset": item.last_stable_offset,
                "lo_offset": item.log_start_offset,
                "stored_offset": -1 if item.stored is None else item.stored[0],
            }
            partition = {name: value for name, value in known.items() if value >= 0}
            end = item.last_stable_offset if engine.settings.is_read_committed else item.high_watermark
            if "app_offset" in partition and end >= 0:
                partition["consumer_lag_stored"] = max(0, end - item.offset)
            info = core.metadata.cluster.partition(key)
            if info is not None:
                partition["leader"] = info.leader_id
            entry["partitions"][str(key.partition)] = {
                "partition": key.partition,
                "desired": True,
                **partition,
            }
    made: dict[str, Any] = {
        **_name(core, "consumer"),
        "replyq": len(replies),
        "brokers": _brokers(core),
        "topics": topics,
    }
    if engine.settings.group_id is not None:
        made["cgrp"] = {"assignment_size": sum(len(entry["partitions"]) for entry in topics.values())}
    return made
