"""What a checkpoint depends on in the plan of a query: how many sources it has, and what state it keeps."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from pyspark.sql import DataFrame

# Nodes of an analysed plan that keep state in a stream.
_STATEFUL: Final = re.compile(
    r"Aggregate|Deduplicate\w*|Distinct|Join|GlobalLimit|LocalLimit|FlatMapGroups\w*|TransformWith\w*|"
    r"FlatMapCoGroups\w*|SessionWindow\w*"
)
# Numbers that Spark gives to columns, and the names of results: state does not depend on them.
_NUMBER: Final = re.compile(r"#\d+L?")
_NAME: Final = re.compile(r" AS (`[^`]*`|\w+)")
_MOST_FIELDS: Final = 1_000


class PlanFacts(NamedTuple):
    """Sources are those of the transform, without the one that reads dead letters."""

    source_count: int
    state: tuple[str, ...]


def facts_of(frame: DataFrame, *, has_dead_letters: bool) -> PlanFacts:
    """The facts of a whole query."""
    nodes = list(_nodes(frame._jdf.queryExecution().analyzed()))  # PySpark offers no other way
    leaves = sum(1 for node in nodes if node.children().isEmpty())
    state = tuple(_signature(node) for node in nodes if _keeps_state(node))
    return PlanFacts(leaves - has_dead_letters, state)


def _nodes(node: Any) -> Iterator[Any]:
    """The nodes of a plan that are streams, from the top."""
    if not node.isStreaming():
        return
    yield node
    children = node.children()
    for index in range(children.size()):
        yield from _nodes(children.apply(index))


def _keeps_state(node: Any) -> bool:
    if not _STATEFUL.fullmatch(node.nodeName()):
        return False
    children = node.children()  # a join with a table keeps nothing
    return all(children.apply(index).isStreaming() for index in range(children.size()))


def _signature(node: Any) -> str:
    """What a node keeps, in words that are the same in every run."""
    text = _NAME.sub("", _NUMBER.sub("", node.simpleString(_MOST_FIELDS))).lstrip("~")
    types = ", ".join(field.dataType().catalogString() for field in _fields(node))
    return f"{text} [{types}]"


def _fields(node: Any) -> list[Any]:
    fields = node.schema().fields()
    return [fields[index] for index in range(len(fields))]
