"""What users install: a wheel with the compiled core, and an sdist on a machine without a compiler."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import klamm

ROOT = Path(__file__).parents[2]
NAME = f"klamm-{klamm.__version__}"
pytestmark = pytest.mark.timeout(600)


def run(*command: object, env: dict[str, str] | None = None, stdin: str | None = None) -> str:
    texts = [str(item) for item in command]
    done = subprocess.run(
        texts, capture_output=True, text=True, env=env, input=stdin, timeout=300, check=False, cwd="/"
    )
    assert done.returncode == 0, f"{texts}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source tree as it is in version control, without anything that was built in it."""
    copied = tmp_path_factory.mktemp("tree") / "klamm"
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file() and not name.startswith(("tests/", "bench/", "docs/")):
            (copied / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, copied / name)
    return copied


@pytest.fixture(scope="module")
def dist(tree: Path) -> Path:
    """The sdist, and the wheel that is built from it."""
    out = tree.parent / "dist"
    # Without isolation: the build's requirements are installed here, and nothing has to be fetched.
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", out, tree)
    return out


@pytest.fixture(scope="module")
def wheel(dist: Path) -> Path:
    (found,) = dist.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def bare(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment with the sdist and its dependencies, installed where no compiler is to be found."""
    home = tmp_path_factory.mktemp("bare") / "venv"
    run(sys.executable, "-m", "venv", home)
    env = without_compiler(home)
    run(home / "bin" / "python", "-m", "pip", "install", "-q", dist / f"{NAME}.tar.gz", env=env)
    return home


def without_compiler(home: Path) -> dict[str, str]:
    kept = {
        key: value
        for key, value in os.environ.items()
        if key.startswith(("PIP_", "HTTP", "HOME", "SSL", "http"))
    }
    return {**kept, "PATH": str(home / "bin"), "CC": "/bin/false", "CXX": "/bin/false"}


@contextmanager
def serving(klamm_command: Path, env: dict[str, str]) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    broker = subprocess.Popen([klamm_command, "up", "--memory", "--listen", address], env=env, cwd="/")
    try:
        yield address
    finally:
        broker.terminate()
        assert broker.wait(60) == 0


def check_round_trip(klamm_command: Path, env: dict[str, str]) -> None:
    """A record goes in and comes out, all by the installed command."""
    assert run(klamm_command, "--version", env=env) == f"klamm {klamm.__version__}\n"
    with serving(klamm_command, env) as address:
        run(klamm_command, "health", "-b", address, "--timeout", "60", env=env)
        run(klamm_command, "topics", "create", "orders", "-b", address, env=env)
        run(klamm_command, "produce", "orders", "-b", address, env=env, stdin="one\ntwo\n")
        assert (
            run(klamm_command, "consume", "orders", "-b", address, "-o", "beginning", "-n", "2", env=env)
            == "one\ntwo\n"
        )


def is_compiled(python: Path, env: dict[str, str]) -> bool:
    return run(python, "-c", "from klamm.records.core import COMPILED; print(COMPILED)", env=env) == "True\n"


def test_the_sdist_has_every_source_and_nothing_built(dist: Path, tree: Path) -> None:
    with tarfile.open(dist / f"{NAME}.tar.gz") as archive:
        names = {name.removeprefix(f"{NAME}/") for name in archive.getnames()}
    sources = {str(path.relative_to(tree)) for path in (tree / "src").rglob("*") if path.is_file()}
    assert sources - names == set()
    assert {"README.md", "LICENSE", "pyproject.toml", "setup.py"} <= names
    assert not [name for name in names if name.endswith((".so", ".pyc", "_core.c", "_aio.c"))]


def test_the_wheel_has_the_compiled_core_and_every_module(wheel: Path, tree: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    modules = {str(path.relative_to(tree / "src")) for path in (tree / "src").rglob("*.py")}
    assert modules - names == set()
    assert {"klamm/py.typed", "klamm/spark/audit/report.html"} <= names
    assert [name for name in names if name.startswith("klamm/records/_core.") and name.endswith(".so")]
    assert "none-any" not in wheel.name


def test_without_a_compiler_the_sdist_installs_and_runs_on_the_pure_twin(bare: Path) -> None:
    env = without_compiler(bare)
    assert not is_compiled(bare / "bin" / "python", env)
    check_round_trip(bare / "bin" / "klamm", env)


def test_without_a_compiler_no_time_is_spent_on_translating(tree: Path, tmp_path: Path) -> None:
    env = {**os.environ, "CC": "/bin/false"}
    done = subprocess.run(
        [sys.executable, "setup.py", "build_ext", "--build-temp", tmp_path, "--build-lib", tmp_path / "lib"],
        capture_output=True,
        text=True,
        env=env,
        cwd=tree,
        timeout=60,
        check=True,
    )
    assert "nothing is compiled, klamm runs as Python" in done.stderr
    assert not list(tmp_path.rglob("translated"))


def test_the_wheel_installs_and_runs_on_the_compiled_core(wheel: Path, bare: Path, tmp_path: Path) -> None:
    # A second environment; dependencies are taken from the first, where they were resolved and installed.
    home = tmp_path / "venv"
    run(sys.executable, "-m", "venv", "--without-pip", home)
    python = home / "bin" / "python"
    run(bare / "bin" / "python", "-m", "pip", f"--python={python}", "install", "-q", "--no-deps", wheel)
    (shared,) = bare.glob("lib/python*/site-packages")
    (own,) = home.glob("lib/python*/site-packages")
    (own / "dependencies.pth").write_text(f"{shared}\n")
    env = without_compiler(home)
    assert is_compiled(python, env)
    check_round_trip(home / "bin" / "klamm", env)


def test_a_wheel_for_every_platform_can_be_built(tree: Path, tmp_path: Path) -> None:
    env = {**os.environ, "KLAMM_BUILD": "pure"}
    run(sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", tmp_path, tree, env=env)
    (built,) = tmp_path.glob("*.whl")
    assert built.name == f"{NAME}-py3-none-any.whl"
    assert not [name for name in zipfile.ZipFile(built).namelist() if name.endswith(".so")]
