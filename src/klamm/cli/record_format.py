"""Records as bytes for standard output: values byte for byte, columns before them, or a format string."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from klamm.cli.record_json import to_line
from klamm.client.consumer.records import ConsumerRecord

Render = Callable[[ConsumerRecord], bytes]
Part = Callable[[ConsumerRecord, bytes], bytes]  # the record, and what stands for null

FORMAT_HELP: Final = (
    "%s value, %k key, %h headers, %t topic, %p partition, %o offset, %T timestamp, %S and %K sizes"
)
KAFKA: Final = "kafka"  # in place of a format string
_TOKEN: Final = re.compile(r"%(.)|\\(x[0-9a-fA-F]{2}|.)|([^%\\]+)|(.)", re.DOTALL)
_ESCAPES: Final = {"n": b"\n", "r": b"\r", "t": b"\t", "0": b"\0", "\\": b"\\"}


def _content(content: bytes | None, null: bytes) -> bytes:
    return null if content is None else content


def _size(content: bytes | None) -> bytes:
    return b"-1" if content is None else b"%d" % len(content)


def headers_text(record: ConsumerRecord, null: bytes) -> bytes:
    """`name=value,name=value`, as kcat and Kafka's console consumer print them."""
    return b",".join(name.encode() + b"=" + _content(value, null) for name, value in record.headers)


_CODES: Final[dict[str, Part]] = {
    "s": lambda record, null: _content(record.value, null),
    "v": lambda record, null: _content(record.value, null),
    "k": lambda record, null: _content(record.key, null),
    "h": headers_text,
    "t": lambda record, _: record.topic.encode(),
    "p": lambda record, _: b"%d" % record.partition,
    "o": lambda record, _: b"%d" % record.offset,
    "T": lambda record, _: b"%d" % record.timestamp_ms,
    "S": lambda record, _: _size(record.value),
    "K": lambda record, _: _size(record.key),
    "%": lambda *_: b"%",
}


def unescaped(text: str) -> bytes:
    r"""A delimiter as bytes: `\n`, `\t`, `\0` and `\x1e` mean what they mean in C. Raises ValueError."""
    return b"".join(part if isinstance(part, bytes) else b"%" + part.encode() for part in _parts(text))


def _parts(text: str) -> Sequence[bytes | str]:
    """Literal bytes, and the letters after percent signs."""
    parts: list[bytes | str] = []
    for code, escape, literal, alone in _TOKEN.findall(text):
        if code:
            parts.append(code)
        elif escape:
            if escape not in _ESCAPES and len(escape) != 3:
                raise ValueError(
                    f"unknown escape \\{escape} in {text!r}: use \\n, \\r, \\t, \\0, \\\\ or \\xHH"
                )
            parts.append(_ESCAPES[escape] if escape in _ESCAPES else bytes.fromhex(escape[1:]))
        elif literal:
            parts.append(literal.encode())
        else:
            raise ValueError(f"{text!r} ends in a lone {alone}: write it twice")
    return parts


def formatted(text: str, null: bytes) -> Render:
    """Render by a format string, which includes line ends. Raises ValueError."""
    steps: list[Part] = []
    for part in _parts(text):
        if isinstance(part, bytes):
            steps.append(lambda _record, _null, literal=part: literal)  # type: ignore[misc]  # bound now
        elif part in _CODES:
            steps.append(_CODES[part])
        else:
            raise ValueError(f"unknown format code %{part} in {text!r}: expected one of {FORMAT_HELP}")
    return lambda record: b"".join(step(record, null) for step in steps)


def columns(*, timestamps: bool, headers: bool, keys: bool, null: bytes, delimiter: bytes) -> Render:
    """The value, after the other columns, each followed by a tab."""
    codes = [code for code, wanted in (("T", timestamps), ("h", headers), ("k", keys)) if wanted]
    steps = [_CODES[code] for code in (*codes, "s")]
    return lambda record: b"\t".join([step(record, null) for step in steps]) + delimiter


def json_line(record: ConsumerRecord) -> bytes:
    return to_line(record).encode() + b"\n"
