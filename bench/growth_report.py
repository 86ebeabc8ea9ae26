"""Costs by size: samples of each figure for each size, as tables and as JSON."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median

from bench.report import RESULTS_DIR, circumstances, shortly, spread


@dataclass(frozen=True, slots=True)
class Cost:
    """A figure of the broker, and how it may grow: not at all ("flat"), or as the size does ("linear")."""

    axis: str
    name: str
    unit: str
    may_grow: str = "flat"


@dataclass(slots=True)
class Growth:
    """Samples of costs by size."""

    axes: dict[str, str]  # what grows -> what the sizes count, and the load
    samples: dict[Cost, dict[int, list[float]]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    load_before: tuple[float, float, float] = field(default_factory=os.getloadavg)
    _began_at: float = field(default_factory=time.monotonic)

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

    def write(self, name: str) -> Path:
        """Write `name.md` and `name.json` into the results folder; the path of the first."""
        load = " ".join(f"{value:.1f}" for value in self.load_before)
        about = {**circumstances(), "load average before the run": load}
        del about["java"]  # nothing of it ran
        measured = {cost.axis for cost in self.samples}
        tables = "".join(
            f"## {axis.capitalize()}\n\n{says}\n\n{self.table(axis)}\n\n"
            for axis, says in self.axes.items()
            if axis in measured
        )
        reading = (
            "Median (lowest to highest). CPU is user and system time of the broker's process. "
            '"Last step": the cost at the largest size, divided by the cost at the size before it; '
            '"may be": what that is when the cost grows as the work does.'
        )
        facts = "".join(f"- {key}: {value}\n" for key, value in about.items())
        notes = "".join(f"- {text}\n" for text in self.notes)
        RESULTS_DIR.mkdir(exist_ok=True)
        markdown = RESULTS_DIR / f"{name}.md"
        markdown.write_text(
            f"# How does the cost of klamm's broker grow?\n\n{reading}\n\n{tables}{facts}"
            + (f"\n{notes}" if notes else "")
        )
        costs = [{**asdict(cost), "samples": by_size} for cost, by_size in self.samples.items()]
        found = {"circumstances": about, "axes": self.axes, "costs": costs, "notes": self.notes}
        (RESULTS_DIR / f"{name}.json").write_text(json.dumps(found, indent=1) + "\n")
        return markdown


def _last_step(cost: Cost, by_size: dict[int, list[float]]) -> Sequence[str]:
    *_, before, last = [0, 0, *sorted(by_size)]
    if not before or median(by_size[before]) <= 0:
        return "", ""
    allowed = last / before if cost.may_grow == "linear" else 1.0
    return f"× {median(by_size[last]) / median(by_size[before]):.2g}", f"× {allowed:.2g}"
