"""The `klamm` command: arguments in, exit codes out.

Each command is a module, imported when it is used: `klamm up` serves its first request before the modules of
the others could be imported.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys

from klamm.version import __version__


def main() -> None:
    """Run the command line of this process."""
    arguments = sys.argv[1:]
    # Some commands are done without the command line library, whose import takes longer than they do.
    if arguments == ["--version"]:
        sys.stdout.write(f"klamm {__version__}\n")
        return
    if arguments[:1] == ["up"]:
        gc.disable()  # until the broker serves: what is imported is not garbage
        options = importlib.import_module("klamm.cli.quick").parse_up(arguments, os.environ)
        if options is not None:
            sys.exit(importlib.import_module("klamm.cli.start").start(options))
    if arguments[:2] == ["topics", "list"]:
        quick = importlib.import_module("klamm.cli.quick_topics")
        wanted = quick.parse_list(arguments[2:], os.environ)
        if wanted is not None and quick.list_topics(wanted):
            return
    importlib.import_module("klamm.cli.app").run()
