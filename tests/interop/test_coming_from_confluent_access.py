"""ACLs and SCRAM users of confluent-kafka's admin: the same with it and with `klamm.compat`."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest

from klamm import Acl, Admin
from klamm.testing import SecureBroker

pytestmark = [pytest.mark.timeout(120)]


@pytest.fixture(scope="module")
def broker() -> Iterator[SecureBroker]:
    with SecureBroker(clock="system") as running:
        running.client("boss")
        running.allow("boss", "alter", "describe", cluster="kafka-cluster")
        yield running


@pytest.fixture(params=["confluent_kafka", "klamm.compat.confluent_kafka"], ids=["theirs", "ours"])
def lib(request: pytest.FixtureRequest) -> ModuleType:
    return importlib.import_module(f"{request.param}.admin")


@pytest.fixture
def admin(lib: ModuleType, broker: SecureBroker) -> Any:
    return lib.AdminClient(broker.client("boss"))


def failure(lib: ModuleType, future: Any) -> str:
    with pytest.raises(lib.KafkaException) as raised:
        future.result(20)
    return str(raised.value.args[0].name())


def test_acls_are_created_described_and_deleted(lib: ModuleType, admin: Any) -> None:
    reading = lib.AclBinding("topic", "orders", "literal", "User:a", "*", "read", "allow")
    denied = lib.AclBinding(
        lib.ResourceType.TOPIC,
        "ord",
        lib.ResourcePatternType.PREFIXED,
        "User:b",
        "10.0.0.1",
        lib.AclOperation.ALL,
        lib.AclPermissionType.DENY,
    )
    created = admin.create_acls([reading, denied], request_timeout=20)
    assert [future.result(20) for future in created.values()] == [None, None]
    assert list(created) == [reading, denied]

    def found(*words: Any) -> list[Any]:
        return sorted(admin.describe_acls(lib.AclBindingFilter(*words)).result(20))

    assert found("topic", None, "any", None, None, "any", "any") == sorted([reading, denied])
    assert found("topic", "orders", "match", None, None, "any", "any") == sorted([reading, denied])
    assert found("topic", "orders", "literal", None, None, "any", "any") == [reading]
    assert found("any", None, "any", "User:b", None, "all", "deny") == [denied]

    exact = lib.AclBindingFilter("topic", "orders", "literal", "User:a", "*", "read", "allow")
    others = lib.AclBindingFilter("topic", None, "any", None, None, "any", "any")
    for chosen, gone in ((exact, [reading]), (others, [denied]), (others, [])):
        deleted = admin.delete_acls([chosen])
        assert {key: future.result(20) for key, future in deleted.items()} == {chosen: gone}


def test_each_acl_has_an_error_of_its_own(lib: ModuleType, admin: Any, broker: SecureBroker) -> None:
    good = lib.AclBinding("group", "g", "literal", "User:a", "*", "read", "allow")
    bad = lib.AclBinding("group", "g", "literal", "nobody", "*", "read", "allow")
    created = admin.create_acls([good, bad])
    assert created[good].result(20) is None
    assert failure(lib, created[bad]) == "INVALID_REQUEST"
    every = lib.AclBindingFilter("group", None, "any", None, None, "any", "any")
    assert admin.delete_acls([every])[every].result(20) == [good]
    powerless = lib.AdminClient(broker.client("nobody"))
    assert failure(lib, powerless.create_acls([good])[good]) == "CLUSTER_AUTHORIZATION_FAILED"
    assert failure(lib, powerless.delete_acls([every])[every]) == "CLUSTER_AUTHORIZATION_FAILED"


def test_an_acl_of_a_kind_without_a_word_is_unknown(
    lib: ModuleType, admin: Any, broker: SecureBroker
) -> None:
    with Admin(broker.client("boss")) as own:
        own.create_acls(Acl.of("User:token", "create_tokens", "user", "u"))
    chosen = lib.AclBindingFilter("any", None, "any", "User:token", None, "any", "any")
    (found,) = admin.describe_acls(chosen).result(20)
    assert (found.restype, found.operation) == (lib.ResourceType.UNKNOWN, lib.AclOperation.UNKNOWN)


ACL: tuple[Any, ...] = ("topic", "t", "literal", "User:a", "*", "read", "allow")


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda lib, admin: admin.create_acls([]), ValueError, "non-empty list of AclBinding objects"),
        (lambda lib, admin: admin.create_acls(["acl"]), ValueError, "Expected list of"),
        (lambda lib, admin: admin.create_acls([lib.AclBinding(*ACL)] * 2), ValueError, "duplicate"),
        (lambda lib, admin: admin.create_acls(None), TypeError, "not iterable"),
        (
            lambda lib, admin: admin.create_acls([lib.AclBinding("unknown", *ACL[1:])]),
            ValueError,
            "Invalid resource type",
        ),
        (lambda lib, admin: admin.describe_acls(lib.AclBinding(*ACL)), TypeError, "an AclBindingFilter"),
        (lambda lib, admin: admin.delete_acls([lib.AclBinding(*ACL)]), ValueError, "Expected list of"),
        (lambda lib, admin: lib.AclBinding("any", *ACL[1:]), ValueError, "Cannot use enum restype"),
        (lambda lib, admin: lib.AclBinding("queue", *ACL[1:]), ValueError, 'Unknown value "queue"'),
        (lambda lib, admin: lib.AclBinding(1.5, *ACL[1:]), TypeError, 'Unknown value "1.5"'),
        (lambda lib, admin: lib.AclBinding(99, *ACL[1:]), ValueError, "99 is not a valid"),
        (lambda lib, admin: lib.AclBinding("topic", None, *ACL[2:]), ValueError, "name to be not None"),
        (lambda lib, admin: lib.AclBinding("topic", 3, *ACL[2:]), TypeError, "name to be a string"),
        (lambda lib, admin: lib.AclBindingFilter("unknown", *ACL[1:]), ValueError, "Cannot use enum restype"),
    ],
)
def test_what_is_no_acl_is_refused_at_once(
    lib: ModuleType, admin: Any, call: Callable[..., Any], error: type[Exception], match: str
) -> None:
    with pytest.raises(error, match=match):
        call(lib, admin)


def test_scram_credentials_are_set_described_and_deleted(
    lib: ModuleType, admin: Any, broker: SecureBroker
) -> None:
    sha_256, sha_512 = lib.ScramMechanism.SCRAM_SHA_256, lib.ScramMechanism.SCRAM_SHA_512
    set_both = admin.alter_user_scram_credentials(
        [
            lib.UserScramCredentialUpsertion("carol", lib.ScramCredentialInfo(sha_256, 4096), b"secret"),
            lib.UserScramCredentialUpsertion(
                "dora", lib.ScramCredentialInfo(sha_512, 5000), b"secret", b"saltsalt"
            ),
        ]
    )
    assert {user: future.result(20) for user, future in set_both.items()} == {"carol": None, "dora": None}

    def shown(described: Any) -> tuple[str, list[Any]]:
        infos = [(item.mechanism, item.iterations) for item in described.scram_credential_infos]
        return described.user, infos

    some = admin.describe_user_scram_credentials(["carol", "nobody-here"], request_timeout=20)
    assert shown(some["carol"].result(20)) == ("carol", [(sha_256, 4096)])
    assert failure(lib, some["nobody-here"]) == "RESOURCE_NOT_FOUND"
    every = admin.describe_user_scram_credentials().result(20)
    assert shown(every["dora"]) == ("dora", [(sha_512, 5000)])
    assert admin.describe_user_scram_credentials([]) == {}

    login = {**broker.client("boss"), "sasl.username": "dora", "sasl.password": "secret"}
    assert lib.AdminClient(login).describe_cluster().result(20).nodes

    gone = admin.alter_user_scram_credentials(
        [
            lib.UserScramCredentialDeletion("carol", sha_256),
            lib.UserScramCredentialDeletion("dora", sha_512),
        ]
    )
    assert [future.result(20) for future in gone.values()] == [None, None]
    again = admin.alter_user_scram_credentials([lib.UserScramCredentialDeletion("carol", sha_256)])
    assert failure(lib, again["carol"]) == "RESOURCE_NOT_FOUND"


def test_credentials_that_cannot_be_fail_in_their_futures(lib: ModuleType, admin: Any) -> None:
    def upsertion(mechanism: Any, iterations: int) -> Any:
        info = lib.ScramCredentialInfo(mechanism, iterations)
        return lib.UserScramCredentialUpsertion("u", info, b"secret")

    few = admin.alter_user_scram_credentials([upsertion(lib.ScramMechanism.SCRAM_SHA_256, 10)])
    assert failure(lib, few["u"]) == "UNACCEPTABLE_CREDENTIAL"
    unknown = admin.alter_user_scram_credentials([upsertion(lib.ScramMechanism.UNKNOWN, 4096)])
    assert failure(lib, unknown["u"]) == "_INVALID_ARG"
    twice = admin.describe_user_scram_credentials(["u", "u"])
    assert failure(lib, twice["u"]) == "_INVALID_ARG"


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda lib, admin: admin.describe_user_scram_credentials(("u",)), TypeError, "list of String"),
        (lambda lib, admin: admin.describe_user_scram_credentials([""]), ValueError, "cannot be empty"),
        (lambda lib, admin: admin.alter_user_scram_credentials([]), ValueError, "at least one"),
        (lambda lib, admin: admin.alter_user_scram_credentials([upsertion(lib, "text")]), TypeError, "bytes"),
        (lambda lib, admin: admin.alter_user_scram_credentials([upsertion(lib, b"")]), ValueError, "empty"),
    ],
)
def test_what_is_no_credential_is_refused_at_once(
    lib: ModuleType, admin: Any, call: Callable[..., Any], error: type[Exception], match: str
) -> None:
    with pytest.raises(error, match=match):
        call(lib, admin)


def upsertion(lib: ModuleType, password: Any) -> Any:
    info = lib.ScramCredentialInfo(lib.ScramMechanism.SCRAM_SHA_256, 4096)
    return lib.UserScramCredentialUpsertion("u", info, password)
