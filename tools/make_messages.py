"""Write src/klamm/protocol/messages/*.py, one version-free module per API, and error_codes.py, from kio.

Run it when an API is added or kio is updated; the result is committed and read like any other code.
A message holds the union of the fields of all versions, each with a default, as Kafka's own do.

    python tools/make_messages.py
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from kio.schema.errors import ErrorCode

from kio_schemas import KioField, KioStruct, kio_struct, kio_versions
from klamm.protocol.api import OWN_APIS, ApiKey
from klamm.protocol.implied import IMPLIED
from klamm.protocol.types import ZERO_ID, Direction

KAFKAS = [api_key for api_key in ApiKey if api_key not in OWN_APIS]
PROTOCOL = Path(__file__).parents[1] / "src/klamm/protocol"
TARGET = PROTOCOL / "messages"
PYTHON_TYPES = {
    "bool": "bool",
    "float64": "float",
    "string": "str",
    "bytes": "bytes",
    "records": "Buffer",
    "uuid": "bytes",
}


class Union:
    """The fields that any version of a struct has, in the order of the newest that has them."""

    def __init__(self) -> None:
        self.structs: dict[str, dict[str, KioField]] = {}
        self.nullable: set[tuple[str, str]] = set()
        self.order: dict[str, list[str]] = {}
        self.versions: dict[tuple[str, str], dict[tuple[str, int | None], list[int]]] = {}

    def add(self, struct: KioStruct, version: int) -> None:
        known = self.structs.setdefault(struct.name, {})
        order = self.order.setdefault(struct.name, [])
        previous: str | None = None
        for field in struct.fields:
            if field.struct is not None:
                self.add(field.struct, version)
            if field.name not in order:
                order.insert(order.index(previous) + 1 if previous else 0, field.name)
            known[field.name] = field  # versions come in rising order: the newest wins
            if field.is_nullable:
                self.nullable.add((struct.name, field.name))
            kinds = self.versions.setdefault((struct.name, field.name), {})
            kinds.setdefault((declared_type(field), field.tag), []).append(version)
            previous = field.name

    def lines(self, name: str, base: str, implied: list[str], doc: str) -> list[str]:
        fields = [self.structs[name][field_name] for field_name in self.order[name]]
        names = [*self.order[name], *implied]
        rows = [row for field in fields for row in self.rows(name, field.name)]
        return [
            f"class {name}({base}):",
            f'    """{doc}"""',
            "",
            f"    __slots__ = ({', '.join(map(repr, names))}{',' if len(names) == 1 else ''})",
            "    SCHEMA = (",
            *(f"        {row!r}," for row in rows),
            "    )",
            "",
            "    def __init__(",
            "        self,",
            *(f"        {self.parameter(name, field)}," for field in fields),
            *(f"        {each}: bool = False,  # what the version implies" for each in implied),
            "    ) -> None:",
            *(f"        self.{each} = {each}" for each in names),
            "",
            "",
        ]

    def rows(self, struct_name: str, field_name: str) -> list[tuple[object, ...]]:
        rows: list[tuple[object, ...]] = []
        for (declared, tag), versions in self.versions[struct_name, field_name].items():
            found = sorted(set(versions))
            assert found == list(range(found[0], found[-1] + 1)), (struct_name, field_name, found)
            rows.append((found[0], found[-1], field_name, declared, *(() if tag is None else (tag,))))
        return rows

    def parameter(self, struct_name: str, field: KioField) -> str:
        nullable = (struct_name, field.name) in self.nullable
        python_type, default = self.python_type(field, nullable)
        if field.tag is not None:  # a decoder puts it where the tag is absent
            absent = None if field.struct is not None and not field.is_array else field.default
            assert default == ("ZERO_ID" if absent == ZERO_ID else repr(absent)), (struct_name, field.name)
        return f"{field.name}: {python_type} = {default}"

    def python_type(self, field: KioField, nullable: bool) -> tuple[str, str]:
        item = field.struct.name if field.struct else PYTHON_TYPES.get(field.type, "int")
        or_none = " | None" if nullable else ""
        if field.is_array:
            return f"Sequence[{item}]{or_none}", "None" if nullable and field.default is None else "()"
        if field.struct is not None:
            # None stands for "not given"; encoding one that must be there without it fails.
            return f"{item} | None", "None"
        default = "ZERO_ID" if field.default == ZERO_ID and field.type == "uuid" else repr(field.default)
        if nullable and field.default in ("", b"", 0) and field.type in ("string", "bytes", "records"):
            default = "None"
        return f"{item}{or_none}", default


def declared_type(field: KioField) -> str:
    item = field.struct.name if field.struct else field.type
    return f"{'[]' if field.is_array else ''}{item}{'?' if field.is_nullable else ''}"


def words(api_key: ApiKey) -> str:
    return api_key.name.title().replace("_", "")


def module_text(api_key: ApiKey) -> str:
    parts: list[str] = []
    written: dict[str, list[str]] = {}
    for direction in ("request", "response"):
        for name, lines in message_lines(api_key, direction).items():
            if name not in written:
                written[name] = lines
                parts += lines
            else:  # a structure that goes both ways
                assert written[name][2:] == lines[2:], f"{name} of {api_key!r} has two shapes"
    body = "\n".join(parts).rstrip() + "\n"
    imports = ["from collections.abc import Sequence", ""] if "Sequence[" in body else []
    bases = [base for base in ("Message", "Request") if f"({base})" in body or f"({base}[" in body]
    imports.append(f"from klamm.protocol.message import {', '.join(bases)}")
    names = [name for name in ("ZERO_ID", "Buffer") if name in body]
    if names:
        imports.append(f"from klamm.protocol.types import {', '.join(names)}")
    versions = kio_versions(api_key)
    title = f"{words(api_key)} (key {api_key:d}), versions {versions[0]} to {versions[-1]} in one shape"
    head = f'"""{title}; made by tools/make_messages.py."""'
    return "\n".join([head, "", "from __future__ import annotations", "", *imports, "", "", body])


def message_lines(api_key: ApiKey, direction: Direction) -> dict[str, list[str]]:
    union = Union()
    root = f"{words(api_key)}{direction.capitalize()}"
    for version in kio_versions(api_key):
        struct = kio_struct(api_key, version, direction)
        assert struct.name == root, struct.name
        union.add(struct, version)
    lines: dict[str, list[str]] = {}
    for name in ordered(union, root):
        doc = f"{words(api_key)}, the {direction}." if name == root else f"Part of the {direction}."
        is_request = name == root and direction == "request"
        base = f'Request["{words(api_key)}Response"]' if is_request else "Message"
        lines[name] = union.lines(name, base, list(IMPLIED.get(name, {})), doc)
    return lines


def ordered(union: Union, root: str) -> list[str]:
    done: list[str] = []

    def visit(name: str) -> None:
        for field in union.structs[name].values():
            if field.struct is not None:
                visit(field.struct.name)
        if name not in done:
            done.append(name)

    visit(root)
    return done


def versions_text() -> str:
    rows = []
    for api_key in KAFKAS:
        versions = kio_versions(api_key)
        flexible = [each for each in versions if kio_struct(api_key, each, "request").is_flexible]
        for each in versions:
            for direction in ("request", "response"):
                assert kio_struct(api_key, each, direction).is_flexible == (each in flexible)
        rows.append(
            f"    ApiKey.{api_key.name}: ({versions[0]}, {versions[-1]}, {(flexible or [32767])[0]}),"
        )
    rows += [f"    ApiKey.{api_key.name}: (0, 0, 0),  # klamm's own" for api_key in sorted(OWN_APIS)]
    return "\n".join(
        [
            '"""One version-free module per API; `klamm.protocol.codec` turns them into bytes and back.',
            "",
            "Made by tools/make_messages.py.",
            '"""',
            "",
            "from __future__ import annotations",
            "",
            "from typing import Final",
            "",
            "from klamm.protocol.api import ApiKey",
            "",
            "# First, last, and first flexible version; flexible ones have tagged fields.",
            "VERSIONS: Final[dict[int, tuple[int, int, int]]] = {",
            *rows,
            "}",
            "",
        ]
    )


def error_codes_text() -> str:
    return "\n".join(
        [
            '"""Kafka\'s error codes; made by tools/make_messages.py."""',
            "",
            "from __future__ import annotations",
            "",
            "from enum import IntEnum",
            "",
            "",
            "class ErrorCode(IntEnum):",
            '    """The codes by Kafka\'s names, in lower case."""',
            "",
            *(f"    {each.name} = {each.value:d}" for each in ErrorCode),
            "",
            "    @property",
            "    def retriable(self) -> bool:",
            '        """Whether a client may try again."""',
            "        return self in _RETRIABLE",
            "",
            "",
            "_RETRIABLE = frozenset(",
            "    {",
            *(f"        ErrorCode.{each.name}," for each in ErrorCode if each.retriable),
            "    }",
            ")",
            "",
        ]
    )


def texts() -> dict[Path, str]:
    """All that is generated, before it is formatted."""
    return {
        **{TARGET / f"{api_key.name.lower()}.py": module_text(api_key) for api_key in KAFKAS},
        TARGET / "__init__.py": versions_text(),
        PROTOCOL / "error_codes.py": error_codes_text(),
    }


def main() -> None:
    TARGET.mkdir(exist_ok=True)
    for path, text in texts().items():
        path.write_text(text)
    subprocess.run(["ruff", "format", "-q", *map(str, texts())], check=True)


if __name__ == "__main__":
    main()
