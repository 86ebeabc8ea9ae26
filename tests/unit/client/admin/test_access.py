"""ACLs, users and quotas through the admin: what is set is there, and no error or repr has a password."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Iterator
from typing import Any

import pytest

import klamm
from klamm import Acl, AclFilter, PatternType, QuotaEntity, ResourceType, ScramMechanism

SECRET = "open-sésame-7"


@pytest.fixture(scope="module")
def admin() -> Iterator[klamm.Admin]:
    settings = {"klamm.authorizer": "acl", "super.users": "User:ANONYMOUS"}
    with (
        klamm.Broker(settings=settings) as broker,
        klamm.Admin(bootstrap_servers=broker.bootstrap) as connected,
    ):
        yield connected


def test_acls_are_made_described_and_deleted(admin: klamm.Admin) -> None:
    reads = Acl.of("User:alice", "read", "topic", "orders")
    prefixed = Acl.of("User:alice", "read", "group", "g", prefixed=True)
    denied = Acl.of("User:bob", "all", "cluster", deny=True, host="10.0.0.1")
    admin.create_acls([reads, prefixed, denied, reads])
    assert admin.describe_acls() == [reads, prefixed, denied]
    assert admin.describe_acls(denied) == [denied]
    assert admin.describe_acls(AclFilter(principal="User:alice")) == [reads, prefixed]
    covering = AclFilter(ResourceType.GROUP, name="good", matches_resource=True)
    assert admin.describe_acls(covering) == [prefixed]
    deleted = admin.delete_acls([reads, AclFilter(principal="User:bob"), AclFilter(principal="User:x")])
    assert list(deleted.values()) == [[reads], [denied], []]
    assert admin.delete_acls(AclFilter())[AclFilter()] == [prefixed]


def test_each_acl_has_its_own_result(admin: klamm.Admin) -> None:
    good, bad = Acl.of("User:a", "read", "topic", "t"), Acl.of("a", "read", "topic", "t")
    results = admin.create_acls([bad, good], raise_errors=False)
    assert list(results.successes) == [good]
    assert "no colon" in str(results.errors[bad]) or "parse principal" in str(results.errors[bad])
    admin.delete_acls(AclFilter())


def test_users_have_a_password_for_each_mechanism(admin: klamm.Admin) -> None:
    admin.set_passwords({"alice": SECRET, "carol": SECRET})
    admin.set_passwords({"alice": SECRET}, mechanism="scram-sha-256", iterations=8192)
    assert admin.describe_users() == {
        "alice": {ScramMechanism.SHA_256: 8192, ScramMechanism.SHA_512: 4096},
        "carol": {ScramMechanism.SHA_512: 4096},
    }
    outcome = admin.delete_users(["alice", "nosuch"], raise_errors=False)
    assert list(outcome.successes) == ["alice"]
    assert "does not exist" in str(outcome.errors["nosuch"])
    assert list(admin.delete_users("carol", mechanism="SCRAM-SHA-256", raise_errors=False).errors) == [
        "carol"
    ]
    assert list(admin.describe_users()) == ["carol"]
    admin.delete_users("carol")
    assert admin.describe_users() == {}
    assert admin.describe_users([]) == {}


def test_a_user_that_was_made_can_log_in_with_the_password_alone() -> None:
    settings = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512",
    }
    with (
        klamm.Broker(settings=settings) as broker,
        klamm.Admin(bootstrap_servers=broker.bootstrap.split(",")[0]) as admin,
    ):
        admin.set_passwords({"alice": SECRET})
        login = {
            "bootstrap.servers": broker.bootstrap.split(",")[1],
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": "alice",
        }
        with klamm.Admin({**login, "sasl.password": SECRET}) as alice:
            assert alice.list_topics() == []
        admin.set_passwords({"alice": "another"})
        with (
            klamm.Admin({**login, "sasl.password": SECRET}) as alice,
            pytest.raises(klamm.SaslAuthenticationError),
        ):
            alice.list_topics()


def test_quotas_are_set_described_and_removed(admin: klamm.Admin) -> None:
    alice, everyone = QuotaEntity(user="alice"), QuotaEntity(user="")
    one_client = QuotaEntity(user="alice", client_id="etl")
    admin.alter_quotas(
        {
            alice: {"producer_byte_rate": 1_000},
            everyone: {"controller_mutation_rate": 0.5},
            one_client: {"consumer_byte_rate": 5, "producer_byte_rate": 6},
        }
    )
    found = admin.describe_quotas()
    assert found == {
        alice: {"producer_byte_rate": 1_000},
        everyone: {"controller_mutation_rate": 0.5},
        one_client: {"consumer_byte_rate": 5, "producer_byte_rate": 6},
    }
    assert set(admin.describe_quotas(alice)) == {alice, one_client}
    assert set(admin.describe_quotas(alice, strict=True)) == {alice}
    assert set(admin.describe_quotas(everyone)) == {everyone}
    admin.alter_quotas({one_client: {"consumer_byte_rate": None}}, validate_only=True)
    assert admin.describe_quotas() == found
    admin.alter_quotas({entity: dict.fromkeys(rates) for entity, rates in found.items()})
    assert admin.describe_quotas() == {}


def test_each_entity_has_its_own_result(admin: klamm.Admin) -> None:
    results = admin.alter_quotas(
        {
            QuotaEntity(user="a"): {"producer_byte_rate": 7},
            QuotaEntity(client_id="b"): {"nosuch": 7},
            QuotaEntity(): {"producer_byte_rate": 7},
        },
        raise_errors=False,
    )
    assert list(results.successes) == [QuotaEntity(user="a")]
    assert "client-id b" in str(results.errors[QuotaEntity(client_id="b")])
    admin.alter_quotas({QuotaEntity(user="a"): {"producer_byte_rate": None}})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda admin: admin.create_acls("User:alice"), "expected a list of klamm.Acl"),
        (lambda admin: admin.create_acls([None]), "expected klamm.Acl.of"),
        (lambda admin: admin.delete_acls(None), "selects all ACLs"),
        (lambda admin: admin.delete_acls([None]), "selects all ACLs"),
        (lambda admin: admin.describe_acls("orders"), "expected klamm.AclFilter"),
        (lambda admin: admin.set_passwords(["alice"]), "expected a mapping"),
        (lambda admin: admin.set_passwords({"alice": b"x"}), "expected a str"),
        (lambda admin: admin.set_passwords({"alice": ""}), "is empty"),
        (
            lambda admin: admin.set_passwords({"alice": "x"}, mechanism="PLAIN"),
            "SCRAM-SHA-256, SCRAM-SHA-512",
        ),
        (lambda admin: admin.set_passwords({"alice": "x"}, iterations=4095), "4096 to 16384"),
        (lambda admin: admin.alter_quotas({"alice": {}}), "expected klamm.QuotaEntity"),
        (lambda admin: admin.alter_quotas({QuotaEntity(user="a"): 5}), "expected a mapping"),
        (lambda admin: admin.alter_quotas({QuotaEntity(user="a"): {"x": float("nan")}}), "finite"),
    ],
)
def test_a_bad_argument_is_named_with_what_was_expected(admin: klamm.Admin, call: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        call(admin)


@pytest.mark.parametrize("word", ["topik", "any", ""])
def test_an_unknown_word_lists_those_that_are_known(word: str) -> None:
    with pytest.raises(ValueError, match=r"invalid resource type .*topic, group, cluster"):
        Acl.of("User:a", "read", word, "t")


@pytest.mark.parametrize("password", [SECRET + "\ud800", f"{SECRET}\0"])
def test_no_error_shows_a_password(admin: klamm.Admin, password: str) -> None:
    with pytest.raises(Exception) as failed:  # noqa: PT011 - whatever it is, it must not show it
        admin.set_passwords({"": password, "alice": f"{password}\ud800"})
    shown = "".join(traceback.format_exception(failed.value)) + repr(failed.value)
    assert SECRET not in shown


def test_the_admin_for_asyncio_has_them_too(admin: klamm.Admin) -> None:
    async def through() -> list[Acl]:
        bootstrap = f"{admin.describe_cluster().brokers[0].host}:{admin.describe_cluster().brokers[0].port}"
        async with klamm.aio.Admin(bootstrap_servers=bootstrap) as other:
            await other.create_acls(Acl.of("User:a", "all", "transactional-id", "t"))
            found = await other.describe_acls()
            await other.delete_acls(found)
            return found

    (found,) = asyncio.run(through())
    assert found.pattern.resource_type is ResourceType.TRANSACTIONAL_ID
    assert found.pattern.pattern_type is PatternType.LITERAL
