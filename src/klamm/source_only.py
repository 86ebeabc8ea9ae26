"""klamm as plain Python where it is compiled, too: to compare, and to tell where a fault is."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, SourceFileLoader


def import_source_only(folders: Iterable[str]) -> None:
    """From now on, import the modules in these folders, and in those below, from their Python source."""
    for folder in folders:
        for below, _, _ in os.walk(folder):
            sys.path_importer_cache[below] = FileFinder(below, (SourceFileLoader, SOURCE_SUFFIXES))
