"""Arguments of every kind for every public method of a client."""

from __future__ import annotations

import inspect
from typing import Any, Final

from hypothesis import strategies as st

from klamm import Committed, TopicPartition

PLACE: Final = TopicPartition("t", 0)
NUMBERS: Final = st.sampled_from([0, 1, -1, -2, 2**31, 2**63, 2**64, -(2**63) - 1, 1.5, float("nan"), True])
TEXTS: Final = st.sampled_from(["t", "", " ", "nosuch", "bad name", "\ud800", "\0", "é" * 300])
PLAIN: Final = st.one_of(st.none(), TEXTS, NUMBERS, st.sampled_from([b"", b"x", object(), int, len]))
PLACES: Final = st.one_of(
    st.just(PLACE), st.builds(TopicPartition, PLAIN, PLAIN), st.tuples(PLAIN, PLAIN), PLAIN
)
OFFSETS: Final = st.one_of(
    PLAIN,
    st.builds(Committed, PLAIN, PLAIN, PLAIN),
    st.tuples(PLAIN, PLAIN),
    st.tuples(PLAIN, PLAIN, PLAIN, PLAIN),
)
HASHABLE: Final = PLACES.filter(lambda value: not isinstance(value, float))
VALUES: Final = st.one_of(
    PLAIN,
    PLACES,
    st.lists(PLACES, max_size=2),
    st.lists(PLAIN, max_size=2),
    st.dictionaries(HASHABLE, OFFSETS, max_size=2),
    st.dictionaries(st.just(PLACE), OFFSETS, min_size=1),
)
TIMEOUTS: Final = st.sampled_from([0, 0.02, 0.02, 0.02, -1, "1", True, float("nan")])
# They end the client or its next call, or are no calls.
LEFT_OUT: Final = ("close", "stop", "finish", "wakeup", "keepalive")


def calls_of(kind: type) -> list[str]:
    found = inspect.getmembers(kind, inspect.isfunction)
    return [name for name, _ in found if not name.startswith("_") and name not in LEFT_OUT]


def arguments_of(method: Any) -> st.SearchStrategy[dict[str, Any]]:
    required: dict[str, st.SearchStrategy[Any]] = {}
    optional: dict[str, st.SearchStrategy[Any]] = {}
    for item in inspect.signature(method).parameters.values():
        if item.kind in (item.VAR_POSITIONAL, item.VAR_KEYWORD):
            continue
        if item.name in ("timeout", "timeout_ms"):
            required[item.name] = TIMEOUTS
        elif item.default is item.empty:
            required[item.name] = VALUES
        else:
            optional[item.name] = VALUES
    return st.fixed_dictionaries(required, optional=optional)
