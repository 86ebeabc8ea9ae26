"""Valid topic names, checked before a broker is asked: it would never answer otherwise."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from klamm.errors import InvalidTopicError

LONGEST_NAME: Final = 249
_VALID: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def check_topic_name(name: str) -> None:
    """Raise InvalidTopicError unless a topic can have this name."""
    if _VALID.fullmatch(name) and name not in {".", ".."}:
        return
    if not name.strip():
        raise InvalidTopicError("a topic's name must not be blank")
    if len(name) > LONGEST_NAME:
        raise InvalidTopicError(
            f"topic name {name[:20]!r}... has {len(name)} characters: at most {LONGEST_NAME}"
        )
    raise InvalidTopicError(
        f"invalid topic name {name!r}: expected letters, digits, '.', '_' and '-', and not '.' or '..' alone"
    )


def check_topic_names(names: Iterable[str]) -> None:
    """Check several."""
    for name in names:
        check_topic_name(name)
