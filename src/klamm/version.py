"""Which klamm this is; at the bottom, so that every layer may say it."""

from __future__ import annotations

from typing import Final

__version__: Final = "0.1.0"
