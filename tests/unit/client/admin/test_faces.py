"""`klamm.Admin` and `klamm.aio.Admin` are the operations, no more and no less."""

from __future__ import annotations

import ast
import inspect
import runpy
from pathlib import Path

import pytest

import klamm
from klamm.client.admin.admin_operations import AdminOperations
from klamm.client.admin.foreign_names import INSTEAD, UNSUPPORTED
from klamm.client.admin.operations_host import OperationsHost

ROOT = Path(__file__).parents[4]
OPERATIONS = [
    name for name in dir(AdminOperations) if not name.startswith("_") and not hasattr(OperationsHost, name)
]


def test_the_faces_are_as_generated() -> None:
    tool = runpy.run_path(str(ROOT / "tools" / "make_admin.py"))
    for face in tool["FACES"]:
        written, wanted = ast.parse(face.path.read_text()), ast.parse(tool["generate"](face))
        for tree in (written, wanted):  # imports are sorted and merged after they were generated
            tree.body = [node for node in tree.body if not isinstance(node, ast.ImportFrom | ast.Import)]
        assert ast.dump(written) == ast.dump(wanted), f"{face.path}: run tools/make_admin.py"


@pytest.mark.parametrize("name", OPERATIONS)
def test_both_faces_have_every_operation_with_its_arguments(name: str) -> None:
    wanted = inspect.signature(getattr(AdminOperations, name)).parameters
    for face in (klamm.Admin, klamm.aio.Admin):
        found = inspect.signature(getattr(face, name)).parameters
        assert {key: (item.default, item.kind) for key, item in found.items()} == {
            key: (item.default, item.kind) for key, item in wanted.items()
        }


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_operation_is_in_the_documentation(name: str) -> None:
    assert f"`{name}(" in (ROOT / "docs" / "admin.md").read_text()


@pytest.mark.parametrize("name", sorted(INSTEAD))
def test_a_method_of_another_library_says_what_to_write(admin: klamm.Admin, name: str) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(admin, name)
    text = str(caught.value)
    assert text == f"Admin has no {name}; write {INSTEAD[name]}"
    written = INSTEAD[name].partition("(")[0]
    assert written.startswith("nothing") or hasattr(admin, written)


def test_other_names_are_named_or_guessed(admin: klamm.Admin) -> None:
    with pytest.raises(AttributeError, match="write list_groups"):
        admin.listConsumerGroups  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(AttributeError, match="did you mean describe_topics"):
        admin.describe_topicss  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(AttributeError, match=r"does not support this operation"):
        admin.alter_replica_log_dirs  # type: ignore[attr-defined]  # noqa: B018
    assert not {name for name in UNSUPPORTED if hasattr(klamm.Admin, name)}
    assert not hasattr(admin, "nosuchname")
