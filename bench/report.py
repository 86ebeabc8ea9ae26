"""What a benchmark found: samples by figure and subject, as a table and as JSON, with how it was made."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

RESULTS_DIR = Path(__file__).resolve().parent / "results"


@dataclass(frozen=True, slots=True)
class Figure:
    """Something measured: its name, its unit, and which way is better."""

    name: str
    unit: str
    more_is_better: bool


@dataclass(slots=True)
class Report:
    """Samples of figures, next to a baseline from the same run."""

    question: str
    baseline: str
    subjects: Mapping[str, str]
    samples: dict[Figure, dict[str, list[float]]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    load_before: tuple[float, float, float] = field(default_factory=os.getloadavg)

    def add(self, figure: Figure, subject: str, sample: float) -> None:
        """Keep one sample and print it."""
        self.samples.setdefault(figure, {}).setdefault(subject, []).append(sample)
        print(f"  {figure.name}: {shortly(sample)} {figure.unit}", flush=True)

    def note(self, text: str) -> None:
        """Keep a remark, once."""
        if text not in self.notes:
            self.notes.append(text)
            print(f"  {text}", flush=True)

    def ratio(self, figure: Figure, subject: str) -> float | None:
        """How many times better than the baseline; below 1 is worse."""
        ours, theirs = (self.samples[figure].get(name) for name in (subject, self.baseline))
        if not ours or not theirs or not median(ours) or not median(theirs):
            return None
        quotient = median(ours) / median(theirs)
        return quotient if figure.more_is_better else 1 / quotient

    def table(self) -> str:
        """Markdown: medians with their spread, and how much better than the baseline."""
        others = [name for name in self.subjects if name != self.baseline]
        head = ["figure", self.baseline]
        for name in others:
            head += [name, f"{name}: times better"]
        lines = ["| " + " | ".join(head) + " |", "| --- |" + " ---: |" * (len(head) - 1)]
        for figure, by_subject in self.samples.items():
            cells = [f"{figure.name}, {figure.unit}", spread(by_subject.get(self.baseline, []))]
            for name in others:
                ratio = self.ratio(figure, name)
                cells += [spread(by_subject.get(name, [])), "" if ratio is None else f"{ratio:.2f}"]
            lines.append("| " + " | ".join(cells) + " |")
        return "\n".join(lines)

    def write(self, name: str) -> Path:
        """Write `name.md` and `name.json` into the results folder; the path of the first."""
        load = " ".join(f"{value:.1f}" for value in self.load_before)
        about = {**circumstances(), "load average before the run": load}
        RESULTS_DIR.mkdir(exist_ok=True)
        markdown = RESULTS_DIR / f"{name}.md"
        subjects = "".join(f"- **{subject}**: {says}\n" for subject, says in self.subjects.items())
        facts = "".join(f"- {key}: {value}\n" for key, value in about.items())
        notes = "".join(f"- {text}\n" for text in self.notes)
        reading = (
            "Median (lowest to highest). Above 1 in the last column of a subject is better than the baseline."
        )
        markdown.write_text(
            f"# {self.question}\n\n{self.table()}\n\n{reading}\n\n{subjects}\n{facts}"
            + (f"\n{notes}" if notes else "")
        )
        figures = [
            {
                "figure": figure.name,
                "unit": figure.unit,
                "more_is_better": figure.more_is_better,
                "samples": samples,
            }
            for figure, samples in self.samples.items()
        ]
        data = {"question": self.question, "circumstances": about, "subjects": dict(self.subjects)}
        found = {**data, "baseline": self.baseline, "figures": figures, "notes": self.notes}
        (RESULTS_DIR / f"{name}.json").write_text(json.dumps(found, indent=1) + "\n")
        return markdown


def shortly(value: float) -> str:
    """A number with three significant digits, and no exponent."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def spread(samples: Sequence[float]) -> str:
    """Median and range of some samples."""
    if not samples:
        return "–"
    if len(samples) == 1:
        return shortly(samples[0])
    return f"{shortly(median(samples))} ({shortly(min(samples))} to {shortly(max(samples))})"


def circumstances() -> dict[str, str]:
    """When, of which commit, with which command and on what machine."""

    def said(*command: str) -> str:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return (done.stdout or done.stderr).strip()

    model = next(
        (line.split(":", 1)[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")),
        "?",
    )
    memory = next((line.split()[1] for line in _lines("/proc/meminfo") if line.startswith("MemTotal")), "0")
    changed = " with local changes" if said("git", "status", "--porcelain", "-uno") else ""
    return {
        "when": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": said("git", "rev-parse", "--short=12", "HEAD") + changed,
        "command": " ".join(["python", "-m", "bench." + Path(sys.argv[0]).stem, *sys.argv[1:]]),
        "machine": f"{model}, {os.cpu_count()} cores, {int(memory) / 1e6:.0f} GB",
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "java": said("java", "-version").splitlines()[0],
    }


def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines() if Path(path).exists() else []
