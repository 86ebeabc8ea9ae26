"""AlterUserScramCredentials and DescribeUserScramCredentials, with Kafka's error codes."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterator
from typing import Any

import pytest

from internals.jar import Jar
from klamm.broker.security.stored_credentials import StoredCredentials
from klamm.protocol.api import ApiKey
from klamm.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from klamm.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)

SHA_256, SHA_512 = 1, 2
SALT = b"salt of 16 bytes"


@pytest.fixture
def jar() -> Iterator[Jar]:
    jar = Jar()
    yield jar
    jar.close()


def asked(jar: Jar, api_key: ApiKey, request: Any) -> Any:
    client = jar.connect()
    client.send(api_key, 0, request)
    jar.pass_ms(100)
    (answer,) = client.new_answers()
    return answer


def upsertion(
    name: str = "ann", mechanism: int = SHA_256, iterations: int = 4096, **more: bytes
) -> ScramCredentialUpsertion:
    password = salted("secret", mechanism, iterations)
    return ScramCredentialUpsertion(
        name, mechanism, iterations, more.get("salt", SALT), more.get("salted_password", password)
    )


def salted(password: str, mechanism: int, iterations: int) -> bytes:
    name = "sha512" if mechanism == SHA_512 else "sha256"
    return hashlib.pbkdf2_hmac(name, password.encode(), SALT, iterations)


def alter(
    jar: Jar, *upsertions: ScramCredentialUpsertion, deletions: tuple[tuple[str, int], ...] = ()
) -> dict[str, int]:
    request = AlterUserScramCredentialsRequest(
        [ScramCredentialDeletion(*each) for each in deletions], upsertions
    )
    answer = asked(jar, ApiKey.ALTER_USER_SCRAM_CREDENTIALS, request)
    assert len({each.user for each in answer.results}) == len(answer.results)
    return {each.user: each.error_code for each in answer.results}


def described(jar: Jar, *names: str) -> dict[str, tuple[int, list[tuple[int, int]]]]:
    users = [UserName(name) for name in names]
    answer = asked(jar, ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, DescribeUserScramCredentialsRequest(users))
    assert (answer.error_code, answer.error_message) == (0, "")
    return {
        each.user: (each.error_code, [(info.mechanism, info.iterations) for info in each.credential_infos])
        for each in answer.results
    }


def test_a_login_is_checked_against_keys_derived_from_the_salted_password(jar: Jar) -> None:
    assert alter(jar, upsertion()) == {"ann": 0}
    found = StoredCredentials(jar.services.image).find("ann", "SCRAM-SHA-256")
    assert found is not None
    client_key = hmac.digest(salted("secret", SHA_256, 4096), b"Client Key", "sha256")
    assert found.stored_key == hashlib.sha256(client_key).digest()
    assert found.server_key == hmac.digest(salted("secret", SHA_256, 4096), b"Server Key", "sha256")
    assert (found.salt, found.iterations) == (SALT, 4096)
    assert StoredCredentials(jar.services.image).find("ann", "SCRAM-SHA-512") is None


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        (upsertion(iterations=4095), 93),
        (upsertion(iterations=16385), 93),
        (upsertion(salt=b"short"), 93),
        (upsertion(salted_password=b""), 93),
        (upsertion(mechanism=SHA_512, salted_password=bytes(32)), 93),
    ],
)
def test_a_credential_that_is_not_acceptable_is_refused_and_others_are_set(
    jar: Jar, wrong: ScramCredentialUpsertion, code: int
) -> None:
    assert alter(jar, wrong, upsertion("ben", iterations=16384)) == {"ann": code, "ben": 0}
    assert described(jar) == {"ben": (0, [(SHA_256, 16384)])}


def test_names_and_mechanisms_are_checked(jar: Jar) -> None:
    unknown = ScramCredentialUpsertion("eve", 3, 4096, SALT, bytes(32))
    assert alter(jar, unknown, upsertion(""), deletions=(("joe", 0),)) == {"eve": 33, "": 93, "joe": 33}


def test_what_names_a_user_twice_does_nothing_for_this_user(jar: Jar) -> None:
    alter(jar, upsertion("ann"), upsertion("ben"))
    outcome = alter(
        jar,
        upsertion("new"),
        upsertion("new", SHA_512),
        upsertion("ann", iterations=5000),
        deletions=(("ann", SHA_256), ("ben", SHA_256), ("ben", SHA_256)),
    )
    assert outcome == {"new": 92, "ann": 92, "ben": 92}
    assert described(jar) == {"ann": (0, [(SHA_256, 4096)]), "ben": (0, [(SHA_256, 4096)])}


def test_deleting_what_is_absent_is_an_error_that_comes_first(jar: Jar) -> None:
    assert alter(jar, upsertion("ann"), deletions=(("ann", SHA_256),)) == {"ann": 91}
    assert alter(jar, upsertion("ben"), deletions=(("ann", SHA_512),)) == {"ann": 91, "ben": 0}


def test_one_mechanism_is_deleted_and_the_other_stays(jar: Jar) -> None:
    alter(jar, upsertion("ann"))
    alter(jar, upsertion("ann", SHA_512, 5000))
    assert described(jar, "ann") == {"ann": (0, [(SHA_256, 4096), (SHA_512, 5000)])}
    assert alter(jar, deletions=(("ann", SHA_256),)) == {"ann": 0}
    assert described(jar, "ann") == {"ann": (0, [(SHA_512, 5000)])}
    assert alter(jar, deletions=(("ann", SHA_512),)) == {"ann": 0}
    assert described(jar, "ann", "absent") == {"ann": (91, []), "absent": (91, [])}
    assert alter(jar) == {}


def test_a_user_is_described_once(jar: Jar) -> None:
    alter(jar, upsertion("ann"))
    assert described(jar, "ann", "ann") == {"ann": (92, [])}


@pytest.mark.parametrize("name", ["jörg", "a,b=c", "nul\x00", '"quoted"', "日本"])
def test_any_name_is_kept_as_it_is_and_found_again_after_a_restart(jar: Jar, name: str) -> None:
    assert alter(jar, upsertion(name)) == {name: 0}
    assert described(jar) == {name: (0, [(SHA_256, 4096)])}
    other = jar.join().all_configs()
    assert [*other] == [(1001, next(iter(other))[1])]


def test_nothing_of_a_credential_is_printed(jar: Jar) -> None:
    alter(jar, upsertion())
    found = StoredCredentials(jar.services.image).find("ann", "SCRAM-SHA-256")
    assert repr(found) == "ScramCredential(iterations=4096)"
