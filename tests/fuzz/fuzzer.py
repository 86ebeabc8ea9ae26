"""Feed random and damaged bytes to a build of the compiled core, and compare every result with the twin's.

    python -m fuzz.fuzzer CORE SEED --seconds N     as many cases as fit
    python -m fuzz.fuzzer CORE SEED --case N        one case again

The number of a case is written to stderr before it runs, so that a crash names it.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_loader
from random import Random
from types import ModuleType

from fuzz.cases import CASES


def load(path: str) -> ModuleType:
    """The core at a path, in the place of the one that is installed."""
    spec = spec_from_loader("klamm.records._core", ExtensionFileLoader("klamm.records._core", path))
    assert spec is not None
    assert spec.loader is not None
    core = module_from_spec(spec)
    sys.modules["klamm.records._core"] = core
    spec.loader.exec_module(core)
    return core


def run_case(core: ModuleType, seed: str, number: int) -> None:
    case = CASES[number % len(CASES)]
    try:
        case(core, Random(f"{seed}/{number}"))
    except Exception:
        sys.stderr.write(f"\n{case.__name__} failed\n")
        raise


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("core")
    arguments.add_argument("seed")
    arguments.add_argument("--seconds", type=float, default=30.0)
    arguments.add_argument("--case", type=int)
    asked = arguments.parse_args()
    core = load(asked.core)
    if asked.case is not None:
        run_case(core, asked.seed, asked.case)
        return
    number = 0
    until = time.monotonic() + asked.seconds
    while time.monotonic() < until:
        os.write(2, f"\rcase {number}".encode())
        run_case(core, asked.seed, number)
        number += 1
    sys.stdout.write(f"{number} cases\n")


if __name__ == "__main__":
    main()
