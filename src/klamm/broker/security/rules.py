"""How requests are authorized before their handlers get them, item by item where a request names several.

A rule looks at a request before its handler does. It lets it pass, answers it, or takes out what its sender
may not do; what was refused is added to the response. So handlers and coordinators see only what is allowed,
and an absent resource and a forbidden one look the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from klamm.access.acls import CLUSTER_NAME
from klamm.broker.net.context import RequestContext
from klamm.broker.net.failures import failure_of
from klamm.broker.security.permissions import Permission
from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from klamm.broker.services import Services

OF_ERROR: Final = "that of the error"  # in place of a message
MESSAGES: Final = {
    ErrorCode.topic_authorization_failed: "Topic authorization failed.",
    ErrorCode.group_authorization_failed: "Group authorization failed.",
    ErrorCode.cluster_authorization_failed: "Cluster authorization failed.",
    ErrorCode.transactional_id_authorization_failed: "Transactional Id authorization failed.",
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is left of a request that its sender may not make as it is."""

    request: Any | None  # what the handler gets; None: nothing
    finish: Callable[[Any], Any]  # the response, made of that to the rest (None if there was none)


Screen = Callable[["Services", RequestContext, Any], Verdict | None]  # None: all of it is allowed


@dataclass(frozen=True, slots=True)
class Rule:
    """What an API needs, the main permission first, and what looks at its requests."""

    api_key: ApiKey
    needs: tuple[Permission, ...]
    screen: Screen | None = None  # None: open to all, or the handler asks: only it knows the resources


def answered(response: Any) -> Verdict:
    """Nothing is left of the request."""
    return Verdict(None, lambda _: response)


def refused(api_key: ApiKey, request: Any, error_code: ErrorCode, message: str | None = OF_ERROR) -> Any:
    """The response that refuses all of a request; the message is that of the error."""
    response = failure_of(api_key)(request, error_code)
    _set_messages(response, MESSAGES[error_code] if message is OF_ERROR else message)
    return response


def _set_messages(message: Any, text: str | None) -> None:
    """Tell why beside each error code that has room for it."""
    for name in message.__slots__:
        value = getattr(message, name)
        if name == "error_message":
            message.error_message = text
        elif isinstance(value, list):
            for each in value:
                if hasattr(each, "__slots__"):
                    _set_messages(each, text)


class Whole:
    """The request as a whole needs one of some permissions, on the resource that a field names."""

    def __init__(
        self, api_key: ApiKey, *one_of: Permission, field: str = "", message: str | None = OF_ERROR
    ) -> None:
        self._api_key = api_key
        self.one_of = one_of
        self.field = field
        self._message = message

    @property
    def is_of_one_name(self) -> bool:
        """Whether all that it needs is one permission on what the field names."""
        return bool(self.field) and len(self.one_of) == 1

    def __call__(self, services: Services, context: RequestContext, request: Any) -> Verdict | None:
        name = getattr(request, self.field) if self.field else CLUSTER_NAME
        authorizer = services.authorizer
        *others, last = self.one_of
        if any(authorizer.shows(context, each, name) for each in others):
            return None
        if authorizer.allows(context, last, name):
            return None
        error_code = last.refusal
        return answered(refused(self._api_key, request, error_code, self._message))


class EachItem:
    """Each item of a list needs a permission on the resource that it names."""

    def __init__(
        self,
        api_key: ApiKey,
        needs: Permission,
        field: str,
        answers: str,
        name: str = "",  # the field of an item; "": it is the name
        *,
        message: str | None = OF_ERROR,
    ) -> None:
        self._api_key = api_key
        self._needs = needs
        self._field = field
        self._answers = answers
        self._name = attrgetter(name) if name else _itself
        self._message = message

    def __call__(self, services: Services, context: RequestContext, request: Any) -> Verdict | None:
        allows, needs, name = services.authorizer.allows, self._needs, self._name
        items = getattr(request, self._field)
        rest: list[Any] = []
        denied: list[Any] = []
        for each in items:
            (rest if allows(context, needs, name(each)) else denied).append(each)
        if not denied:
            return None
        return without(
            self._api_key, request, self._field, self._answers, denied, rest, needs.refusal, self._message
        )


def _itself(item: Any) -> Any:
    return item


def without(
    api_key: ApiKey,
    request: Any,
    field: str,
    answers: str,
    denied: list[Any],
    rest: list[Any],
    error_code: ErrorCode,
    message: str | None = OF_ERROR,
) -> Verdict:
    """Some items of a request are refused; the handler gets the rest, if there is any."""
    refusal = refused(api_key, request.but(**{field: denied}), error_code, message)
    added = getattr(refusal, answers)
    if not rest:
        return answered(type(refusal)(**{answers: added}))
    return Verdict(
        request.but(**{field: rest}),
        lambda response: response.but(**{answers: [*getattr(response, answers), *added]}),
    )


def in_turn(*screens: Screen) -> Screen:
    """One screen after the other, each on what the one before has left."""

    def screen(services: Services, context: RequestContext, request: Any) -> Verdict | None:
        verdict: Verdict | None = None
        for each in screens:
            rest = request if verdict is None else verdict.request
            found = each(services, context, rest)
            if found is not None:
                verdict = found if verdict is None else _both(verdict, found)
            if verdict is not None and verdict.request is None:
                return verdict
        return verdict

    return screen


def _both(first: Verdict, then: Verdict) -> Verdict:
    return Verdict(then.request, lambda response: first.finish(then.finish(response)))
