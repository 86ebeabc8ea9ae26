"""The example in the documentation runs as shown."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[3] / "examples" / "own_assignor.py"


def test_the_example_of_an_own_assignor_gives_the_stronger_member_more(
    capsys: pytest.CaptureFixture[str],
) -> None:
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    assert capsys.readouterr().out.splitlines() == [
        "big: orders-0 orders-1 orders-2 orders-4 payments-0 payments-1",
        "small: orders-3 payments-2",
    ]
