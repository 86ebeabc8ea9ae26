"""How a command ends when it cannot do what it was asked."""

from __future__ import annotations

from typing import Final

FAILED: Final = 1  # the world is not as it should be: a port is taken, a folder is in use
MISUSED: Final = 2  # the command line or a setting cannot be
