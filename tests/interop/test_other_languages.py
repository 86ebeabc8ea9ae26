"""The programs of docs/testing-other-languages.md, as they are there: JUnit, `go test` and `node --test`."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from interop.kafka_tools import cache_dir, java_command, kafka_libs
from interop.processes import ROOT, inherited_environment
from unit.docs.blocks import blocks_of

pytestmark = [pytest.mark.timeout(600)]  # Go may have to compile its client

PAGE = ROOT / "docs" / "testing-other-languages.md"
_FILE = re.compile(r"// (\S+)\n")

Run = Callable[..., str]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the files of the page."""
    for block in blocks_of(PAGE):
        if named := _FILE.match(block.text):
            (tmp_path / named[1]).write_text(block.text)
    return tmp_path


@pytest.fixture
def run(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Runs a command where `klamm` is this tree's."""
    programs = tmp_path_factory.mktemp("bin")
    klamm = programs / "klamm"
    klamm.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m klamm "$@"\n')
    klamm.chmod(0o755)

    def done(*command: str | Path, **variables: str) -> str:
        environment = {
            **inherited_environment(),
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT / "src"),
            **variables,
        }
        result = subprocess.run(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=500,
            check=False,
        )
        assert result.returncode == 0, result.stdout + result.stderr
        return result.stdout

    return done


def test_java_moves_the_clock_and_orders_a_fault(run: Run, folder: Path) -> None:
    subprocess.run([ROOT / "tools" / "fetch_junit.sh", cache_dir()], check=True)
    (jar,) = (cache_dir() / "junit").glob("*/junit-platform-console-standalone.jar")
    run("javac", "-nowarn", "-cp", f"{kafka_libs()}/*:{jar}", "Klamm.java", "BillingTest.java")
    launcher = "org.junit.platform.console.ConsoleLauncher"
    flags = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
    java = java_command(launcher, "execute", "--select-class=BillingTest", flags=flags, classes=folder)
    class_path = java.index("-cp") + 1
    java[class_path] = f"{jar}:{java[class_path]}"
    assert "2 tests successful" in run(*java)


def test_go_moves_the_clock_and_orders_a_fault(run: Run, folder: Path) -> None:
    for name in ("go.mod", "go.sum"):
        shutil.copy(ROOT / "tests/interop/clients/go" / name, folder)
    go = cache_dir() / "bin" / "go"
    printed = run(go, "test", "-vet=off", "-v", ".", GOTOOLCHAIN="local", GOFLAGS="-mod=mod")
    assert printed.count("--- PASS: ") == 2


def test_node_moves_the_clock_and_orders_a_fault(run: Run, folder: Path) -> None:
    (folder / "node_modules").symlink_to(cache_dir() / "clients" / "js" / "node_modules")
    assert "# pass 2" in run("node", "--test", "--test-reporter=tap", "billing.test.js")
