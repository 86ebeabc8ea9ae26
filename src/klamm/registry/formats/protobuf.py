"""Protobuf schemas: the text of a .proto file, or a file descriptor in base64.

confluent-kafka registers the latter. protoc, which grpcio-tools brings, decides what is a schema.
"""

from __future__ import annotations

import base64
import binascii
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

import grpc_tools
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.message import DecodeError

from klamm.registry.formats.base import SchemaError
from klamm.registry.formats.protobuf_reading import ProtobufReading

_NAME: Final = "klamm_schema.proto"  # of the schema itself, beside those that it imports
_TIMEOUT_S: Final = 30
_WELL_KNOWN: Final = Path(grpc_tools.__file__).with_name("_proto")


@dataclass(frozen=True, slots=True)
class ProtobufSchema:
    """A Protobuf schema that was understood."""

    text: str
    file: FileDescriptorProto

    @property
    def serialized(self) -> str:
        """Its file descriptor, in base64."""
        return base64.b64encode(self.file.SerializeToString(deterministic=True)).decode()

    def unreadable(self, written: ProtobufSchema, /) -> list[str]:
        return ProtobufReading(self.file, written.file).problems()


class ProtobufFormat:
    """Schemas of type PROTOBUF."""

    def parse(self, text: str, references: Mapping[str, str], /) -> ProtobufSchema:
        described = _described(text)
        if described is not None:
            serialized = base64.b64encode(described.SerializeToString(deterministic=True)).decode()
            return ProtobufSchema(serialized, described)
        return ProtobufSchema(text.strip(), _compiled(text, references))


def _described(text: str) -> FileDescriptorProto | None:
    """The descriptor that a text is; None for the text of a .proto file."""
    try:
        raw = base64.b64decode("".join(text.split()), validate=True)
        return FileDescriptorProto.FromString(raw) if raw else None
    except (binascii.Error, ValueError, DecodeError):
        return None


def _compiled(text: str, references: Mapping[str, str]) -> FileDescriptorProto:
    with tempfile.TemporaryDirectory(prefix="klamm-registry-") as folder:
        base = Path(folder)
        described = {_NAME: text}
        descriptors: list[FileDescriptorProto] = []
        for name, referenced in references.items():
            path = PurePosixPath(name)
            if path.is_absolute() or ".." in path.parts or not name:
                raise SchemaError(f"reference {name!r} is not a relative path of a .proto file")
            file = _described(referenced)
            if file is None:
                described[name] = referenced
            else:
                file.name = name
                descriptors.append(file)
        for name, content in described.items():
            target = base / "sources" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(content)
        known = base / "known.pb"
        known.write_bytes(FileDescriptorSet(file=descriptors).SerializeToString())
        _run_protoc(base, known if descriptors else None)
        made = FileDescriptorSet.FromString((base / "made.pb").read_bytes())
    file = next(each for each in made.file if each.name == _NAME)
    file.ClearField("name")
    return file


def _run_protoc(base: Path, known: Path | None) -> None:
    command = [
        *(sys.executable, "-m", "grpc_tools.protoc", f"-I{base / 'sources'}", f"-I{_WELL_KNOWN}"),
        *(f"--descriptor_set_out={base / 'made.pb'}", _NAME),
        *([] if known is None else [f"--descriptor_set_in={known}"]),
    ]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False, cwd=base / "sources"
        )
    except subprocess.TimeoutExpired as error:
        raise SchemaError(f"protoc did not end within {_TIMEOUT_S} s") from error
    if done.returncode != 0:
        parts = (
            line.partition(f"{_NAME}:") for line in done.stderr.splitlines() if "warning" not in line.lower()
        )
        said = [after.strip() for _, found, after in parts if found]
        raise SchemaError("; ".join(said[:5]) or f"protoc ended with exit code {done.returncode}")
