"""The values of options: read from text, refused with what to write instead."""

from __future__ import annotations

import re
from typing import Final

from klamm.config import INT_MAX, LONG_MAX, ConfigError
from klamm.spark.options.names import Given

_UNITS_MS: Final = {
    "us": 1 / 1000,
    "ms": 1,
    "s": 1000,
    "m": 60_000,
    "min": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
}
_DURATION: Final = re.compile(r"([0-9]{1,18})\s*([a-z]*)")


def whole_number(
    given: Given, option: str, *, default: int | None = None, least: int = 0, most: int = LONG_MAX
) -> int | None:
    """A whole number within bounds; the default when the option is not given."""
    text = given.get(option)
    if text is None:
        return default
    if re.fullmatch(r"[+-]?[0-9]{1,19}", text) and least <= int(text) <= most:
        return int(text)
    bounds = f"{least} or more" if most in (INT_MAX, LONG_MAX) else f"{least} to {most}"
    raise ConfigError(option, f"invalid value {text} for {option}: expected a whole number, {bounds}")


def required_number(given: Given, option: str, default: int, *, least: int = 0, most: int = LONG_MAX) -> int:
    """As `whole_number`, with a default that is a number."""
    number = whole_number(given, option, default=default, least=least, most=most)
    assert number is not None
    return number


def true_or_false(given: Given, option: str, default: bool) -> bool:
    text = given.get(option)
    if text is None:
        return default
    if text.lower() not in ("true", "false"):
        raise ConfigError(option, f"invalid value {text} for {option}: expected true or false")
    return text.lower() == "true"


def one_word(given: Given, option: str, words: tuple[str, ...], default: str) -> str:
    """One of a few words, in any case."""
    text = given.get(option)
    if text is None:
        return default
    if text.lower() not in words:
        raise ConfigError(option, f"invalid value {text} for {option}: expected {' or '.join(words)}")
    return text.lower()


def duration_ms(given: Given, option: str, default_ms: int) -> int:
    """Spark's durations: `15m`, `30s`, `2h`; milliseconds without a unit."""
    text = given.get(option)
    if text is None:
        return default_ms
    match = _DURATION.fullmatch(text.lower())
    if match is None or (match[2] or "ms") not in _UNITS_MS:
        raise ConfigError(
            option, f"invalid value {text} for {option}: expected a duration, as in 15m or 500ms"
        )
    return int(int(match[1]) * _UNITS_MS[match[2] or "ms"])


def time_ms(given: Given, option: str) -> int | None:
    """An instant: milliseconds since 1970, or what brokers take for one (-2: earliest, -1: latest)."""
    text = given.get(option)
    if text is None:
        return None
    if not re.fullmatch(r"-[12]|[0-9]{1,18}", text):
        raise ConfigError(
            option, f"invalid value {text} for {option}: expected milliseconds since 1970, -2 or -1"
        )
    return int(text)
