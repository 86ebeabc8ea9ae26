"""klamm: a Kafka-protocol broker, client and Spark pipeline in Python."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from klamm.broker.embedded import Broker as Broker

__version__ = "0.1.0"
__all__ = ["Broker", "__version__"]


def __getattr__(name: str) -> object:
    """Import what is asked for when it is asked for: `import klamm` alone stays cheap."""
    if name == "Broker":
        from klamm.broker.embedded import Broker  # noqa: PLC0415 - lazily is the point

        return Broker
    raise AttributeError(f"module 'klamm' has no attribute {name!r}")
