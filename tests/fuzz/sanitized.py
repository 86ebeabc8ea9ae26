"""The compiled core with gcc's address and undefined-behaviour sanitizers, built outside the source tree."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from shutil import copytree, which

import klamm.records

SOURCES = Path(klamm.records.__file__).parent
FLAGS = (
    "-shared",
    "-fPIC",
    "-g1",
    "-fno-omit-frame-pointer",
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=all",  # undefined behaviour ends the process, as a bad access does
)


def missing_tool() -> str | None:
    """What to install before the core can be built with sanitizers; None when everything is present."""
    if which("gcc") is None:
        return (
            "gcc not found: install gcc with its sanitizer libraries (Debian: apt-get install gcc libc6-dev)"
        )
    if not sanitizer_library().is_file():
        return "gcc has no libasan: install the sanitizer libraries of your gcc (Debian: libasan8, libubsan1)"
    return None


def sanitizer_library() -> Path:
    """The library that must be loaded before Python, which is not built with sanitizers itself."""
    found = subprocess.run(["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True)
    return Path(found.stdout.strip())


def build(folder: Path, *, optimization: str, change: tuple[str, str, str] | None = None) -> Path:
    """Compile the core into a folder; `change` is a file, a text in it, and what replaces the text."""
    sources = folder / "sources"
    copytree(
        SOURCES, sources, ignore=lambda _, names: [n for n in names if not n.endswith((".pyx", ".pxi", ".h"))]
    )
    if change is not None:
        name, old, new = change
        text = (sources / name).read_text()
        assert text.count(old) == 1, f"{name} holds {old!r} {text.count(old)} times: adapt the test"
        (sources / name).write_text(text.replace(old, new))
    core = folder / "_core.so"
    generated = sources / "_core.c"
    _run(sys.executable, "-m", "cython", "-3", str(sources / "_core.pyx"), "-o", str(generated))
    include = sysconfig.get_paths()["include"]
    _run("gcc", *FLAGS, optimization, "-I", include, "-I", str(sources), str(generated), "-o", str(core))
    return core


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)} failed:\n{done.stderr}"


def fuzz(core: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the fuzzer on a sanitized core, in a process of its own."""
    tests = Path(__file__).parent.parent
    environment = {
        **os.environ,
        "LD_PRELOAD": str(sanitizer_library()),
        "PYTHONMALLOC": "malloc",  # every object is a block of its own, with an end that the sanitizer knows
        "PYTHONPATH": os.pathsep.join((str(SOURCES.parent.parent), str(tests))),
        "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=0",  # Python frees little when it ends
        "UBSAN_OPTIONS": "print_stacktrace=1",
    }
    command = [sys.executable, "-m", "fuzz.fuzzer", str(core), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=600)
