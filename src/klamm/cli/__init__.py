"""The `klamm` command: arguments in, exit codes out.

Each command is a module, imported when it is used: `klamm up` serves its first request before the modules of
the others could be imported.
"""

from __future__ import annotations

import importlib
import os
import sys

from klamm.cli.quick import parse_up


def main() -> None:
    """Run the command line of this process."""
    options = parse_up(sys.argv[1:], os.environ)
    if options is not None:
        sys.exit(importlib.import_module("klamm.cli.start").start(options))
    importlib.import_module("klamm.cli.app").run()
