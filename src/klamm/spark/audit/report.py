"""The report of an audit: one HTML file that needs nothing but a browser."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

PLACE: Final = "/*FIGURES*/null"


def report_html(figures: dict[str, Any]) -> str:
    """The page with its figures in it."""
    page = files("klamm.spark.audit").joinpath("report.html").read_text(encoding="utf-8")
    assert page.count(PLACE) == 1
    # A group's name must not end the script element.
    text = json.dumps(figures, ensure_ascii=False, separators=(",", ":"))
    text = text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    return page.replace(PLACE, text)


def write_report(figures: dict[str, Any], path: Path) -> None:
    path.write_text(report_html(figures), encoding="utf-8")
