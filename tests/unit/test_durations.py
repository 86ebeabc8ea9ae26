from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from klamm.durations import nanoseconds


@pytest.mark.parametrize(
    ("written", "expected_ms"),
    [
        ("0s", 0),
        ("250ms", 250),
        ("90s", 90_000),
        ("1.5s", 1_500),
        ("1h30m", 5_400_000),
        (" 2 H ", 7_200_000),
        ("7d", 604_800_000),
        (timedelta(minutes=1, milliseconds=5), 60_005),
    ],
)
def test_a_duration_is_read(written: Any, expected_ms: int) -> None:
    assert nanoseconds(written) == expected_ms * 1_000_000


@pytest.mark.parametrize(
    "written", ["", "5", "h", "-5s", "5 parsecs", "1h30", "5s5", "٣s", "9" * 400 + "s", "40000d"]
)
def test_text_that_is_no_duration_is_refused(written: str) -> None:
    with pytest.raises(ValueError, match="invalid duration"):
        nanoseconds(written)


def test_a_number_without_a_unit_is_refused() -> None:
    with pytest.raises(TypeError, match="expected text as '90s', or a timedelta"):
        nanoseconds(5)  # type: ignore[arg-type]  # what the test is about


def test_a_negative_timedelta_is_refused() -> None:
    with pytest.raises(ValueError, match="expected zero or more"):
        nanoseconds(timedelta(seconds=-1))
