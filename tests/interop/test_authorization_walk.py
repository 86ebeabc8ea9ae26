"""Every request beside Apache Kafka's StandardAuthorizer, under a hundred sets of ACLs.

Each operation alone on everything, alone on one resource, denied where all else is allowed, by prefix, for
another host: every answer is compared, also those to requests for several things of which some are denied or
absent.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from internals.acl_mixed import MIXED, NAMES, prepare
from internals.acl_requests import CASES
from interop.kafka_tools import ApacheKafka
from interop.processes import KlammProcess
from interop.questions import Conversation, comparable
from interop.test_authorization import BOB, EVERYONE, SETTINGS, Side
from klamm.access.acls import CLUSTER_NAME, AclOperation, PatternType, PermissionType, ResourceType
from klamm.protocol.api import OWN_APIS, ApiKey
from klamm.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from klamm.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from klamm.protocol.messages.describe_acls import DescribeAclsRequest
from klamm.testing import wait_until

_FOR_BOTH: Final = {
    **SETTINGS,
    "group.initial.rebalance.delay.ms": "0",
    "transaction.two.phase.commit.enable": "true",
}
_FOR_KAFKA: Final = {"unstable.api.versions.enable": "true"}  # InitProducerId 6
_ELSEWHERE: Final = "127.0.0.9"
_OPERATIONS: Final = [each for each in AclOperation if not each.name.endswith("_TOKENS")]
_SOME: Final = [AclOperation[each] for each in ("READ", "WRITE", "DESCRIBE", "ALL", "CREATE")]
_PAIRS: Final = (
    ("READ", "DESCRIBE"),
    ("DESCRIBE", "DELETE"),
    ("WRITE", "DESCRIBE_CONFIGS"),
    ("CREATE", "DESCRIBE_CONFIGS"),
    ("WRITE", "TWO_PHASE_COMMIT"),
    ("DESCRIBE", "CREATE"),
    ("DELETE", "READ"),
)
# What is in every answer, and has nothing to do with rights.
_OTHER: Final = {"throttle_time_ms", "producer_epoch", "rack", "transaction_start_time_ms", "start_offset"}


def an_acl(
    kind: ResourceType,
    operation: AclOperation,
    name: str = "*",
    *,
    prefixed: bool = False,
    deny: bool = False,
    host: str = BOB,
) -> AclCreation:
    is_cluster = kind is ResourceType.CLUSTER
    return AclCreation(
        kind,
        CLUSTER_NAME if is_cluster else name,
        PatternType.PREFIXED if prefixed and not is_cluster else PatternType.LITERAL,
        EVERYONE,
        host,
        operation,
        PermissionType.DENY if deny else PermissionType.ALLOW,
    )


def sets() -> Iterator[tuple[str, list[AclCreation]]]:
    """The ACLs that bob has, and what they are called."""
    yield "nothing", []
    everything = [an_acl(kind, AclOperation.ALL) for kind in NAMES]
    for operation in _OPERATIONS:
        word = operation.name
        yield f"{word} on all", [an_acl(kind, operation) for kind in NAMES]
        for kind, name in NAMES.items():
            yield f"{word} on {kind.name} {name}", [an_acl(kind, operation, name)]
        denied = [an_acl(kind, operation, deny=True) for kind in NAMES]
        yield f"all but {word}", everything + denied
        denied = [an_acl(kind, operation, name, deny=True) for kind, name in NAMES.items()]
        yield f"all but {word} on some", everything + denied
    for operation in _SOME:
        prefixes = {kind: name[:1] for kind, name in NAMES.items()}
        of_some = [an_acl(kind, operation, name, prefixed=True) for kind, name in prefixes.items()]
        yield f"{operation.name} by prefix", of_some
        yield f"{operation.name} elsewhere", [an_acl(kind, operation, host=_ELSEWHERE) for kind in NAMES]
        denied = [an_acl(kind, operation, name, prefixed=True, deny=True) for kind, name in prefixes.items()]
        yield f"all but {operation.name} by prefix", everything + denied
    for pair in _PAIRS:
        both = [an_acl(kind, AclOperation[each]) for kind in NAMES for each in pair]
        yield " and ".join(pair), both


def give(side: Side, acls: Sequence[AclCreation]) -> None:
    """Bob has these, and no others, once the broker decides by them."""
    side.revoke_all()
    elsewhere = DeleteAclsFilter(1, None, 1, None, _ELSEWHERE, 1, 1)
    side.admin.ask(ApiKey.DELETE_ACLS, 2, DeleteAclsRequest([elsewhere]))
    answer = side.admin.ask(ApiKey.CREATE_ACLS, 2, CreateAclsRequest(list(acls)))
    assert all(each.error_code == 0 for each in answer.results), answer
    expected = len({json.dumps(each.values()) for each in acls if each.host == BOB})
    wait_until(lambda: side.described(DescribeAclsRequest(1, None, 1, None, BOB, 1, 1)), equals=expected)


def without_what_differs(answer: Any) -> Any:
    """An answer without epochs and times, and without the topics that each broker keeps for itself."""
    if isinstance(answer, dict):
        return {
            name: without_what_differs(value)
            for name, value in answer.items()
            if name not in _OTHER and not name.endswith("_epoch")
        }
    if isinstance(answer, list):
        return [without_what_differs(each) for each in answer if not _is_internal(each)]
    return answer


def _is_internal(item: Any) -> bool:
    names = {"name", "topic", "resource_name"}
    return isinstance(item, dict) and any(
        str(item.get(name)).startswith("__") and not item.get("error_code") for name in names
    )


def asked(side: Side, conversation: Conversation, key: ApiKey, version: int, request: Any) -> Any:
    made = request(side.topic_ids) if callable(request) else request
    return without_what_differs(comparable(conversation.ask(key, version, made)))


def test_every_answer_is_kafkas_under_a_hundred_sets_of_acls(tmp_path: Path) -> None:
    requests = [
        *MIXED,
        *(
            (case.title, case.api_key, case.version, case.request)
            for case in CASES
            if case.api_key not in OWN_APIS and not case.changes
        ),
    ]
    ours = KlammProcess(tmp_path / "klamm", stderr_path=tmp_path / "klamm.err", settings=_FOR_BOTH)
    flags = ("-Xmx512m", "-XX:TieredStopAtLevel=1")
    found = []
    count = 0
    try:
        with ApacheKafka(tmp_path / "kafka", flags=flags, settings=_FOR_BOTH | _FOR_KAFKA) as kafka:
            sides = Side("klamm", ours.bootstrap), Side("Kafka", kafka.bootstrap)
            for side in sides:
                prepare(side)
            for called, acls in sets():
                for side in sides:
                    give(side, acls)
                talks = [Conversation(side.bootstrap, source=BOB) for side in sides]
                for title, key, version, request in requests:
                    answers = [
                        asked(side, talk, key, version, request)
                        for side, talk in zip(sides, talks, strict=True)
                    ]
                    assert "closed" not in answers, f"{title} with {called}: {answers}"
                    count += 1
                    if json.dumps(answers[0]) != json.dumps(answers[1]):
                        found.append(f"{title} with {called}: {answers[0]} {answers[1]}")
                for talk in talks:
                    talk.close()
            for side in sides:
                side.admin.close()
    finally:
        ours.stop()
    assert count > 10_000
    assert found == []
