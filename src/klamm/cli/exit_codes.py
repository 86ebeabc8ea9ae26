"""The exit codes of commands that fail."""

from __future__ import annotations

from typing import Final

FAILED: Final = 1  # the command failed: a port or a folder is in use, a broker is unreachable
MISUSED: Final = 2  # the command line or a setting is invalid
