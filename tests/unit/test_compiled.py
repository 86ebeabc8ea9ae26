"""Some modules are compiled from their Python source: with the same classes, all or none, and few of them."""

from __future__ import annotations

import ast
import re
from importlib import import_module
from pathlib import Path
from typing import Final

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
DECLARED = sorted(SOURCE.rglob("*.pxd"))
CLASS = re.compile(r"cdef class (\w+)(?:\(\w+\))?:\n((?:    .*\n|\n)*)")
FIELD = re.compile(r"^    cdef (?:public )?[\w ]+? (\w+)$", re.MULTILINE)
FUNCTION = re.compile(r"^( *)c(?:p)?def [\w ]*?(\w+)\(", re.MULTILINE)
MOST_MODULES: Final = 25
MOST_LINES: Final = 4_000


def name_of(declared: Path) -> str:
    return str(declared.relative_to(SOURCE).with_suffix(""))


def slots_of(node: ast.ClassDef) -> set[str] | None:
    for each in node.body:
        if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == "__slots__":
            return set(ast.literal_eval(each.value))
    return None


def attributes_of(node: ast.ClassDef) -> set[str]:
    """What a class without slots assigns to `self`."""
    return {
        each.attr
        for each in ast.walk(node)
        if isinstance(each, ast.Attribute)
        and isinstance(each.ctx, ast.Store)
        and isinstance(each.value, ast.Name)
        and each.value.id == "self"
    }


@pytest.mark.parametrize("declared", DECLARED, ids=name_of)
def test_declarations_have_the_fields_and_methods_of_the_classes(declared: Path) -> None:
    text = declared.read_text()
    module = ast.parse(declared.with_suffix(".py").read_text())
    classes = {node.name: node for node in module.body if isinstance(node, ast.ClassDef)}
    for name, body in CLASS.findall(text):
        slots = slots_of(classes[name])
        expected = attributes_of(classes[name]) if slots is None else slots
        assert set(FIELD.findall(body)) == expected, f"{declared.name}: declare the fields of {name}"
    functions = {node.name for node in ast.walk(module) if isinstance(node, ast.FunctionDef)}
    assert {name for _, name in FUNCTION.findall(text)} <= functions


@pytest.mark.parametrize("declared", DECLARED, ids=name_of)
def test_one_declared_module_is_compiled_if_all_are(declared: Path) -> None:
    def is_compiled(path: Path) -> bool:
        return not str(import_module(name_of(path).replace("/", ".")).__file__).endswith(".py")

    assert is_compiled(declared) is is_compiled(DECLARED[0])


def test_few_modules_are_compiled_and_the_map_has_each() -> None:
    assert len(DECLARED) <= MOST_MODULES
    lines = sum(len(path.with_suffix(".py").read_text().splitlines()) for path in DECLARED)
    assert lines <= MOST_LINES
    table = (ROOT / "ARCHITECTURE.md").read_text()
    missing = [name for path in DECLARED if (name := name_of(path).removeprefix("klamm/")) not in table]
    assert missing == []
