"""The asyncio faces of the client: the same names as in `klamm`, awaited."""

from __future__ import annotations

from klamm.aio.admin import Admin
from klamm.aio.consumer import Consumer
from klamm.aio.producer import Producer

__all__ = ["Admin", "Consumer", "Producer"]
