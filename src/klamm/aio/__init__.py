"""The asyncio faces of the client: the same names as in `klamm`, awaited."""

from __future__ import annotations

from klamm.aio.admin import Admin

__all__ = ["Admin"]
