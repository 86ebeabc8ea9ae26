"""The exit codes of commands that fail; docs/cli.md has the table."""

from __future__ import annotations

from typing import Final

FAILED: Final = 1  # the command failed: a port or a folder is in use, a broker is unreachable
MISUSED: Final = 2  # the command line or a setting is invalid
NEEDS_ATTENTION: Final = 3  # the command worked, and what it looked at is not well
INTERRUPTED: Final = 130  # Ctrl-C before the command was complete, as shells report SIGINT
