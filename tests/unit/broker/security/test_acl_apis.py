"""CreateAcls, DescribeAcls and DeleteAcls, with Kafka's error codes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from internals.jar import Jar, JarClient
from klamm.protocol.api import ApiKey
from klamm.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from klamm.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from klamm.protocol.messages.describe_acls import DescribeAclsRequest
from klamm.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

TOPIC, LITERAL, PREFIXED, READ, DESCRIBE, DENY, ALLOW, ANY, MATCH = 2, 3, 4, 3, 8, 2, 3, 1, 2
BOB = "User:bob"


@pytest.fixture
def jar() -> Iterator[Jar]:
    jar = Jar({"klamm.authorizer": "acl", "super.users": "User:ANONYMOUS"})
    yield jar
    jar.close()


def asked(jar: Jar, api_key: ApiKey, request: Any, client: JarClient | None = None) -> Any:
    client = client or jar.connect()
    client.send(api_key, 2, request)
    jar.pass_ms(100)
    (answer,) = client.new_answers()
    return answer


def create(jar: Jar, *creations: AclCreation) -> list[tuple[int, str | None]]:
    answer = asked(jar, ApiKey.CREATE_ACLS, CreateAclsRequest(creations))
    return [(each.error_code, each.error_message) for each in answer.results]


def an_acl(
    name: str = "foo", *, kind: int = TOPIC, pattern: int = LITERAL, principal: str = BOB, **more: Any
) -> AclCreation:
    values: dict[str, Any] = {"host": "*", "operation": READ, "permission_type": ALLOW} | more
    return AclCreation(kind, name, pattern, principal, **values)


def described(jar: Jar, request: DescribeAclsRequest) -> set[tuple[str, int, str]]:
    answer = asked(jar, ApiKey.DESCRIBE_ACLS, request)
    assert answer.error_code == 0
    return {
        (resource.resource_name, resource.pattern_type, acl.principal)
        for resource in answer.resources
        for acl in resource.acls
    }


def everything() -> DescribeAclsRequest:
    return DescribeAclsRequest(ANY, None, ANY, None, None, ANY, ANY)


def test_an_acl_that_exists_is_created_once(jar: Jar) -> None:
    assert create(jar, an_acl(), an_acl(), an_acl(host="10.0.0.1")) == [(0, "")] * 3
    assert create(jar, an_acl()) == [(0, "")]
    answer = asked(jar, ApiKey.DESCRIBE_ACLS, everything())
    ((resource),) = answer.resources
    assert (resource.resource_type, resource.resource_name, resource.pattern_type) == (2, "foo", 3)
    assert {(acl.host, acl.operation, acl.permission_type) for acl in resource.acls} == {
        ("*", 3, 3),
        ("10.0.0.1", 3, 3),
    }


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (an_acl(""), "Invalid empty resource name"),
        (an_acl("other", kind=4), "The only valid name for the CLUSTER resource is kafka-cluster"),
        (an_acl(principal="bob"), "Could not parse principal from"),
        (an_acl(kind=99), "Invalid resourceType UNKNOWN"),
        (an_acl(pattern=99), "Invalid patternType UNKNOWN"),
        (an_acl(operation=99), "Invalid operation UNKNOWN"),
        (an_acl(permission_type=99), "Invalid permissionType UNKNOWN"),
        (an_acl(kind=ANY), "Invalid resourceType ANY"),
        (an_acl(pattern=MATCH), "Invalid patternType MATCH"),
        (an_acl(kind=0), "Invalid resourceType UNKNOWN"),
    ],
)
def test_what_cannot_be_an_acl_is_refused_and_the_others_are_created(
    jar: Jar, wrong: AclCreation, message: str
) -> None:
    (code, text), good = create(jar, wrong, an_acl("good"))
    assert code == 42
    assert text is not None
    assert text.startswith(message)
    assert good == (0, "")
    assert described(jar, everything()) == {("good", LITERAL, BOB)}


def test_what_never_matches_is_stored_as_in_kafka(jar: Jar) -> None:
    odd = [
        an_acl("kafka-cluster", kind=4),
        an_acl(principal="Foo:bob"),
        an_acl(principal="User:"),
        an_acl(host=""),
        an_acl(host="10.0.0.0/8"),
        an_acl("no/topic\x00name"),
        an_acl("*", pattern=PREFIXED),
        an_acl("kafka", kind=4, pattern=PREFIXED),
    ]
    assert create(jar, *odd) == [(0, "")] * len(odd)


@pytest.mark.parametrize(
    ("request_", "names"),
    [
        (DescribeAclsRequest(TOPIC, "foo", LITERAL, None, None, ANY, ANY), {"foo"}),
        (DescribeAclsRequest(TOPIC, "foo", MATCH, None, None, ANY, ANY), {"foo", "fo", "*"}),
        (DescribeAclsRequest(TOPIC, "fo", ANY, None, None, ANY, ANY), {"fo"}),
        (DescribeAclsRequest(TOPIC, None, PREFIXED, None, None, ANY, ANY), {"fo"}),
        (DescribeAclsRequest(99, None, ANY, None, None, ANY, ANY), set()),
        (DescribeAclsRequest(TOPIC, None, 99, None, None, ANY, ANY), set()),
        (DescribeAclsRequest(TOPIC, None, ANY, BOB, None, ANY, ANY), {"foo", "fo", "*"}),
        (DescribeAclsRequest(TOPIC, None, ANY, "User:eve", None, ANY, ANY), set()),
        (DescribeAclsRequest(TOPIC, None, ANY, None, None, DESCRIBE, ANY), set()),
    ],
)
def test_filters_select(jar: Jar, request_: DescribeAclsRequest, names: set[str]) -> None:
    create(jar, an_acl("foo"), an_acl("fo", pattern=PREFIXED), an_acl("*"))
    assert {name for name, _, _ in described(jar, request_)} == names


def test_a_filter_with_the_value_zero_closes_the_connection(jar: Jar) -> None:
    client = jar.connect()
    client.send(ApiKey.DESCRIBE_ACLS, 2, DescribeAclsRequest(0, None, ANY, None, None, ANY, ANY))
    jar.pass_ms(100)
    assert client.is_closed


def delete(jar: Jar, *filters: DeleteAclsFilter) -> Sequence[Any]:
    results: Sequence[Any] = asked(jar, ApiKey.DELETE_ACLS, DeleteAclsRequest(filters)).filter_results
    return results


def test_deleting_lists_what_was_deleted(jar: Jar) -> None:
    create(jar, an_acl("foo"), an_acl("fo", pattern=PREFIXED), an_acl("*"), an_acl("bar"))
    matching = DeleteAclsFilter(TOPIC, "foo", MATCH, None, None, ANY, ANY)
    nothing = DeleteAclsFilter(TOPIC, "none", LITERAL, None, None, ANY, ANY)
    first, second = delete(jar, matching, nothing)
    assert (first.error_code, first.error_message) == (0, None)
    assert {each.resource_name for each in first.matching_acls} == {"foo", "fo", "*"}
    assert {each.error_code for each in first.matching_acls} == {0}
    assert (second.error_code, list(second.matching_acls)) == (0, [])
    assert described(jar, everything()) == {("bar", LITERAL, BOB)}


def test_two_filters_may_select_the_same_acl(jar: Jar) -> None:
    create(jar, an_acl("foo"), an_acl("foo", principal="User:eve"))
    of_bob = DeleteAclsFilter(TOPIC, "foo", LITERAL, BOB, None, ANY, ANY)
    results = delete(jar, of_bob, of_bob)
    assert [len(each.matching_acls) for each in results] == [1, 1]
    assert described(jar, everything()) == {("foo", LITERAL, "User:eve")}


def test_without_an_authorizer_there_are_no_acls() -> None:
    jar = Jar()
    try:
        assert create(jar, an_acl()) == [(54, "No Authorizer is configured.")]
        ((result),) = delete(jar, DeleteAclsFilter(TOPIC, "foo", LITERAL, None, None, ANY, ANY))
        assert (result.error_code, result.error_message) == (54, "No Authorizer is configured.")
        answer = asked(jar, ApiKey.DESCRIBE_ACLS, everything())
        assert answer.error_code == 54
        assert answer.error_message == "No Authorizer is configured on the broker"
    finally:
        jar.close()


def test_an_acl_created_here_decides_at_once_on_open_connections() -> None:
    jar = Jar({"klamm.authorizer": "acl", "allow.everyone.if.no.acl.found": "true"})
    try:
        jar.create_topic("foo")
        client = jar.connect(ip="10.0.0.7")
        request = MetadataRequest([MetadataRequestTopic(name="foo")], False)
        assert client.ask(ApiKey.METADATA, 9, request).topics[0].error_code == 0
        create(jar, an_acl(principal="User:*", host="10.0.0.7", operation=DESCRIBE, permission_type=DENY))
        assert client.ask(ApiKey.METADATA, 9, request).topics[0].error_code == 29
        delete(jar, DeleteAclsFilter(TOPIC, "foo", LITERAL, None, None, ANY, ANY))
        assert client.ask(ApiKey.METADATA, 9, request).topics[0].error_code == 0
    finally:
        jar.close()


def test_acls_are_there_when_the_broker_starts_again() -> None:
    jar = Jar({"klamm.authorizer": "acl", "super.users": "User:ANONYMOUS"})
    create(jar, an_acl("foo"), an_acl("fo", pattern=PREFIXED))
    jar.loop.run(jar.broker.stop())
    again = Jar(
        {"klamm.authorizer": "acl", "super.users": "User:ANONYMOUS"},
        clock=jar.clock,
        files=jar.files,
        cluster=jar.join(),
    )
    try:
        assert described(again, everything()) == {("foo", LITERAL, BOB), ("fo", PREFIXED, BOB)}
    finally:
        again.close()
