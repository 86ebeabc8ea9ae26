"""Regular expressions in the syntax of RE2, which match in linear time whatever clients send."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from klamm.coordinator.group.consumer.remembered import RegexValue
from klamm.coordinator.group.consumer.signals import RegexesResolved, ResolveRegexes

MAX_LENGTH: Final = 1024
MAX_MEMORY: Final = 1 << 20  # of one compiled expression

MISSING: Final = (
    "subscriptions by regular expression need the package google-re2 on the broker: "
    "install klamm[regex], or subscribe to topics by name"
)


def _re2() -> Any:  # the package has no types
    import re2  # noqa: PLC0415 - it is optional, and takes time to import

    return re2


def regex_problem(regex: str) -> str | None:
    """Why a regular expression cannot be used; None if it can."""
    if len(regex) > MAX_LENGTH:
        return f"the regular expression has {len(regex)} characters, {MAX_LENGTH} are allowed"
    try:
        re2 = _re2()
    except ImportError:
        return MISSING
    try:
        re2.compile(regex, _options(re2))
    except re2.error as error:
        reason = error.args[0] if error.args else error
        return f"{regex!r} is not a valid regular expression of RE2: {_as_text(reason)}"
    return None


def _as_text(reason: object) -> str:
    return reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)


def _options(re2: Any) -> Any:
    options = re2.Options()
    options.max_mem = MAX_MEMORY
    options.log_errors = False
    return options


def matching_topics(regexes: Sequence[str], names: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """The topics whose whole name matches, for each regular expression, in one pass over the names.

    One that does not compile, as where the package is missing after a restart, matches nothing.
    """
    found: dict[str, list[str]] = {regex: [] for regex in regexes}
    valid = [regex for regex in regexes if regex_problem(regex) is None]
    if valid:
        re2 = _re2()
        options = _options(re2)
        options.max_mem = MAX_MEMORY * len(valid)
        matcher = re2.Set.FullMatchSet(options)
        for regex in valid:
            matcher.Add(regex)
        matcher.Compile()
        for name in names:
            for index in matcher.Match(name) or ():
                found[valid[index]].append(name)
    return {regex: tuple(sorted(topics)) for regex, topics in found.items()}


def resolved(
    action: ResolveRegexes, names: Iterable[str], version: int, timestamp_ms: int
) -> RegexesResolved:
    """What a shard asked for."""
    matched = matching_topics(action.regexes, names)
    return RegexesResolved(
        action.group_id,
        {regex: RegexValue(topics, version, timestamp_ms) for regex, topics in matched.items()},
    )
