"""Costs by size: samples of each figure for each size, as tables and as JSON."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from bench.report import RESULTS_DIR, circumstances, shortly, spread


@dataclass(frozen=True, slots=True)
class Cost:
    """A figure of the broker, and how it may grow: not at all ("flat"), or as the size does ("linear")."""

    axis: str
    name: str
    unit: str
    may_grow: str = "flat"


def _circumstances() -> dict[str, str]:
    about = circumstances()
    del about["java"]  # nothing of it runs
    return {**about, "load average before the run": " ".join(f"{load:.0f}" for load in os.getloadavg())}


@dataclass(slots=True)
class Growth:
    """Samples of costs by size, kept in `name.json` in the results folder."""

    axes: Mapping[str, str]  # what grows -> what the sizes count, and the load
    name: str
    samples: dict[Cost, dict[int, list[float]]] = field(default_factory=dict)
    circumstances: dict[str, dict[str, str]] = field(default_factory=dict)  # by axis
    notes: list[str] = field(default_factory=list)
    _began_at: float = field(default_factory=time.monotonic)
    _about: dict[str, str] = field(default_factory=_circumstances)  # when it began

    def say(self, text: str) -> None:
        """Show what happens now."""
        print(f"[{time.monotonic() - self._began_at:5.0f} s] {text}", flush=True)

    def add(self, cost: Cost, size: int, sample: float) -> None:
        """Keep one sample and print it."""
        self.samples.setdefault(cost, {}).setdefault(size, []).append(sample)
        self.say(f"{size:,} {cost.axis}: {cost.name}: {shortly(sample)} {cost.unit}")

    def note(self, text: str) -> None:
        """Keep a remark, once."""
        if text not in self.notes:
            self.notes.append(text)
            self.say(text)

    def table(self, axis: str) -> str:
        """Markdown: a column for each size, and how much the last of them adds."""
        costs = {cost: by_size for cost, by_size in self.samples.items() if cost.axis == axis}
        sizes = sorted({size for by_size in costs.values() for size in by_size})
        head = ["cost", *(f"{size:,}" for size in sizes), "last step", "may be"]
        lines = ["| " + " | ".join(head) + " |", "| --- |" + " ---: |" * (len(head) - 1)]
        for cost, by_size in costs.items():
            cells = [f"{cost.name}, {cost.unit}", *(spread(by_size.get(size, [])) for size in sizes)]
            lines.append("| " + " | ".join([*cells, *_last_step(cost, by_size)]) + " |")
        return "\n".join(lines)

    def write(self) -> Path:
        """Write what was measured, with the last results of other axes; the path of the Markdown file."""
        RESULTS_DIR.mkdir(exist_ok=True)
        data, markdown = RESULTS_DIR / f"{self.name}.json", RESULTS_DIR / f"{self.name}.md"
        measured = {cost.axis for cost in self.samples}
        self.circumstances |= {axis: self._about for axis in measured if axis not in self.circumstances}
        if data.exists():
            self._keep(json.loads(data.read_text()), measured)
        markdown.write_text(self._page())
        costs = [{**asdict(cost), "samples": by_size} for cost, by_size in self.samples.items()]
        found = {"circumstances": self.circumstances, "costs": costs, "notes": self.notes}
        data.write_text(json.dumps(found, indent=1) + "\n")
        return markdown

    def _keep(self, found: Mapping[str, Any], measured: Collection[str]) -> None:
        for each in found["costs"]:
            by_size = each.pop("samples")
            if each["axis"] not in measured:
                self.samples[Cost(**each)] = {int(size): samples for size, samples in by_size.items()}
        self.notes = [*found["notes"], *(text for text in self.notes if text not in found["notes"])]
        for axis, about in found["circumstances"].items():
            self.circumstances.setdefault(axis, about)

    def _page(self) -> str:
        reading = (
            "Median (lowest to highest). CPU is user and system time of the broker's process. "
            '"Last step": the cost at the largest size, divided by the cost at the size before it; '
            '"may be": what that is when the cost grows as the work does.'
        )
        parts = [f"# How does the cost of klamm's broker grow?\n\n{reading}\n"]
        for axis, says in self.axes.items():
            if axis in self.circumstances:
                facts = "".join(f"- {key}: {value}\n" for key, value in self.circumstances[axis].items())
                parts.append(f"## {axis.capitalize()}\n\n{says}\n\n{self.table(axis)}\n\n{facts}")
        if self.notes:
            parts.append("".join(f"- {text}\n" for text in self.notes))
        return "\n".join(parts)


def _last_step(cost: Cost, by_size: dict[int, list[float]]) -> Sequence[str]:
    *_, before, last = [0, 0, *sorted(by_size)]
    if not before or median(by_size[before]) <= 0:
        return "", ""
    allowed = last / before if cost.may_grow == "linear" else 1.0
    return f"× {median(by_size[last]) / median(by_size[before]):.2g}", f"× {allowed:.2g}"
