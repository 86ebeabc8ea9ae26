"""Write src/klamm/protocol/messages/*.py: one version-free module per API, from kio's schemas.

Run it when an API is added or kio is updated; the result is committed and read like any other code.
A message holds the union of the fields of all versions, each with a default, as Kafka's own do.

    python tools/make_messages.py
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

from klamm.protocol.api import ApiKey
from klamm.protocol.implied import IMPLIED
from klamm.protocol.schema import Direction, SchemaField, Struct, api_name, load_struct, schema_versions
from klamm.protocol.types import ZERO_ID

TARGET = Path(__file__).parents[1] / "src/klamm/protocol/messages"
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
        self.structs: dict[str, dict[str, SchemaField]] = {}
        self.nullable: set[tuple[str, str]] = set()
        self.order: dict[str, list[str]] = {}

    def add(self, struct: Struct) -> None:
        known = self.structs.setdefault(struct.name, {})
        order = self.order.setdefault(struct.name, [])
        previous: str | None = None
        for field in struct.fields:
            if field.struct is not None:
                self.add(field.struct)
            if field.name not in order:
                order.insert(order.index(previous) + 1 if previous else 0, field.name)
            known[field.name] = field  # versions come in rising order: the newest wins
            if field.is_nullable:
                self.nullable.add((struct.name, field.name))
            previous = field.name

    def lines(self, name: str, base: str, implied: dict[str, object], doc: str) -> list[str]:
        lines = ["@dataclass(slots=True)", f"class {name}{base}:", f'    """{doc}"""', ""]
        for field_name in self.order[name]:
            lines.append(self.field_line(name, self.structs[name][field_name]))
        lines += [f"    {field}: bool = False  # what the version implies" for field in implied]
        return [*lines, "", ""]

    def field_line(self, struct_name: str, field: SchemaField) -> str:
        item = field.struct.name if field.struct else PYTHON_TYPES.get(field.type, "int")
        nullable = (struct_name, field.name) in self.nullable
        if field.is_array:
            default = "None" if nullable and field.default is None else "()"
            return f"    {field.name}: Sequence[{item}]{' | None' if nullable else ''} = {default}"
        if field.struct is not None:
            if nullable or field.tag is not None:  # a tagged struct that is not there
                return f"    {field.name}: {item} | None = None"
            return f"    {field.name}: {item} = field(default_factory={item})"
        default = "ZERO_ID" if field.default == ZERO_ID and field.type == "uuid" else repr(field.default)
        if nullable and field.default in ("", b"", 0):
            default = "None" if field.type in ("string", "bytes", "records") else default
        return f"    {field.name}: {item}{' | None' if nullable else ''} = {default}"


def words(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))


def module_text(api_key: ApiKey) -> str:
    parts: list[str] = []
    written: dict[str, list[str]] = {}
    for direction in ("request", "response"):
        for name, lines in message_lines(api_key, direction).items():
            if name not in written:
                written[name] = lines
                parts += lines
            else:  # a structure that goes both ways
                assert written[name][4:] == lines[4:], f"{name} of {api_key!r} has two shapes"
    body = "\n".join(parts).rstrip() + "\n"
    imports = ["from dataclasses import dataclass" + (", field" if "field(default_factory" in body else "")]
    if "Sequence[" in body:
        imports.insert(0, "from collections.abc import Sequence")
    names = [name for name in ("ZERO_ID", "Buffer") if name in body]
    imports += ["", "from klamm.protocol.request import Request"]
    if names:
        imports.append(f"from klamm.protocol.types import {', '.join(names)}")
    versions = schema_versions(api_key)
    title = (
        f"{words(api_name(api_key))} (key {api_key:d}), versions {versions[0]} to {versions[-1]} in one shape"
    )
    head = f'"""{title}; made by tools/make_messages.py."""'
    return "\n".join([head, "", "from __future__ import annotations", "", *imports, "", "", body])


def message_lines(api_key: ApiKey, direction: Direction) -> dict[str, list[str]]:
    union = Union()
    root = ""
    for version in schema_versions(api_key):
        struct = load_struct(api_key, version, direction)
        root = struct.name
        union.add(struct)
    lines: dict[str, list[str]] = {}
    for name in ordered(union, root):
        implied = IMPLIED.get(name, {})
        doc = f"{words(api_name(api_key))}, the {direction}." if name == root else f"Part of the {direction}."
        is_request = name == root and direction == "request"
        base = f'(Request["{root.removesuffix("Request")}Response"])' if is_request else ""
        lines[name] = union.lines(name, base, dict(implied), doc)
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


def main() -> None:
    TARGET.mkdir(exist_ok=True)
    for api_key in ApiKey:
        (TARGET / f"{api_name(api_key)}.py").write_text(module_text(api_key))
    (TARGET / "__init__.py").write_text(
        '"""One version-free module per API; `klamm.protocol.codec` turns them into bytes and back."""\n'
    )
    subprocess.run(["ruff", "format", "-q", str(TARGET)], check=True)


if __name__ == "__main__":
    main()
