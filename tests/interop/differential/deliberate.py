"""Where klamm answers otherwise than Kafka on purpose: what it looks like, and why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from interop.differential.sides import CLOSED
from interop.differential.world import Question
from klamm.protocol.api import ApiKey


@dataclass(frozen=True, slots=True)
class Deliberate:
    """One row: it covers a difference at a path of an answer to an API."""

    api_key: ApiKey
    path: str  # how the path ends
    ours: Callable[[Any], bool]
    kafkas: Callable[[Any], bool]
    why: str

    def covers(self, step: Question, path: str, ours: Any, kafkas: Any) -> bool:
        return (
            step.api_key == self.api_key
            and path.endswith(self.path)
            and self.ours(ours)
            and self.kafkas(kafkas)
        )


def _is(*values: Any) -> Callable[[Any], bool]:
    return lambda value: value in values


def reason(step: Question, path: str, ours: Any, kafkas: Any) -> str | None:
    """Why this difference is meant, if it is."""
    if path.endswith("error_message") and ours == "something" and kafkas in ("null", "empty"):
        return "klamm may explain more than Kafka does"
    if step.frame_change is not None and ours == CLOSED and step.says in ("flipped", "client id"):
        # Kafka takes a length below -1 for -1, a bool of 7 for true, and puts U+FFFD for bad UTF-8.
        return "bytes that nobody meant are not guessed at"
    for row in DELIBERATE:
        if row.covers(step, path, ours, kafkas):
            return row.why
    return None


DELIBERATE: Final[tuple[Deliberate, ...]] = (
    Deliberate(
        ApiKey.DESCRIBE_GROUPS,
        "member_assignment",
        _is(""),
        bool,
        "while a group rebalances nobody has an assignment",
    ),
    Deliberate(
        ApiKey.METADATA, "error_code", _is(17), _is(3), "a name that collides is told, not kept waiting for"
    ),
    Deliberate(
        ApiKey.API_VERSIONS,
        "supported_features",
        _is("an empty list"),
        _is("a list"),
        "in version 3 only features with a minimum above 0 can be told, and klamm has none",
    ),
    Deliberate(
        ApiKey.PRODUCE,
        "error_code",
        _is(76),
        _is(-1),
        "an unknown codec is named, not a failure of the server",
    ),
    Deliberate(
        ApiKey.PRODUCE, "error_code", _is(87), _is(-1), "undecodable records are the client's fault, not ours"
    ),
)
