"""Patterns for transactional ids that a client sends.

Kafka matches them with RE2, in linear time. Python's `re` backtracks: a repeat within a repeat can take
exponential time, and the broker has one thread. Such patterns are refused, and those that RE2 does not know.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from re import _constants, _parser  # type: ignore[attr-defined]  # as parsed, before it is compiled
from typing import Any, Final

MAX_REPEATS: Final = 4  # one after the other; the time grows with the length of the id to this power

_REPEATS: Final = (_constants.MAX_REPEAT, _constants.MIN_REPEAT)
_PLAIN: Final = (
    _constants.LITERAL,
    _constants.NOT_LITERAL,
    _constants.ANY,
    _constants.IN,
    _constants.AT,
)


# Every escape is matched, so that none begins with the second backslash of another.
_ESCAPE: Final = re.compile(r"\\Q(?P<literal>.*?)(?:\\E|\Z)|\\.", re.DOTALL)


def compile_pattern(text: str) -> re.Pattern[str]:
    """A pattern that can be matched in reasonable time. Raises re.error."""
    try:
        translated = _translated(text)
        if _repeats(_parser.parse(translated), is_repeated=False) > MAX_REPEATS:
            raise re.error(f"more than {MAX_REPEATS} repeats")
        return re.compile(translated, re.ASCII)  # in RE2 \d and the like are ASCII
    except (
        RecursionError,
        OverflowError,
        ValueError,
    ) as fault:  # ValueError: flags that contradict each other
        raise re.error(str(fault)) from fault


def _translated(text: str) -> str:
    r"""A pattern of RE2 as Python writes it, where \Q and \E enclose literal text, and \z is the end."""

    def replaced(found: re.Match[str]) -> str:
        if found["literal"] is not None:
            return re.escape(found["literal"])
        return r"\Z" if found[0] == r"\z" else found[0]

    return _ESCAPE.sub(replaced, text)


# Any: the parser's own tuples.
def _repeats(parsed: Iterable[Any], *, is_repeated: bool) -> int:
    """How many repeats a pattern has."""
    count = 0
    for kind, argument in parsed:
        if kind in _REPEATS:
            _, most, repeated = argument
            if most > 1:
                if is_repeated:
                    raise re.error("a repeat within a repeat")
                count += 1
            count += _repeats(repeated, is_repeated=is_repeated or most > 1)
        elif kind is _constants.SUBPATTERN:
            count += _repeats(argument[-1], is_repeated=is_repeated)
        elif kind is _constants.BRANCH:
            count += sum(_repeats(each, is_repeated=is_repeated) for each in argument[1])
        elif kind not in _PLAIN:
            raise re.error(f"{str(kind).lower()} is not supported")
    return count
