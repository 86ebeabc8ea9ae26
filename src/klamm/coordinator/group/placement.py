"""Which partition of `__consumer_offsets` a group belongs to."""

from __future__ import annotations

from typing import Final

OFFSETS_TOPIC: Final = "__consumer_offsets"
