"""Metrics in the text format of Prometheus.

Without a library: the format has three kinds of lines, and the library would add a tenth to the memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
PAUSE: Final = None  # in place of a sample: nothing to print, but time has passed

Kind = Literal["counter", "gauge", "summary"]
Labels: TypeAlias = Mapping[str, str] | str  # a str is rendered already, by `labels`
Sample: TypeAlias = tuple[str, Labels, float] | None


@dataclass(slots=True)
class Family:
    """All samples of one metric; with many of them, an iterator that computes each when it is printed."""

    name: str
    kind: Kind
    says: str
    samples: Iterable[Sample] = field(default_factory=list)

    def add(self, value: float, suffix: str = "", **labels: str) -> Family:
        assert isinstance(self.samples, list)
        self.samples.append((suffix, labels, value))
        return self


def render(families: Iterable[Family]) -> bytes:
    """The whole page, without empty families."""
    return "".join(lines(families)).encode()


def lines(families: Iterable[Family]) -> Iterator[str]:
    """The page line by line; an empty string where only time has passed."""
    for family in families:
        is_empty = True
        for sample in family.samples:
            if sample is PAUSE:
                yield ""
                continue
            if is_empty:
                is_empty = False
                yield f"# HELP {family.name} {_escape(family.says)}\n# TYPE {family.name} {family.kind}\n"
            suffix, given, value = sample
            written = given if isinstance(given, str) else labels(**given)
            place = f"{{{written}}}" if written else ""
            yield f"{family.name}{suffix}{place} {_number(value)}\n"


def labels(**values: str) -> str:
    """Labels as they are printed, for samples of several families."""
    return ",".join(f'{name}="{_quote(text)}"' for name, text in values.items())


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _quote(text: str) -> str:
    return _escape(text).replace('"', '\\"')


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else repr(float(value))
