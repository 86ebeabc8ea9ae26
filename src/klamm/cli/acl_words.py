"""ACLs as the command line writes them: resources by options, operations and roles by words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

import typer

from klamm.access.acls import CLUSTER_NAME, OPERATIONS, WILDCARD, Acl, AclOperation, ResourceType, word_of
from klamm.cli.failures import MISUSED, fail

# What a role needs, by the type of the resources that are named. DESCRIBE follows from READ and WRITE.
ROLES: Final[dict[str, dict[ResourceType, AclOperation]]] = {
    "consume": {ResourceType.TOPIC: AclOperation.READ, ResourceType.GROUP: AclOperation.READ},
    "produce": {ResourceType.TOPIC: AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID: AclOperation.WRITE},
}
TYPE_WORDS: Final = {kind: kind.name.lower().replace("_", "-") for kind in ResourceType}

Topic = Annotated[
    list[str] | None,
    typer.Option("--topic", metavar="NAME", help="A topic that is concerned, '*' for all; repeatable."),
]
Group = Annotated[
    list[str] | None,
    typer.Option("--group", metavar="ID", help="A group that is concerned, '*' for all; repeatable."),
]
TransactionalId = Annotated[
    list[str] | None,
    typer.Option(
        "--transactional-id",
        metavar="ID",
        help="A transactional id that is concerned, '*' for all; repeatable.",
    ),
]
Cluster = Annotated[bool, typer.Option("--cluster", help="Concern the cluster itself.")]
Can = Annotated[
    str | None,
    typer.Option(
        "--can",
        metavar="WORDS",
        help="Operations, separated by commas: read, write, create, delete, alter, describe, "
        "describe-configs, alter-configs, cluster-action, idempotent-write, all; or a role: consume, "
        "produce. To remove without it removes all operations.",
    ),
]


@dataclass(frozen=True, slots=True)
class Need:
    """An operation on a resource."""

    resource_type: ResourceType
    name: str
    operation: AclOperation


def principal_of(text: str) -> str:
    """`alice` is `User:alice`; what has a colon stays."""
    if not text:
        fail("the principal is empty: write a user's name, or 'User:*' for all", MISUSED)
    return text if ":" in text else f"User:{text}"


def resources_of(
    topic: Sequence[str] | None,
    group: Sequence[str] | None,
    transactional_id: Sequence[str] | None,
    cluster: bool,
) -> list[tuple[ResourceType, str]]:
    """The resources that options name."""
    named = (
        (ResourceType.TOPIC, topic),
        (ResourceType.GROUP, group),
        (ResourceType.TRANSACTIONAL_ID, transactional_id),
    )
    found = [(kind, name) for kind, names in named for name in names or ()]
    if any(not name for _, name in found):
        fail("a name is empty: '*' means all", MISUSED)
    return found + ([(ResourceType.CLUSTER, CLUSTER_NAME)] if cluster else [])


def needs_of(can: str | None, resources: Iterable[tuple[ResourceType, str]]) -> list[Need]:
    """Each operation on each resource; a role takes the operations that fit."""
    chosen = list(resources)
    if not chosen:
        fail("no resource given: name a --topic, --group, --transactional-id, or --cluster", MISUSED)
    words = [word.strip().lower() for word in (can or "").split(",") if word.strip()]
    if not words:
        fail("no operation given: write --can read, or a role, as in --can consume", MISUSED)
    found = [need for word in words for need in _needs(word, chosen)]
    return list(dict.fromkeys(found))


def _needs(word: str, resources: Sequence[tuple[ResourceType, str]]) -> Iterator[Need]:
    role = ROLES.get(word)
    for kind, name in resources:
        if role is not None:
            if kind not in role:
                fits = " and ".join(f"--{TYPE_WORDS[each]}" for each in role)
                fail(f"the role {word} is about {fits}, not about --{TYPE_WORDS[kind]}", MISUSED)
            yield Need(kind, name, role[kind])
            continue
        operation = operation_of(word)
        if operation is not AclOperation.ALL and operation not in OPERATIONS[kind]:
            known = ", ".join(map(shown_word, OPERATIONS[kind]))
            fail(f"{word} is no operation on a {TYPE_WORDS[kind]}: expected all, {known}", MISUSED)
        yield Need(kind, name, operation)


def operation_of(word: str) -> AclOperation:
    try:
        return word_of(word, AclOperation, "operation")
    except ValueError as error:
        fail(f"{error}; or a role: {', '.join(ROLES)}", MISUSED)


def shown_word(value: AclOperation | ResourceType) -> str:
    return value.name.lower().replace("_", "-")


COLUMNS: Final = ("permission", "principal", "host", "operation", "resource", "pattern", "name")


def cells(acl: Acl) -> tuple[str, ...]:
    """The row of an ACL in a table."""
    pattern, entry = acl.pattern, acl.entry
    return (
        entry.permission.name.lower(),
        entry.principal,
        entry.host,
        shown_word(entry.operation),
        TYPE_WORDS[pattern.resource_type],
        pattern.pattern_type.name.lower(),
        pattern.name,
    )


def as_json(acl: Acl) -> dict[str, Any]:
    return dict(zip(COLUMNS, cells(acl), strict=True))


def in_words(acl: Acl) -> str:
    """An ACL in one line: `allow User:alice to read topics that begin with orders-`."""
    pattern, entry = acl.pattern, acl.entry
    kind = TYPE_WORDS[pattern.resource_type]
    if pattern.resource_type is ResourceType.CLUSTER:
        what = "the cluster"
    elif pattern.pattern_type.name == "PREFIXED":
        what = f"{kind}s that begin with {pattern.name}"
    else:
        what = f"every {kind}" if pattern.name == WILDCARD else f"{kind} {pattern.name}"
    operation = "do everything with" if entry.operation is AclOperation.ALL else shown_word(entry.operation)
    where = "" if entry.host == WILDCARD else f" from {entry.host}"
    return f"{entry.permission.name.lower()} {entry.principal} to {operation} {what}{where}"
