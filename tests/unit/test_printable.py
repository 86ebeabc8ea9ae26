"""Text that others chose, in logs and on terminals."""

from __future__ import annotations

import json
import logging
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.cli.logs import LineFormatter
from klamm.cli.output import echo, echo_lines
from klamm.cli.tables import MOST_OF_A_CELL, table_lines
from klamm.printable import printable, printable_json, printable_lines

EVIL = "a\n\x1b[2J\x07\x9b31m\r\u202eb\x00"


def test_a_name_is_one_line_without_control_characters() -> None:
    assert printable(EVIL) == r"a\n\x1b[2J\x07\x9b31m\r\u202eb\x00"
    assert printable("jörg 名前 orders-1") == "jörg 名前 orders-1"
    assert printable("x" * 10_000_000) == "x" * 200 + "..."


@given(st.text(), st.integers(1, 20))
def test_what_is_printable_is_printable(text: str, most: int) -> None:
    assert printable(text, most).isprintable()
    assert printable(printable(text, 200), 10_000) == printable(text, 200)


@given(st.text())
def test_lines_keep_their_ends_and_nothing_else(text: str) -> None:
    assert printable_lines(text).replace("\n", "").replace("\t", "").isprintable()


@given(st.dictionaries(st.text(), st.text() | st.lists(st.text())))
def test_json_has_the_same_value_and_no_control_characters(value: object) -> None:
    shown = printable_json(json.dumps(value, ensure_ascii=False, indent=2))
    assert json.loads(shown) == value
    assert shown.replace("\n", "").isprintable()


def test_tables_and_lines_of_commands_are_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    rows = list(table_lines(("group", "lag"), [(EVIL, 1), ("g" * 10_000, 22)]))
    assert len(rows) == 3
    assert all(row.isprintable() and len(row) < MOST_OF_A_CELL + 20 for row in rows)
    echo(f"{EVIL} deleted")
    echo(f"{EVIL} failed", err=True)
    echo_lines("one\ntwo \x1b[31m")
    printed = capsys.readouterr()
    assert printed.out == rf"{printable(EVIL)} deleted" + "\none\ntwo \\x1b[31m\n"
    assert printed.err == f"{printable(EVIL)} failed\n"


def test_a_line_of_the_log_is_one_line_and_a_traceback_has_no_escape_sequence() -> None:
    form = LineFormatter("%(levelname)s %(message)s")
    record = logging.LogRecord("klamm", logging.INFO, "", 0, "client %s", (EVIL,), None)
    assert form.format(record) == rf"INFO client {printable(EVIL)}"
    try:
        raise ValueError(EVIL)
    except ValueError:
        failed = logging.LogRecord("klamm", logging.ERROR, "", 0, "failed", (), sys.exc_info())
    told = form.format(failed)
    assert told.splitlines()[:2] == ["ERROR failed", "Traceback (most recent call last):"]
    assert "\x1b" not in told
