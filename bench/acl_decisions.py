"""How many decisions does the authorizer make per second, with 0, 100 and 100,000 ACLs?

No socket and no broker. `kept` asks for the same decision again, as a connection does with each heartbeat;
`new` for one that it has not kept; `after a change` for one after each change of an ACL, which makes all that
were kept void. Processor time, the best of some rounds.

    python -m bench.acl_decisions [--rounds 5]
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, cast

from klamm.access.acls import AclEntry, AclOperation, AclPattern, PatternType, PermissionType, ResourceType
from klamm.access.rights import Rights
from klamm.broker.net.context import Decisions
from klamm.broker.security.authorizer import AclAuthorizer
from klamm.broker.security.permissions import Permission

NEEDS = Permission(ResourceType.GROUP, AclOperation.READ)
ENTRY = AclEntry("User:bob", "*", AclOperation.READ, PermissionType.ALLOW)
TURNS = 100_000


def an_authorizer(acl_count: int) -> AclAuthorizer:
    rights = Rights()
    for number in range(acl_count):
        pattern_type = PatternType.PREFIXED if number % 10 == 0 else PatternType.LITERAL
        rights.replace(AclPattern(ResourceType.GROUP, pattern_type, f"group-{number}"), [ENTRY])
    rights.replace(AclPattern(ResourceType.GROUP, PatternType.LITERAL, "asked"), [ENTRY])
    return AclAuthorizer(rights, cast(Any, None))


def best(rounds: int, turn: Callable[[], object]) -> float:
    """Microseconds of one turn."""
    took: list[int] = []
    for _ in range(rounds):
        began = time.process_time_ns()
        for _ in range(TURNS):
            turn()
        took.append(time.process_time_ns() - began)
    return min(took) / TURNS / 1000


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args(arguments).rounds
    for acl_count in (0, 100, 100_000):
        authorizer = an_authorizer(acl_count)
        context = cast(
            Any, SimpleNamespace(principal="User:bob", client_host="/10.0.0.1", decisions=Decisions())
        )

        def kept(authorizer: AclAuthorizer = authorizer, context: Any = context) -> None:
            assert authorizer.allows(context, NEEDS, "asked")

        def new(authorizer: AclAuthorizer = authorizer) -> None:
            authorizer.rights.decide("User:bob", "10.0.0.1", AclOperation.READ, ResourceType.GROUP, "asked")

        def after_a_change(authorizer: AclAuthorizer = authorizer, context: Any = context) -> None:
            authorizer.changed()
            assert authorizer.allows(context, NEEDS, "asked")

        for name, turn in (("kept", kept), ("new", new), ("after a change", after_a_change)):
            took_us = best(rounds, turn)
            sys.stdout.write(
                f"{acl_count:>8,} ACLs, {name:<15} {took_us:6.2f} us, {1e6 / took_us:>10,.0f} a second\n"
            )


if __name__ == "__main__":
    main(sys.argv[1:])
