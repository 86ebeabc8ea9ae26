"""The version of klamm; in the lowest layer, so that every layer can import it."""

from __future__ import annotations

from typing import Final

__version__: Final = "0.1.0"
