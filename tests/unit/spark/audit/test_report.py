"""The report as a file: nothing in a name can break out of it."""

from __future__ import annotations

import json
import re
from typing import Any

from klamm.spark.audit.report import report_html

FIGURES: dict[str, Any] = {"groups": [{"id": "</script><script>alert(1)</script>\u2028"}]}


def test_a_group_cannot_be_called_the_end_of_the_script() -> None:
    page = report_html(FIGURES)
    assert page.count("</script>") == 1
    assert "\u2028" not in page
    written = re.search(r"^const D = (.*);$", page, re.MULTILINE)
    assert written is not None
    assert json.loads(written[1]) == FIGURES


def test_nothing_is_fetched_from_elsewhere() -> None:
    page = report_html({})
    addresses = set(re.findall(r"https?://[^\"' ]+", page))
    assert addresses == {"http://www.w3.org/2000/svg"}  # a name, not an address
    assert "src=" not in page
    assert "<link" not in page
