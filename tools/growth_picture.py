"""Make docs/images/growth-*.svg from bench/results/growth.json: costs of the broker by size, on log-log axes.

python -m bench.growth measures them; python tools/growth_picture.py draws them.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "bench/results/growth.json"
TARGETS = ROOT / "docs/images"
NOT_DRAWN = ("wall time per member", "wall time of that start", "open files")
COLUMNS, WIDTH, HEIGHT = 2, 400, 245  # of one panel
LEFT, RIGHT, TOP, BOTTOM = 58, 22, 56, 38  # margins of a panel
HEAD, FOOT = 34, 30
EDGE = 2.0  # so that points are not on the frame
MIN_DECADES = 2.0  # of an axis of costs: a smaller one would make noise look like growth
STYLE = """
text{font:12px system-ui,sans-serif;fill:#24292f}
.head{font-size:15px;font-weight:600}.title{font-size:12.5px;font-weight:600}
.tick,.foot{fill:#57606a;font-size:11px}.end{text-anchor:end}.mid{text-anchor:middle}
.value{font-size:11px;text-anchor:middle}
.back{fill:#ffffff}.grid{stroke:#d8dee4}.frame{stroke:#8c959f;fill:none}
.cost{stroke:#0969da;stroke-width:2;fill:none}.dot{fill:#0969da}.range{stroke:#0969da;stroke-width:5;opacity:.35}
.may{stroke:#bc4c00;stroke-width:1.6;stroke-dasharray:5 4;fill:none}
@media (prefers-color-scheme:dark){
text{fill:#e6edf3}.tick,.foot{fill:#9da7b3}.back{fill:#0d1117}.grid{stroke:#2d333b}.frame{stroke:#6e7681}
.cost,.range{stroke:#58a6ff}.dot{fill:#58a6ff}.may{stroke:#f0883e}}
"""


@dataclass(frozen=True, slots=True)
class Series:
    """One cost: samples by size."""

    name: str
    unit: str
    may_grow: str
    samples: dict[int, list[float]]

    def medians(self) -> list[tuple[int, float]]:
        return [(size, median(self.samples[size])) for size in sorted(self.samples)]

    def drawable(self) -> Series:
        """Without zeros, which have no place on a logarithmic axis."""
        positive = {size: [each for each in found if each > 0] for size, found in self.samples.items()}
        kept = {size: found for size, found in positive.items() if found}
        return Series(self.name, self.unit, self.may_grow, kept)


class Scale:
    """From a value to a place on a logarithmic axis."""

    def __init__(self, low: float, high: float, start: float, end: float) -> None:
        self.low, self.high = math.log10(low), math.log10(high)
        self._start, self._end = start, end

    def __call__(self, value: float) -> float:
        share = (math.log10(value) - self.low) / (self.high - self.low)
        return self._start + share * (self._end - self._start)

    def decades(self) -> list[float]:
        return [10.0**power for power in range(math.ceil(self.low - 1e-9), math.floor(self.high + 1e-9) + 1)]


def shortly(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.2g}"


def panel(series: Series, sizes: Sequence[int], x0: float, y0: float) -> list[str]:
    """One cost over all sizes of its picture."""
    series = series.drawable()
    every = [value for found in series.samples.values() for value in found]
    middle = (math.log10(min(every)) + math.log10(max(every))) / 2
    half = max(MIN_DECADES, math.log10(max(every) / min(every)) + 0.8) / 2
    x = Scale(min(sizes) / EDGE, max(sizes) * EDGE, x0 + LEFT, x0 + WIDTH - RIGHT)
    y = Scale(10 ** (middle - half), 10 ** (middle + half), y0 + HEIGHT - BOTTOM, y0 + TOP)
    left, right, top, bottom = x0 + LEFT, x0 + WIDTH - RIGHT, y0 + TOP, y0 + HEIGHT - BOTTOM
    title, _, rest = series.name.partition(", ")
    unit = f"{rest}, {series.unit}" if rest else series.unit
    out = [
        f'<text x="{left}" y="{top - 24}" class="title">{escape(title)}</text>',
        f'<text x="{left}" y="{top - 8}" class="tick">{escape(unit)}</text>',
    ]
    for value in y.decades():
        out.append(f'<line x1="{left}" y1="{y(value):.1f}" x2="{right}" y2="{y(value):.1f}" class="grid"/>')
        out.append(f'<text x="{left - 6}" y="{y(value) + 4:.1f}" class="tick end">{value:,g}</text>')
    for value in x.decades():
        out.append(f'<line x1="{x(value):.1f}" y1="{top}" x2="{x(value):.1f}" y2="{bottom}" class="grid"/>')
        out.append(f'<text x="{x(value):.1f}" y="{bottom + 16}" class="tick mid">{value:,.0f}</text>')
    out.append(f'<rect x="{left}" y="{top}" width="{right - left}" height="{bottom - top}" class="frame"/>')
    found = series.medians()
    if len(found) > 1:
        (before, cost), (last, _) = found[-2:]
        allowed = cost * (last / before if series.may_grow == "linear" else 1)
        out.append(f'<path d="M{x(before):.1f} {y(cost):.1f}L{x(last):.1f} {y(allowed):.1f}" class="may"/>')
    line = "L".join(f"{x(size):.1f} {y(value):.1f}" for size, value in found)
    out.append(f'<path d="M{line}" class="cost"/>')
    for size, value in found:
        low, high = min(series.samples[size]), max(series.samples[size])
        place = f'x1="{x(size):.1f}" y1="{y(low):.1f}" x2="{x(size):.1f}" y2="{y(high):.1f}"'
        out.append(f'<line {place} class="range"/>')
        out.append(f'<circle cx="{x(size):.1f}" cy="{y(value):.1f}" r="3.5" class="dot"/>')
        out.append(f'<text x="{x(size):.1f}" y="{y(high) - 9:.1f}" class="value">{shortly(value)}</text>')
    return out


def legend(axis: str, width: int, y: int) -> list[str]:
    """What the two lines are."""
    second = width / 2 + 40
    measured = f"measured: median and range, by number of {axis}"
    allowed = "last step, if the cost grows as the work does"
    return [
        f'<path d="M{LEFT} {y - 4}h28" class="cost"/>',
        f'<circle cx="{LEFT + 14}" cy="{y - 4}" r="3.5" class="dot"/>',
        f'<text x="{LEFT + 36}" y="{y}" class="foot">{measured}</text>',
        f'<path d="M{second} {y - 4}h28" class="may"/>',
        f'<text x="{second + 36}" y="{y}" class="foot">{allowed}</text>',
    ]


def picture(axis: str, all_series: Sequence[Series]) -> str:
    """All costs of one table."""
    sizes = sorted({size for series in all_series for size in series.samples})
    rows = math.ceil(len(all_series) / COLUMNS)
    width, height = COLUMNS * WIDTH, HEAD + rows * HEIGHT + FOOT
    label = f"Costs of the broker by number of {axis}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="{label}">',
        f"<style>{STYLE}</style>",
        '<rect width="100%" height="100%" class="back"/>',
        f'<text x="{LEFT}" y="26" class="head">What grows with the number of {axis}</text>',
    ]
    for number, series in enumerate(all_series):
        row, column = divmod(number, COLUMNS)
        parts += panel(series, sizes, column * WIDTH, HEAD + row * HEIGHT)
    parts += legend(axis, width, height - 12)
    return "\n".join([*parts, "</svg>"]) + "\n"


def main() -> None:
    costs = json.loads(SOURCE.read_text())["costs"]
    for axis in dict.fromkeys(cost["axis"] for cost in costs):
        drawn = [
            Series(
                cost["name"],
                cost["unit"],
                cost["may_grow"],
                {int(size): samples for size, samples in cost["samples"].items()},
            )
            for cost in costs
            if cost["axis"] == axis and not cost["name"].startswith(NOT_DRAWN)
        ]
        target = TARGETS / f"growth-{axis}.svg"
        target.write_text(picture(axis, drawn))
        sys.stderr.write(f"wrote {target}\n")


if __name__ == "__main__":
    main()
