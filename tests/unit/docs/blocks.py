"""Runs the code blocks of a page: Python blocks in one namespace, console blocks command by command."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

_FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_ADDRESS = "127.0.0.1:9092"


class Block(NamedTuple):
    language: str
    text: str
    line: int


def blocks_of(page: Path) -> list[Block]:
    text = page.read_text()
    return [
        Block(found[1], found[2], text[: found.start()].count("\n") + 2) for found in _FENCE.finditer(text)
    ]


def run_page(page: Path, bootstrap: str, folder: Path) -> int:
    """Run every `python` and `console` block against a broker; the number of blocks."""
    names: dict[str, Any] = {"__name__": "page"}
    count = 0
    for block in blocks_of(page):
        if block.language == "python":
            # The lines before it keep their number in tracebacks.
            source = "\n" * (block.line - 1) + block.text.replace(_ADDRESS, bootstrap)
            exec(compile(source, str(page), "exec"), names)
        elif block.language == "console":
            _run_console(block, page, bootstrap, folder)
        else:
            continue
        count += 1
    return count


def _run_console(block: Block, page: Path, bootstrap: str, folder: Path) -> None:
    command, expected = "", list[str]()
    for line in [*block.text.splitlines(), "$ "]:
        if not line.startswith("$ "):
            expected.append(line)
            continue
        if command:
            _run_command(command, "\n".join(expected), f"{page}:{block.line}", bootstrap, folder)
        command, expected = line[2:], []


def _run_command(command: str, expected: str, place: str, bootstrap: str, folder: Path) -> None:
    """`...` in the expected output stands for anything."""
    script = re.sub(r"\bklamm(?= [a-z])", f"{sys.executable} -m klamm", command)
    environment = os.environ | {"KLAMM_BOOTSTRAP": bootstrap, "COLUMNS": "200"}
    done = subprocess.run(
        ["sh", "-c", script],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=environment,
        cwd=folder,
    )
    assert done.returncode == 0, f"{place}: {command}: {done.stderr}"
    pattern = ".*".join(map(re.escape, expected.split("...")))
    assert re.fullmatch(pattern, done.stdout.strip(), re.DOTALL), f"{place}: {command} printed: {done.stdout}"
