"""Promises about the whole tree that neither a type nor an import contract can hold."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
MAX_LINES = 500
MAY_SLEEP = {  # commands that watch real processes, and the port that moves the time of a broker
    "src/klamm/cli/demo/play.py",
    "src/klamm/cli/move/ends.py",
    "src/klamm/spark/demo_job.py",
    "src/klamm/testing/control_http.py",
}
ASSEMBLY = "src/klamm/broker/embedded.py"
SAME_NAMES = {
    "Broker",  # of `klamm` and, with faults, of `klamm.testing`: tests change one import
    "Group",  # a coordinator's state; what `klamm.testing` shows of it
    "Message",  # of the protocol; of `klamm.Consumer`
}
# Above the storage layer these choose an engine, clean or read its files, or let its disk fail.
KNOW_ENGINES = {
    "src/klamm/broker/embedded_nodes.py",
    "src/klamm/broker/storage.py",
    "src/klamm/broker/upkeep/cleaning.py",
    "src/klamm/broker/upkeep/periodic.py",
    "src/klamm/broker/cluster/postgresql_lease.py",
    "src/klamm/cli/dump_files.py",
    "src/klamm/cli/dump_journal.py",
    "src/klamm/cli/dump_store.py",
    "src/klamm/testing/broker.py",
    "src/klamm/testing/disk_faults.py",
    "src/klamm/testing/faults.py",
}
OF_ENGINES = re.compile(
    r"(Segment|Postgres|Sqlite|Memory|Shared)(Log|Logs|Store|Cluster|Rounds|SyncTicket|Ticket)"
)
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


def test_only_what_assembles_a_broker_knows_which_engines_there_are() -> None:
    above = [path for path in SOURCES if "src/klamm/storage/" not in str(path)]
    knowing = {name_of(path) for path in above if "klamm.storage.engines" in path.read_text()}
    assert knowing == KNOW_ENGINES


def test_nothing_above_storage_asks_which_engine_a_log_has() -> None:
    asking = [
        f"{name_of(path)}:{call.lineno}"
        for path in SOURCES
        if "src/klamm/storage/" not in str(path)
        for call in calls(path)
        if isinstance(call.func, ast.Name)
        and call.func.id in {"isinstance", "issubclass", "type"}
        and OF_ENGINES.search(ast.unparse(call))
    ]
    assert asking == []


def test_what_everybody_sees_of_a_log_is_small() -> None:
    tree = ast.parse((ROOT / "src/klamm/storage/log.py").read_text())
    (port,) = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "PartitionLog"]
    members = [node for node in port.body if isinstance(node, ast.FunctionDef | ast.AnnAssign)]
    assert len(members) <= 15


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


def test_a_name_is_one_class() -> None:
    # compat and aio repeat the names of the libraries and of the client, which is what they are for;
    # records/_pure is the twin of the compiled core.
    repeating = (
        "src/klamm/compat/",
        "src/klamm/aio/",
        "src/klamm/protocol/messages/",
        "src/klamm/records/_pure/",
    )
    names = Counter(
        node.name
        for path in SOURCES
        if not name_of(path).startswith(repeating)
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert {name for name, count in names.items() if count > 1} == SAME_NAMES
