"""klamm: a Kafka-protocol broker, client and Spark pipeline in Python."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from klamm.version import __version__

if TYPE_CHECKING:
    from klamm.broker.embedded import Broker as Broker
    from klamm.client.admin.face import Admin as Admin
    from klamm.client.consumer.face import Consumer as Consumer
    from klamm.client.errors import KlammError as KlammError
    from klamm.client.producer.face import Producer as Producer
    from klamm.protocol.types import TopicPartition as TopicPartition

# Name -> the module that has it. Imported when asked for: `import klamm` alone stays cheap.
_HOMES = {
    "Admin": "klamm.client.admin.face",
    "Broker": "klamm.broker.embedded",
    "Consumer": "klamm.client.consumer.face",
    "KlammError": "klamm.client.errors",
    "Producer": "klamm.client.producer.face",
    "TopicPartition": "klamm.protocol.types",
}
__all__ = ["Admin", "Broker", "Consumer", "KlammError", "Producer", "TopicPartition", "__version__"]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'klamm' has no attribute {name!r}")
    value: object = getattr(import_module(home), name)
    globals()[name] = value
    return value
