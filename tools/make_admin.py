"""Generates `klamm.Admin`, which waits, and `klamm.aio.Admin`, which is awaited, from the admin operations.

    .venv/bin/python tools/make_admin.py

Signatures and docstrings come from the classes that `AdminOperations` inherits; each face adds how it waits.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src" / "klamm"
PARTS = ("topic_operations", "cluster_operations", "group_operations")
ACCESS_PARTS = ("access_operations",)


@dataclass(frozen=True)
class Face:
    """One generated module."""

    path: Path
    doc: str
    frame: str
    is_async: bool
    parts: tuple[str, ...] = PARTS


SYNC = Face(
    SOURCE / "client" / "admin" / "admin.py",
    "The admin for programs that wait: one method per operation.",
    '''
class Admin(AccessAdmin):
    """Administers a cluster; settings by Kafka's names, as a dictionary or keywords.

    Each method waits at most `timeout` seconds (default: `default.api.timeout.ms`). A method over several
    items raises the first error, or with `raise_errors=False` returns a value or an error for each.
    """

    def __init__(
        self, config: Mapping[str, Any] | None = None, /, **settings: Unpack[AdminKeywords]
    ) -> None:
        self._operations = AdminOperations(config, settings)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> None:
            raise AttributeError(missing_method(name))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections; safe to call twice."""
        self._operations.close()
''',
    is_async=False,
)
ASYNC = Face(
    SOURCE / "aio" / "admin.py",
    "The admin for asyncio: the same methods, awaited.",
    '''
class Admin(AccessAdmin):
    """As `klamm.Admin`, with `await` and `async with`."""

    def __init__(
        self, config: Mapping[str, Any] | None = None, /, **settings: Unpack[AdminKeywords]
    ) -> None:
        self._operations = AdminOperations(config, settings)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> None:
            raise AttributeError(missing_method(name))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections; safe to call twice."""
        if not self._operations.is_inherited:  # else the connections are those of the parent process
            await asyncio.to_thread(self._operations.close)
''',
    is_async=True,
)
# Apart, because a module of both would be too long to read.
SYNC_ACCESS = Face(
    SOURCE / "client" / "admin" / "access_admin.py",
    "The admin's methods for ACLs, users and quotas.",
    '''
class AccessAdmin:
    """The part of `Admin` that says who may connect, what they may do, and how fast."""

    _operations: AdminOperations
''',
    is_async=False,
    parts=ACCESS_PARTS,
)
ASYNC_ACCESS = Face(
    SOURCE / "aio" / "access_admin.py",
    "The methods for ACLs, users and quotas of the admin for asyncio.",
    '''
class AccessAdmin:
    """The part of `Admin` that says who may connect, what they may do, and how fast."""

    _operations: AdminOperations
''',
    is_async=True,
    parts=ACCESS_PARTS,
)
FACES = (SYNC, ASYNC, SYNC_ACCESS, ASYNC_ACCESS)


def generate(face: Face) -> str:
    """The module's text, not yet formatted."""
    methods: list[str] = []
    names: set[str] = set()
    origins: dict[str, str] = {}
    for part in face.parts:
        tree = ast.parse((SOURCE / "client" / "admin" / f"{part}.py").read_text())
        for node in tree.body:
            if isinstance(node, ast.ImportFrom):
                origins |= {alias.name: node.module or "" for alias in node.names if alias.asname is None}
            if isinstance(node, ast.ClassDef):
                for item in node.body:
                    if isinstance(item, ast.FunctionDef) and not item.name.startswith("_"):
                        methods.append(method(item, face))
                        names |= {each.id for each in ast.walk(signature(item)) if isinstance(each, ast.Name)}
    imports = [f"from {origins[name]} import {name}" for name in sorted(names) if name in origins]
    modules = {name for name in origins if any(f"{name}." in method for method in methods)}
    imports += [f"from {origins[name]} import {name}" for name in sorted(modules - names)]
    is_whole = "AccessAdmin)" in face.frame
    if is_whole:
        package = "klamm.aio" if face.is_async else "klamm.client.admin"
        imports.append(f"from {package}.access_admin import AccessAdmin")
    return "\n".join(
        [
            f'"""{face.doc}\n\nGenerated by tools/make_admin.py: change the operations, not this file.\n"""',
            "from __future__ import annotations",
            *(["import asyncio"] if face.is_async else []),
            "from collections.abc import Mapping",
            "from types import TracebackType",
            "from typing import TYPE_CHECKING, Any, Self, Unpack",
            "from klamm.client.admin.admin_operations import AdminOperations",
            "from klamm.client.admin.foreign_names import missing_method",
            *imports,
            *(
                ["if TYPE_CHECKING:", "    from klamm.client.setting_types import AdminKeywords"]
                if is_whole
                else []
            ),
            "",
            face.frame,
            *methods,
        ]
    )


def signature(item: ast.FunctionDef) -> ast.Tuple:
    """Everything of a function that is evaluated where it is declared."""
    annotations = [argument.annotation for argument in (*item.args.args, *item.args.kwonlyargs)]
    defaults = [*item.args.defaults, *item.args.kw_defaults, item.returns]
    return ast.Tuple([each for each in (*annotations, *defaults) if each is not None], ast.Load())


def method(item: ast.FunctionDef, face: Face) -> str:
    assert isinstance(item.returns, ast.Subscript)  # Future[...]
    passed = [argument.arg for argument in item.args.args[1:]]
    passed += [f"{argument.arg}={argument.arg}" for argument in item.args.kwonlyargs]
    call = f"self._operations.{item.name}({', '.join(passed)})"
    waited = f"await asyncio.wrap_future({call})" if face.is_async else f"{call}.result()"
    result = ast.unparse(item.returns.slice)
    doc = ast.get_docstring(item, clean=False)
    return "\n".join(
        [
            f"    {'async ' if face.is_async else ''}def {item.name}({ast.unparse(item.args)}) -> {result}:",
            f'        """{doc}"""',
            f"        {'' if result == 'None' else 'return '}{waited}",
            "",
        ]
    )


def main() -> None:
    for face in FACES:
        face.path.write_text(generate(face))
    ruff = Path(sys.executable).parent / "ruff"
    paths = [str(face.path) for face in FACES]
    for arguments in (["check", "-q", "--fix", "--select=I,F401"], ["format", "-q"]):
        subprocess.run([ruff, *arguments, *paths], check=True)


if __name__ == "__main__":
    main()
