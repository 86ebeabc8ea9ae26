"""librdkafka's settings as klamm's."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

# The same thing under another name.
RENAMED: Final = {
    "metadata.broker.list": "bootstrap.servers",
    "queue.buffering.max.ms": "linger.ms",
    "message.timeout.ms": "delivery.timeout.ms",
    "compression.codec": "compression.type",
    "request.required.acks": "acks",
    "message.send.max.retries": "retries",
    "max.in.flight": "max.in.flight.requests.per.connection",
    "fetch.wait.max.ms": "fetch.max.wait.ms",
    "fetch.message.max.bytes": "max.partition.fetch.bytes",
    "message.max.bytes": "max.request.size",
    "partitioner": "partitioner.class",
    "stats_cb": "stats.callback",
}
# Settings of a part that klamm does not have, or that it does by itself: left out.
WITHOUT_EFFECT: Final = frozenset(
    {
        "api.version.request",
        "broker.address.family",
        "broker.version.fallback",
        "debug",
        "default.topic.config",
        "enable.partition.eof",
        "enable.sparse.connections",
        "error_cb",
        "log.connection.close",
        "log_level",
        "logger",
        "queue.buffering.max.kbytes",
        "queue.buffering.max.messages",
        "queued.max.messages.kbytes",
        "queued.min.messages",
        "socket.keepalive.enable",
        "socket.timeout.ms",
        "throttle_cb",
        "topic.metadata.refresh.interval.ms",
    }
)
RESETS: Final = {
    "smallest": "earliest",
    "beginning": "earliest",
    "largest": "latest",
    "end": "latest",
    "error": "none",
}
DEFAULT_PARTITIONER: Final = "consistent_random"  # librdkafka's, not Java's


def own_settings(given: Mapping[str, Any], *, is_consumer: bool) -> dict[str, Any]:
    """What klamm's client takes; a name that neither knows is left for it to report."""
    settings: dict[str, Any] = {}
    for name, value in given.items():
        dotted = name if name.endswith("_cb") else name.replace("_", ".")
        if dotted in WITHOUT_EFFECT or name in WITHOUT_EFFECT:
            continue
        settings[RENAMED.get(dotted, dotted)] = value
    callback = settings.get("stats.callback")
    if callback is not None:
        settings["stats.callback"] = lambda statistics: callback(json.dumps(statistics))  # text, there
        if not settings.get("statistics.interval.ms"):
            del settings["stats.callback"]
    else:
        settings.pop("statistics.interval.ms", None)
    servers = str(settings.get("bootstrap.servers", ""))
    settings["bootstrap.servers"] = ",".join(
        item if ":" in item else f"{item}:9092" for item in servers.split(",") if item
    )
    if is_consumer:
        reset = settings.get("auto.offset.reset")
        if reset in RESETS:
            settings["auto.offset.reset"] = RESETS[reset]
    else:
        settings.setdefault("partitioner.class", DEFAULT_PARTITIONER)
    return settings
