"""The `klamm` command: arguments in, exit codes out.

Each command is a module, imported when it is used: `klamm up` serves its first request before the modules of
the others could be imported.
"""

from __future__ import annotations

import importlib
import os
import sys

from klamm.cli.quick import parse_up
from klamm.version import __version__


def main() -> None:
    """Run the command line of this process."""
    if sys.argv[1:] == ["--version"]:
        # Without the command line library, whose import takes longer than everything else here.
        sys.stdout.write(f"klamm {__version__}\n")
        return
    options = parse_up(sys.argv[1:], os.environ)
    if options is not None:
        sys.exit(importlib.import_module("klamm.cli.start").start(options))
    importlib.import_module("klamm.cli.app").run()
