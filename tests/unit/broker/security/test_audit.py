"""The audit log: what was denied, and who changed access. What a deleted credential closes."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from internals.jar import Jar, JarClient
from internals.logins import log_in, sasl_jar
from klamm.broker.security.stored_credentials import StoredCredentials
from klamm.net.security.sasl import Scram
from klamm.protocol.api import ApiKey
from klamm.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from klamm.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from klamm.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from klamm.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from klamm.protocol.messages.describe_groups import DescribeGroupsRequest
from klamm.protocol.messages.list_groups import ListGroupsRequest
from klamm.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

ACLS = {"klamm.authorizer": "acl", "super.users": "User:admin"}
SALTED = bytes(range(32))


@pytest.fixture
def audit(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, logger="klamm.audit")
    return caplog


@pytest.fixture
def jar() -> Iterator[Jar]:
    jar = Jar(ACLS)
    yield jar
    jar.close()


@pytest.fixture
def open_jar() -> Iterator[Jar]:
    """A broker on which anybody may change access."""
    jar = Jar({**ACLS, "super.users": "User:ANONYMOUS"})
    yield jar
    jar.close()


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.message for record in caplog.records if record.name == "klamm.audit"]


def describe(jar: Jar, client: JarClient, name: str) -> None:
    client.send(ApiKey.METADATA, 12, MetadataRequest(topics=[MetadataRequestTopic(name=name)]))
    jar.pass_ms(10)


def changed(jar: Jar, api_key: ApiKey, version: int, request: Any) -> Any:
    client = jar.connect()
    client.send(api_key, version, request)
    jar.pass_ms(100)
    (answer,) = client.new_answers()
    return answer


def test_a_denial_is_told_once_a_minute_and_then_how_often(jar: Jar, audit: pytest.LogCaptureFixture) -> None:
    client, line = jar.connect(), "denied User:ANONYMOUS: DESCRIBE on TOPIC t"
    for _ in range(5):
        describe(jar, client, "t")
    assert told(audit) == [f"{line}, from 10.0.0.1, listener PLAINTEXT"]
    jar.pass_ms(60_000)
    describe(jar, client, "t")
    assert told(audit)[1:] == [
        f"{line}, 4 times more in a minute",
        f"{line}, from 10.0.0.1, listener PLAINTEXT",
    ]


def test_names_in_the_audit_log_cannot_make_lines_of_it(jar: Jar, audit: pytest.LogCaptureFixture) -> None:
    client = jar.connect()
    client.send(ApiKey.DESCRIBE_GROUPS, 5, DescribeGroupsRequest(["g\nlogin of User:admin\x1b[2J"]))
    (line,) = told(audit)
    assert line.startswith(r"denied User:ANONYMOUS: DESCRIBE on GROUP g\nlogin of User:admin\x1b[2J, from")


def test_what_a_client_did_not_name_is_left_out_and_not_told(
    jar: Jar, audit: pytest.LogCaptureFixture
) -> None:
    jar.create_topic("t")
    client = jar.connect()
    client.send(ApiKey.METADATA, 12, MetadataRequest(topics=None))
    client.send(ApiKey.LIST_GROUPS, 4, ListGroupsRequest())
    jar.pass_ms(10)
    assert told(audit) == []


def test_denials_that_are_counted_are_bounded(
    jar: Jar, audit: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("klamm.broker.security.audit._MOST_DENIALS", 10)
    client = jar.connect()
    for number in range(30):
        describe(jar, client, f"t-{number}")
    assert len(told(audit)) == 30
    assert len(jar.services.authorizer._denials._counts) == 10  # type: ignore[attr-defined]


def test_changes_of_access_are_told_with_who_made_them(
    open_jar: Jar, audit: pytest.LogCaptureFixture
) -> None:
    who = "User:ANONYMOUS from 10.0.0.1, listener PLAINTEXT"
    acl = "ALLOW User:bob from host *: READ on TOPIC LITERAL orders"
    good = AclCreation(2, "orders", 3, "User:bob", "*", 3, 3)
    changed(open_jar, ApiKey.CREATE_ACLS, 2, CreateAclsRequest([good, good.but(resource_name="")]))
    wanted = DeleteAclsFilter(2, "orders", 3, None, None, 1, 1)
    changed(open_jar, ApiKey.DELETE_ACLS, 2, DeleteAclsRequest([wanted, wanted]))
    upsertion = ScramCredentialUpsertion("ann", 1, 4096, b"salt of 16 bytes", SALTED)
    request = AlterUserScramCredentialsRequest([], [upsertion, upsertion.but(name="few", iterations=1)])
    changed(open_jar, ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, request)
    deletion = AlterUserScramCredentialsRequest([ScramCredentialDeletion("ann", 1)], [])
    changed(open_jar, ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, deletion)
    entry = EntryData([EntityData("user", "ann")], [OpData("producer_byte_rate", 12_345_678, remove=False)])
    changed(open_jar, ApiKey.ALTER_CLIENT_QUOTAS, 1, AlterClientQuotasRequest([entry], validate_only=True))
    changed(open_jar, ApiKey.ALTER_CLIENT_QUOTAS, 1, AlterClientQuotasRequest([entry], validate_only=False))
    assert told(audit) == [
        f"{who}: created ACL {acl}",
        f"{who}: deleted ACL {acl}",
        f"{who}: set the SCRAM-SHA-256 credential of User:ann",
        f"{who}: deleted the SCRAM-SHA-256 credential of User:ann",
        f'{who}: changed quotas of {{"user": "ann"}}: producer_byte_rate 12345678',
    ]


@pytest.mark.parametrize("closes", [True, False])
def test_a_deleted_credential_may_close_the_connections_of_its_user(closes: bool) -> None:
    listeners = "SASLP://127.0.0.1:0,PLAINTEXT://127.0.0.1:1"
    names = "SASLP:SASL_PLAINTEXT,PLAINTEXT:PLAINTEXT"
    settings = {"listeners": listeners, "listener.security.protocol.map": names}
    jar = sasl_jar({**settings, "klamm.scram.close.on.delete": str(closes).lower()})
    try:
        jar.services.scram = StoredCredentials(jar.services.image)

        def set_user(name: str) -> None:
            salted = hashlib.pbkdf2_hmac("sha256", b"pw", b"salt of 16 bytes", 4096)
            upsertion = ScramCredentialUpsertion(name, 1, 4096, b"salt of 16 bytes", salted)
            changed(
                jar, ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, AlterUserScramCredentialsRequest([], [upsertion])
            )

        for name in ("ann", "ben"):
            set_user(name)
        clients = {name: jar.connect(listener="SASLP") for name in ("ann", "ben")}
        for name, client in clients.items():
            assert log_in(jar, client, Scram("SCRAM-SHA-256", name, "pw", "nonce")).error_code == 0
        set_user("ann")  # another password: her session goes on
        assert not clients["ann"].is_closed
        deletion = AlterUserScramCredentialsRequest([ScramCredentialDeletion("ann", 1)], [])
        changed(jar, ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, deletion)
        assert clients["ann"].is_closed == closes
        assert not clients["ben"].is_closed
    finally:
        jar.close()
