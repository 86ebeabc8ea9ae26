"""What klamm's own APIs tell of groups and transactions, without topics that the asker may not describe.

As DescribeTransactions and OffsetFetch have it: who may look at a group or a transaction does not learn by it
which topics there are, nor what was committed for them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from klamm.broker.net.context import RequestContext
from klamm.broker.security.permissions import DESCRIBE_TOPIC
from klamm.broker.security.rules import EachItem, Verdict

if TYPE_CHECKING:
    from klamm.broker.services import Services

_TOPICS: Final = ("topics", "subscribed_topics")
_PARTITIONS: Final = ("partitions", "awaiting_marker", "owned", "assignment", "offsets")
_BY_MEMBER: Final = "assignments"
Sees = Callable[[str], bool]


class Inspected:
    """Each item needs a permission; what is told of it is cut to the topics that may be described."""

    def __init__(self, items: EachItem, answers: str) -> None:
        self._items = items
        self._answers = answers

    def __call__(self, services: Services, context: RequestContext, request: Any) -> Verdict | None:
        verdict = self._items(services, context, request)
        shows = services.authorizer.shows

        def finish(response: Any) -> Any:
            told = [
                each.but(content=_cut(each.content, lambda name: shows(context, DESCRIBE_TOPIC, name)))
                for each in getattr(response, self._answers)
            ]
            return response.but(**{self._answers: told})

        if verdict is None:
            return Verdict(request, finish)
        if verdict.request is None:
            return verdict
        return Verdict(verdict.request, lambda response: verdict.finish(finish(response)))


def _cut(content: bytes, sees: Sees) -> bytes:
    if not content:
        return content
    return json.dumps(visible(json.loads(content), sees), ensure_ascii=False).encode()


def visible(content: Any, sees: Sees, name: str = "") -> Any:
    """The content without topics that may not be seen."""
    if isinstance(content, dict):
        if name in _PARTITIONS:
            return {key: value for key, value in content.items() if sees(_topic_of(key))}
        if name == _BY_MEMBER:
            return {member: visible(value, sees, "assignment") for member, value in content.items()}
        return {key: visible(value, sees, key) for key, value in content.items()}
    if not isinstance(content, list):
        return content
    return [visible(each, sees) for each in content if _is_visible(each, sees, name)]


def _is_visible(item: Any, sees: Sees, name: str) -> bool:
    if isinstance(item, dict):
        return "topic" not in item or sees(item["topic"])
    if not isinstance(item, str) or name not in (*_TOPICS, *_PARTITIONS):
        return True
    return sees(item if name in _TOPICS else _topic_of(item))


def _topic_of(partition: str) -> str:
    return partition.rpartition("-")[0]
