"""Promises about the whole tree that neither a type nor an import contract can hold."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
MAX_LINES = 500
MAY_SLEEP = {  # commands that watch real processes
    "src/klamm/cli/demo/play.py",
    "src/klamm/cli/move/ends.py",
    "src/klamm/spark/demo_job.py",
}
ASSEMBLY = "src/klamm/broker/embedded.py"
QUAINT = re.compile(
    r"\b(whom|whoever|somebody|nobody|everybody|could not be told|cannot be: write|good order|patience)\b"
)


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def calls(path: Path) -> Iterator[ast.Call]:
    return (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call))


def is_log_call(call: ast.Call) -> bool:
    levels = {"debug", "info", "warning", "error", "exception", "critical"}
    return isinstance(call.func, ast.Attribute) and call.func.attr in levels


def texts(node: ast.AST) -> str:
    constants = (each for each in ast.walk(node) if isinstance(each, ast.Constant))
    return " ".join(each.value for each in constants if isinstance(each.value, str))


def test_no_module_is_longer_than_a_reader_can_hold() -> None:
    lengths = {name_of(path): len(path.read_text().splitlines()) for path in SOURCES}
    assert {name: lines for name, lines in lengths.items() if lines > MAX_LINES} == {}


def test_nothing_sleeps_where_a_clock_could_be_moved() -> None:
    sleeping = {
        name_of(path)
        for path in SOURCES
        for call in calls(path)
        if isinstance(call.func, ast.Attribute)
        and call.func.attr == "sleep"
        and isinstance(call.func.value, ast.Name)
        and call.func.value.id == "time"
    }
    assert sleeping <= MAY_SLEEP


def test_time_and_chance_of_a_broker_are_handed_in_where_it_is_assembled() -> None:
    own = re.compile(r"\b(time\.sleep|SystemRandom)\b")
    parts = [ROOT / "src/klamm" / part for part in ("broker", "coordinator", "storage")]
    paths = [path for part in parts for path in part.rglob("*.py")]
    assert [name_of(path) for path in paths if own.search(path.read_text())] == [ASSEMBLY]


def test_log_lines_and_errors_are_in_plain_words() -> None:
    found = []
    for path in SOURCES:
        tree = ast.parse(path.read_text())
        speaking: list[ast.stmt | ast.expr] = [node for node in ast.walk(tree) if isinstance(node, ast.Raise)]
        speaking += [call for call in calls(path) if is_log_call(call)]
        found += [
            f"{name_of(path)}:{node.lineno}: {texts(node)}" for node in speaking if QUAINT.search(texts(node))
        ]
    assert found == []


def test_docstrings_and_comments_of_the_broker_are_in_plain_words() -> None:
    found = [
        f"{name_of(path)}:{number}: {line.strip()}"
        for path in sorted((ROOT / "src/klamm/broker").rglob("*.py"))
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        if QUAINT.search(line)
    ]
    assert found == []
