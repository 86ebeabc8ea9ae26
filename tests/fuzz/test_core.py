"""The compiled core on damaged input, under gcc's address and undefined-behaviour sanitizers."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from fuzz.sanitized import build, fuzz, missing_tool

SECONDS = os.environ.get("KLAMM_FUZZ_SECONDS", "30")
# The same bytes every day, and a few new ones: a failure prints the seed to run again.
SEEDS = (
    [os.environ["KLAMM_FUZZ_SEED"]] if "KLAMM_FUZZ_SEED" in os.environ else ["klamm", secrets.token_hex(4)]
)
WITHOUT_A_CHECK = ("_wire.h", "length < 1 || length > end - at", "length < 1")


@pytest.fixture(scope="module")
def builds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Future[Path], Future[Path]]]:
    """The core as it is, and one without a bounds check; compiled side by side."""
    missing = missing_tool()
    if missing is not None:
        pytest.skip(missing)
    folders = tmp_path_factory.mktemp("sound"), tmp_path_factory.mktemp("unchecked")
    with ThreadPoolExecutor(2) as pool:
        yield (
            pool.submit(build, folders[0], optimization="-O1"),
            pool.submit(build, folders[1], optimization="-O0", change=WITHOUT_A_CHECK),
        )


def report(seed: str, done: CompletedProcess[str]) -> str:
    """The last case and what was written after it."""
    return f"seed {seed}, case {done.stderr.rpartition('case ')[2][:6000]}{done.stdout}"


@pytest.mark.parametrize("seed", SEEDS)
def test_no_input_makes_the_core_misbehave(builds: tuple[Future[Path], Future[Path]], seed: str) -> None:
    seconds = float(SECONDS) / len(SEEDS)
    done = fuzz(builds[0].result(), seed, "--seconds", str(seconds))
    assert done.returncode == 0, report(seed, done)
    assert int(done.stdout.split()[0]) > 5 * seconds, f"too few cases to mean anything: {done.stdout}"


def test_the_fuzzer_finds_a_missing_bounds_check(builds: tuple[Future[Path], Future[Path]]) -> None:
    done = fuzz(builds[1].result(), "klamm", "--seconds", "30")
    assert "AddressSanitizer" in done.stderr, report("klamm", done)
