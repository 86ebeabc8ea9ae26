"""`klamm acls`, `klamm users` and `klamm quotas`: what they change is there, and dry runs change nothing."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import klamm
from klamm.cli.app import app
from klamm.cli.quotas import levels

SECRET = "geheim, =ü"


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    settings = {"klamm.authorizer": "acl", "super.users": "User:ANONYMOUS"}
    with klamm.Broker(settings=settings) as broker:
        yield broker.bootstrap


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, bootstrap: str) -> Iterator[None]:
    monkeypatch.setitem(os.environ, "KLAMM_BOOTSTRAP", bootstrap)
    yield
    with klamm.Admin(bootstrap_servers=bootstrap) as admin:
        admin.delete_acls(klamm.AclFilter())
        admin.delete_users(admin.describe_users())
        admin.alter_quotas({who: dict.fromkeys(rates) for who, rates in admin.describe_quotas().items()})


def run(*arguments: str, given: str | None = None) -> Result:
    return CliRunner().invoke(app, list(arguments), input=given)


def says(*arguments: str, given: str | None = None, code: int = 0) -> str:
    done = run(*arguments, given=given)
    assert done.exit_code == code, (done.output, done.exception)
    return done.output


def facts(*arguments: str, given: str | None = None, code: int = 0) -> Any:
    done = run(*arguments, "--json", given=given)
    assert done.exit_code == code, (done.output, done.exception)
    return json.loads(done.stdout)


def names(rows: Any) -> list[tuple[str, str, str]]:
    return [(row["operation"], row["resource"], row["name"]) for row in rows]


def test_a_role_is_the_operations_that_a_program_needs() -> None:
    consume = ("acls", "add", "alice", "--can", "consume", "--topic", "orders", "--group", "billing")
    assert "would be added: allow User:alice to read topic orders" in says(*consume, "--dry-run")
    assert facts("acls", "list") == []
    assert names(facts(*consume)["added"]) == [("read", "topic", "orders"), ("read", "group", "billing")]
    assert facts(*consume)["added"] == []
    assert "exists already: allow User:alice to read group billing" in says(*consume)
    produce = ("acls", "add", "etl", "--can", "produce", "--topic", "out-", "--transactional-id", "etl-")
    assert names(facts(*produce, "--prefixed")["added"]) == [
        ("write", "topic", "out-"),
        ("write", "transactional-id", "etl-"),
    ]


def test_a_list_of_a_resource_has_prefixes_and_wildcards_unless_exact() -> None:
    says("acls", "add", "a", "--can", "read", "--topic", "ord", "--prefixed")
    says("acls", "add", "b", "--can", "write", "--topic", "*", "--deny")
    says("acls", "add", "c", "--can", "all", "--topic", "orders", "--host", "10.0.0.7")
    says("acls", "add", "c", "--can", "all", "--topic", "payments")
    assert {row["principal"] for row in facts("acls", "list", "--topic", "orders")} == {
        "User:a",
        "User:b",
        "User:c",
    }
    assert [row["host"] for row in facts("acls", "list", "--topic", "orders", "--exact")] == ["10.0.0.7"]
    assert [row["name"] for row in facts("acls", "list", "User:c")] == ["orders", "payments"]
    table = says("acls", "list", "b").splitlines()
    assert table[0].split() == ["PERMISSION", "PRINCIPAL", "HOST", "OPERATION", "RESOURCE", "PATTERN", "NAME"]
    assert table[1].split() == ["deny", "User:b", "*", "write", "topic", "literal", "*"]


def test_what_is_removed_is_shown_and_names_are_exact() -> None:
    says("acls", "add", "alice", "--can", "read,write", "--topic", "orders")
    says("acls", "add", "alice", "--can", "read", "--topic", "ord", "--prefixed", "--deny")
    assert "no ACL matches" in says("acls", "remove", "alice", "--topic", "ord", code=1)
    assert names(facts("acls", "remove", "alice", "--can", "write", "--topic", "orders")["removed"]) == [
        ("write", "topic", "orders")
    ]
    assert len(facts("acls", "remove", "alice", "--dry-run")["removed"]) == 2
    assert [row["permission"] for row in facts("acls", "remove", "alice", "--only", "deny")["removed"]] == [
        "deny"
    ]
    assert "removed: allow User:alice to read topic orders" in says("acls", "remove", "--topic", "orders")
    assert facts("acls", "list") == []


def test_a_check_names_the_rule_that_decides() -> None:
    says("acls", "add", "alice", "--can", "consume", "--topic", "ord", "--group", "b", "--prefixed")
    says("acls", "add", "User:*", "--can", "read", "--topic", "orders-secret", "--deny")
    wanted = ("acls", "check", "alice", "--can", "consume", "--group", "billing", "--topic")
    assert "by the ACL: allow User:alice to read topics that begin with ord" in says(*wanted, "orders")
    denied = facts(*wanted, "orders-secret", code=3)["checks"]
    assert [row["allowed"] for row in denied] == [False, True]
    assert denied[0]["rule"]["principal"] == "User:*"
    (described,) = facts("acls", "check", "alice", "--can", "describe", "--topic", "orders")["checks"]
    assert described["rule"]["operation"] == "read"
    (other,) = facts("acls", "check", "bob", "--can", "write", "--topic", "orders", code=3)["checks"]
    assert (other["allowed"], other["rule"]) == (False, None)


def test_a_check_says_what_it_left_out() -> None:
    says("acls", "add", "bob", "--can", "read", "--topic", "t", "--host", "10.0.0.7")
    check = ("acls", "check", "bob", "--can", "read", "--topic", "t")
    assert "1 ACL(s) for single addresses were left out" in says(*check, code=3)
    assert facts(*check, "--host", "10.0.0.7")["checks"][0]["allowed"]
    assert "does not show its super users" in says(*check, code=3)


def test_a_check_of_a_cluster_without_an_authorizer_says_that_all_is_allowed() -> None:
    with klamm.Broker() as broker:
        check = ("-b", broker.bootstrap, "acls", "check", "bob", "--can", "read", "--topic", "t")
        assert "no authorizer" in says(*check)
        assert facts(*check)["has_authorizer"] is False


def test_a_check_and_the_broker_are_of_one_mind() -> None:
    """Whoever the check denies, the broker denies; whoever it allows, it serves."""
    settings = {"klamm.authorizer": "acl", "super.users": "User:ANONYMOUS", **_with_users("alice", "bob")}
    with klamm.Broker(settings=settings) as broker:
        plain, sasl = broker.bootstrap.split(",")
        with klamm.Admin(bootstrap_servers=plain) as admin:
            admin.create_topics(["orders", "payments"])
        says("-b", plain, "acls", "add", "alice", "--can", "describe", "--topic", "o", "--prefixed")
        says("-b", plain, "acls", "add", "User:*", "--can", "read", "--topic", "payments")
        for user in ("alice", "bob"):
            with klamm.Admin({"bootstrap.servers": sasl, **_login(user)}) as client:
                visible = set(client.list_topics())
            for topic in ("orders", "payments"):
                done = run(
                    "-b", plain, "acls", "check", user, "--can", "describe", "--topic", topic,
                    "--host", "127.0.0.1",
                )  # fmt: skip
                assert (done.exit_code == 0) == (topic in visible), (user, topic, done.output)


def _with_users(*users: str) -> dict[str, str]:
    rows = " ".join(f'user_{user}="{SECRET}"' for user in users)
    return {
        "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
            f"org.apache.kafka.common.security.plain.PlainLoginModule required {rows};"
        ),
    }


def _login(user: str, mechanism: str = "PLAIN") -> dict[str, str]:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": SECRET,
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("add", "alice", "--topic", "t"), "no operation given"),
        (("add", "alice", "--can", "read"), "no resource given"),
        (("add", "alice", "--can", "reed", "--topic", "t"), "expected one of all, read"),
        (("add", "alice", "--can", "read", "--cluster"), "no operation on a cluster"),
        (("add", "alice", "--can", "consume", "--transactional-id", "x"), "is about --topic and --group"),
        (("add", "alice", "--can", "alter", "--cluster", "--prefixed"), "the cluster has one name"),
        (("add", "", "--can", "read", "--topic", "t"), "the principal is empty"),
        (("add", "alice", "--can", "read", "--topic", ""), "a name is empty"),
        (("remove",), "name a principal or a resource"),
        (("remove", "alice", "--prefixed"), "is about names"),
        (("remove", "alice", "--only", "both"), "expected one of deny, allow"),
    ],
)
def test_a_command_about_acls_that_makes_no_sense_is_refused(
    arguments: tuple[str, ...], message: str
) -> None:
    assert message in says("acls", *arguments, code=2)


def test_a_user_is_made_with_a_password_from_standard_input_or_a_file(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text(f"{SECRET}\n")
    set_it = ("users", "set", "alice", "--password-file")
    assert "would have a password" in says(*set_it, "-", "--dry-run", given=SECRET)
    assert facts("users", "list") == []
    assert says(*set_it, "-", given=f"{SECRET}\n") == "alice has a password for SCRAM-SHA-512\n"
    both = ("--mechanism", "scram-sha-256", "--mechanism", "SCRAM-SHA-512", "--iterations", "8192")
    made = facts(*set_it, str(file), *both)
    assert [(row["mechanism"], row["is_new"]) for row in made] == [
        ("SCRAM-SHA-256", True),
        ("SCRAM-SHA-512", False),
    ]
    assert facts("users", "list", "alice") == [
        {"user": "alice", "mechanism": "SCRAM-SHA-256", "iterations": 8192},
        {"user": "alice", "mechanism": "SCRAM-SHA-512", "iterations": 8192},
    ]


def test_a_user_that_was_made_can_log_in() -> None:
    settings = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
    }
    with klamm.Broker(settings=settings) as broker:
        plain, sasl = broker.bootstrap.split(",")
        says("-b", plain, "users", "set", "alice", "--password-file", "-", given=SECRET)
        with klamm.Admin({"bootstrap.servers": sasl, **_login("alice", "SCRAM-SHA-512")}) as client:
            assert client.list_topics() == []


def test_no_password_is_taken_from_the_command_line_or_shown(tmp_path: Path) -> None:
    assert run("users", "set", "alice", "--password", SECRET).exit_code == 2
    assert "no terminal to ask" in says("users", "set", "alice", code=2)
    file = tmp_path / "several"
    file.write_text(f"{SECRET}\n{SECRET}\n")
    for source, given in ((str(file), None), ("-", ""), (str(tmp_path / "absent"), None)):
        output = says("users", "set", "alice", "--password-file", source, code=2, given=given)
        assert SECRET not in output


def test_users_are_deleted_with_all_their_passwords_or_one() -> None:
    both = ("--mechanism", "SCRAM-SHA-256", "--mechanism", "SCRAM-SHA-512")
    for name in ("alice", "bob"):
        says("users", "set", name, "--password-file", "-", *both, given=SECRET)
    says("users", "set", "carol", "--password-file", "-", given=SECRET)
    assert len(facts("users", "delete", "alice", "bob", "--dry-run")) == 4
    assert len(facts("users", "list")) == 5
    says("users", "delete", "alice")
    only = ("--mechanism", "SCRAM-SHA-256")
    assert "carol has no password for SCRAM-SHA-256" in says("users", "delete", "bob", "carol", *only, code=1)
    assert [(row["user"], row["mechanism"]) for row in facts("users", "list")] == [
        ("bob", "SCRAM-SHA-512"),
        ("carol", "SCRAM-SHA-512"),
    ]
    assert "does not exist" in says("users", "delete", "nosuch", code=1)
    assert says("users", "delete", "nosuch", "--if-exists") == ""


def test_quotas_are_set_with_units_and_removed() -> None:
    rates = ("producer_byte_rate=10MB", "consumer_byte_rate=1.5KiB")
    assert "would be 10000000 bytes/s" in says("quotas", "set", "--user", "alice", *rates, "--dry-run")
    assert facts("quotas", "list") == []
    assert "consumer_byte_rate is 1536 bytes/s" in says("quotas", "set", "--user", "alice", *rates)
    says("quotas", "set", "--user", "", "controller_mutation_rate=2.5")
    assert [(row["user"], row["quota"], row["value"]) for row in facts("quotas", "list")] == [
        ("", "controller_mutation_rate", 2.5),
        ("alice", "consumer_byte_rate", 1536),
        ("alice", "producer_byte_rate", 10_000_000),
    ]
    assert "(default)" in says("quotas", "list", "--user", "")
    says("quotas", "remove", "consumer_byte_rate", "--user", "alice", "--dry-run")
    assert len(facts("quotas", "list", "--user", "alice")) == 2
    says("quotas", "remove", "consumer_byte_rate", "--user", "alice")
    assert "has no quota consumer_byte_rate" in says(
        "quotas", "remove", "consumer_byte_rate", "--user", "alice", code=1
    )
    says("quotas", "remove", "--user", "alice")
    assert "user alice, client-id x has no quota" in says(
        "quotas", "remove", "--user", "alice", "--client-id", "x", code=1
    )


def test_a_check_of_quotas_takes_the_most_specific_of_eight_levels() -> None:
    with klamm.Admin(bootstrap_servers=os.environ["KLAMM_BOOTSTRAP"]) as admin:
        for number, entity in enumerate(reversed(levels("alice", "etl")), start=1):
            admin.alter_quotas({entity: {"producer_byte_rate": number}})
            (held,) = facts("quotas", "check", "--user", "alice", "--client-id", "etl")
            assert (held["user"], held["client_id"], held["value"]) == (
                entity.user,
                entity.client_id,
                number,
            )
    assert "user alice, client-id etl" in says("quotas", "check", "--user", "alice", "--client-id", "etl")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("set", "producer_byte_rate=1"), "name a --user"),
        (("set", "--user", "a", "producer_byte_rate"), "name=value"),
        (("set", "--user", "a", "producer_byte_rate=10XB"), "as in 10MB"),
        (("set", "--user", "a", "request_percentage=10k"), "expected a number"),
        (("set", "--user", "User:a", "producer_byte_rate=1"), "without User:"),
        (("set", "--user", "a", "--ip", "127.0.0.1", "connection_creation_rate=1"), "cannot be combined"),
        (("check", "--user", "a"), "name a client"),
    ],
)
def test_a_command_about_quotas_that_makes_no_sense_is_refused(
    arguments: tuple[str, ...], message: str
) -> None:
    assert message in says("quotas", *arguments, code=2)


def test_what_a_user_may_not_see_is_not_said_to_be_well_or_absent() -> None:
    with klamm.Broker(settings={"klamm.authorizer": "acl", "super.users": "User:admin"}) as broker:

        def said(*arguments: str) -> tuple[int, str]:
            done = run(*arguments, "--bootstrap", broker.bootstrap)
            return done.exit_code, done.output

        for command, problem in (("log-dirs", 1), ("health", 3)):
            code, shown = said("cluster", command)
            assert (code, "CLUSTER_AUTHORIZATION_FAILED" in shown) == (problem, True)
        assert "all 0 partitions that this user may describe have a leader" in shown
        code, shown = said("health")
        assert (code, "how full its disks are is not known" in shown) == (0, True)
        assert said("txns", "list") == (0, "No transactional ids that this user may see.\n")
        code, shown = said("groups", "explain", "g")
        assert (code, "or this user may not read it" in shown) == (1, True)


def test_the_lag_of_a_group_that_reads_what_a_user_may_not_see_is_not_known() -> None:
    settings = {
        "klamm.authorizer": "acl",
        "super.users": "User:admin",
        "allow.everyone.if.no.acl.found": "true",
    }
    with (
        klamm.Broker(settings=settings) as broker,
        klamm.Admin(bootstrap_servers=broker.bootstrap) as admin,
        klamm.Consumer(bootstrap_servers=broker.bootstrap, group_id="g") as consumer,
    ):
        admin.create_topics(["open", "secret"])
        consumer.subscribe(["open", "secret"])
        while len(consumer.assignment()) < 2:
            consumer.poll(0.1)
        admin.create_acls([klamm.Acl.of("User:ANONYMOUS", "all", "topic", "secret", deny=True)])
        described = run("groups", "describe", "g", "--bootstrap", broker.bootstrap)
        assert (described.exit_code, "TOPIC_AUTHORIZATION_FAILED" in described.output) == (1, True)
        assert "lag unknown: not all that it reads is known" in described.output
        diagnosed = run("groups", "diagnose", "g", "--bootstrap", broker.bootstrap)
        assert (diagnosed.exit_code, "LAG NOT KNOWN" in diagnosed.output) == (3, True)
