"""The `klamm` command: arguments in, exit codes out.

Each command is a module of its own, imported when it is asked for: `klamm up` serves its first request
before it would have imported what the others need.
"""

from __future__ import annotations

import importlib


def main() -> None:
    """Run the command line of this process."""
    importlib.import_module("klamm.cli.app").run()
