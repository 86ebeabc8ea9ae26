"""What pages tell readers to type, against the broker that they are told to start: `klamm up`."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import socket
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

import klamm
from interop.processes import ROOT, LineProcess, inherited_environment
from unit.docs.blocks import blocks_of, run_page
from unit.docs.test_pages import DOCS, RUN

SOURCES: Final = {"PYTHONPATH": str(ROOT / "src")}
KLAMM: Final = f"{shlex.quote(sys.executable)} -m klamm"
_UP: Final = re.compile(r"klamm up --(?:memory|data \S+)")
_BANNER: Final = re.compile(r"^klamm \S+ listening on .*$", re.MULTILINE)


@contextmanager
def started(command: str, folder: Path, **environment: str) -> Iterator[str]:
    """A command of a page that starts a broker, as a process; the line that it prints."""
    words = [sys.executable, "-m", *shlex.split(command)]
    settings = {**SOURCES, **environment}
    with LineProcess(words, stderr_path=folder / "log", environment=settings, folder=folder) as process:
        yield process.read_line(60)
        assert process.terminate() == 0


@pytest.mark.parametrize("page", RUN, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_code_of_a_page_runs_against_the_broker_that_it_starts(page: Path, tmp_path: Path) -> None:
    text = page.read_text()
    found = _UP.search(text)
    command = (found[0] if found else "klamm up").replace("/srv", str(tmp_path))
    with started(f"{command} --listen 127.0.0.1:0", tmp_path) as banner:
        bootstrap = banner.split("listening on ")[1].split(",")[0]
        for shown in _BANNER.findall(text):
            assert shown.replace("/srv", str(tmp_path)) == banner.replace(bootstrap, "127.0.0.1:9092")
        assert run_page(page, bootstrap, tmp_path) >= 2


def seen_by(program: str) -> list[Any]:
    """Run a program of another library, with something in place of its `...`; what it reads and is told."""
    seen: list[Any] = []
    for old, new in {
        "poll(timeout_ms=1000)": "poll(timeout_ms=20_000)",
        "poll(1.0)": "poll(20.0)",
        "        ...": "        seen.append(record)\n        break",
        "    ...": "    seen.append(records)",
        "print(": "seen.append(",
    }.items():
        program = program.replace(old, new)
    if "await" in program:
        program = "async def main():\n" + textwrap.indent(program, "    ") + "\nasyncio.run(main())"
    names = {"asyncio": asyncio, "json": json, "report": lambda *told: seen.append(told), "seen": seen}
    exec(compile(program, "coming-from.md", "exec"), names)
    for name in names.keys() & {"producer", "consumer"}:
        getattr(names[name], "close", bool)()
    return seen


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # kafka-python reads its schemas the old way
@pytest.mark.parametrize("package", ["", "klamm.compat."], ids=["theirs", "ours"])
def test_programs_for_other_libraries_run_with_only_their_imports_replaced(
    package: str, tmp_path: Path
) -> None:
    programs = [block.text for block in blocks_of(DOCS / "coming-from.md") if block.language == "py"]
    with started("klamm up --memory --listen 127.0.0.1:0", tmp_path) as banner:
        bootstrap = banner.split("listening on ")[1].split(",")[0]
        counts = [
            len(seen_by(re.sub(r"(?m)^from (?=\w+ import)", f"from {package}", program)))
            for program in (each.replace("127.0.0.1:9092", bootstrap) for each in programs)
        ]
    assert counts == [1, 2, 1]  # records, and the report of confluent's producer


# --- files that a page shows -----------------------------------------------------------------------------


def file_of(page: Path, title: str) -> Any:
    """The YAML of a page's section."""
    (text,) = [block.text for block in blocks_of(page) if block.language == "yaml" and title in block.text]
    return yaml.safe_load(text)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return port


def is_reached(bootstrap: str) -> bool:
    return subprocess.run(shlex.split(f"{KLAMM} health -b {bootstrap}"), check=False).returncode == 0


def test_the_broker_of_the_compose_file_answers_inside_and_outside(tmp_path: Path) -> None:
    services = file_of(DOCS / "recipes.md", "compose.yaml")["services"]
    shown = services["klamm"]
    assert (ROOT / shown["build"]["dockerfile"]).is_file()
    assert 'ENTRYPOINT ["klamm"]' in (ROOT / shown["build"]["dockerfile"]).read_text()
    (published,) = shown["ports"]
    inside, outside = free_port(), free_port()

    def here(text: str) -> str:
        """An address of a container as one of this machine."""
        text = text.replace("0.0.0.0", "127.0.0.1").replace(services["service"]["environment"]["BOOTSTRAP"],
                                                            f"127.0.0.1:{inside}")  # fmt: skip
        return text.replace(":9092", f":{inside}").replace(f":{published.split(':')[-1]}", f":{outside}")

    settings: Mapping[str, str] = {name: here(value) for name, value in shown["environment"].items()}
    command = " ".join(["klamm", *shown["command"]]).replace("/var/lib/klamm", str(tmp_path / "data"))
    with started(command, tmp_path, **settings):
        assert is_reached(f"127.0.0.1:{inside}")
        assert is_reached(f"localhost:{outside}")
        with klamm.Admin(bootstrap_servers=f"127.0.0.1:{outside}") as admin:
            (node,) = admin.describe_cluster().brokers
            assert (node.host, node.port) == ("localhost", outside)
    assert services["service"]["depends_on"]["klamm"] == {"condition": "service_healthy"}
    assert "HEALTHCHECK" in (ROOT / shown["build"]["dockerfile"]).read_text()


def test_the_workflow_has_a_broker_when_its_step_is_done(tmp_path: Path) -> None:
    workflow = file_of(DOCS / "recipes.md", ".github/workflows")
    steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
    assert all(("uses" in step) != ("run" in step) for step in steps)
    (script,) = [step["run"] for step in steps if step.get("name") == "Start a broker"]
    address = f"127.0.0.1:{free_port()}"
    script = script.replace("klamm up --memory", f"klamm up --memory --listen {address}")
    script = re.sub(r"\bklamm (?=[a-z])", f"{KLAMM} ", script) + "echo $!\n"
    done = subprocess.run(
        ["bash", "-e", "-c", script], capture_output=True, text=True, timeout=60, check=False, cwd=tmp_path,
        env=inherited_environment() | SOURCES | {"KLAMM_BOOTSTRAP": address},
    )  # fmt: skip
    *_, process = done.stdout.splitlines()
    try:
        assert done.returncode == 0, done.stderr
        assert is_reached(address)
    finally:
        os.kill(int(process), 15)
