"""The request path is compiled from its Python source: all of it, and with the same classes."""

from __future__ import annotations

import ast
import re
from importlib import import_module
from pathlib import Path

import pytest

from klamm.records.core import COMPILED

SOURCE = Path(__file__).parents[2] / "src"
DECLARED = sorted(SOURCE.rglob("*.pxd"))
CLASS = re.compile(r"cdef class (\w+)(?:\(\w+\))?:\n((?:    .*\n|\n)*)")
FIELD = re.compile(r"    cdef (?:public )?[\w ]+? (\w+)$", re.MULTILINE)


def fields_of(node: ast.ClassDef) -> set[str] | None:
    """The slots of a class; None if it has none, but sets its attributes."""
    for each in node.body:
        if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == "__slots__":
            return set(ast.literal_eval(each.value))
    return None


@pytest.mark.parametrize("declared", DECLARED, ids=lambda path: str(path.relative_to(SOURCE)))
def test_declarations_have_the_fields_of_the_classes(declared: Path) -> None:
    module = ast.parse(declared.with_suffix(".py").read_text())
    classes = {node.name: node for node in module.body if isinstance(node, ast.ClassDef)}
    for name, body in CLASS.findall(declared.read_text()):
        slots = fields_of(classes[name])
        if slots is not None:
            assert set(FIELD.findall(body)) - {"__weakref__", "__dict__"} == slots, name


@pytest.mark.skipif(not COMPILED, reason="nothing is compiled here")
@pytest.mark.parametrize("declared", DECLARED, ids=lambda path: str(path.relative_to(SOURCE)))
def test_where_the_core_is_compiled_the_request_path_is(declared: Path) -> None:
    name = ".".join(declared.relative_to(SOURCE).with_suffix("").parts)
    assert not str(import_module(name).__file__).endswith(".py")
