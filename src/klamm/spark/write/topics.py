"""Topics that a sink writes to: they exist, or option `createTopics` has them created."""

from __future__ import annotations

import os
from typing import Final

from klamm.client.admin.existence import require_topic
from klamm.spark.options.options import SinkOptions
from klamm.spark.setup.connections import admin

_ADVICE: Final = "create it first, or set option createTopics to true or to the number of its partitions"
_found: Final[set[tuple[int, str, str]]] = set()


def require_sink_topic(options: SinkOptions, topic: str) -> None:
    """Look for a topic once in this process, and create it if that is asked for. Raises KlammError."""
    key = (os.getpid(), options.client.get("bootstrap.servers", ""), topic)
    if key in _found:
        return
    require_topic(
        admin(options.client),
        topic,
        partitions=options.create_partitions,
        advice=_ADVICE,
        timeout=int(options.client.get("max.block.ms", 60_000)) / 1000,
    )
    _found.add(key)
