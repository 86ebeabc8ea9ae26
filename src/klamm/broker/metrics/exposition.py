"""Metrics in the text format of Prometheus.

Written by hand: the format is three kinds of lines, and its library costs a broker a tenth of its memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

Kind = Literal["counter", "gauge", "summary"]


@dataclass(slots=True)
class Family:
    """All samples of one metric."""

    name: str
    kind: Kind
    says: str
    samples: list[tuple[str, Mapping[str, str], float]] = field(default_factory=list)

    def add(self, value: float, suffix: str = "", **labels: str) -> Family:
        self.samples.append((suffix, labels, value))
        return self


def render(families: Iterable[Family]) -> bytes:
    """The whole page, without empty families."""
    lines: list[str] = []
    for family in families:
        if family.samples:
            lines.append(f"# HELP {family.name} {_escape(family.says)}")
            lines.append(f"# TYPE {family.name} {family.kind}")
        for suffix, labels, value in family.samples:
            written = ",".join(f'{name}="{_quote(text)}"' for name, text in labels.items())
            place = f"{{{written}}}" if written else ""
            lines.append(f"{family.name}{suffix}{place} {_number(value)}")
    return ("\n".join(lines) + "\n").encode()


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _quote(text: str) -> str:
    return _escape(text).replace('"', '\\"')


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else repr(float(value))
