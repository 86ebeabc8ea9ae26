"""The settings: Java's names and librdkafka's, each checked when the client is made."""

from __future__ import annotations

import ssl
import sys
from pathlib import Path
from typing import Any

import pytest

from certificates import Authority, Certificate, encrypted
from klamm.client.config import ADMIN, ClientConfig
from klamm.config import ConfigError
from klamm.net.security.security import Security

SECRET = "marker-secret"
MODULE = "org.apache.kafka.common.security"
PLAIN_MODULE = f"{MODULE}.plain.PlainLoginModule required"


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="session")
def certificate(authority: Authority) -> Certificate:
    return authority.issue("alice")


def security(**settings: Any) -> Security:
    given = {"bootstrap.servers": "localhost:9092", **settings}
    return ClientConfig.parse(ADMIN, given, {}).network("test").security


def refused(**settings: Any) -> str:
    with pytest.raises(ConfigError) as error:
        security(**settings)
    assert SECRET not in str(error.value)
    return str(error.value)


def sasl(mechanism: str = "PLAIN", **settings: Any) -> dict[str, Any]:
    return {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism, **settings}


def test_without_settings_there_is_no_tls_and_no_login() -> None:
    found = security()
    assert (found.protocol, found.context, found.has_sasl) == ("PLAINTEXT", None, False)


@pytest.mark.parametrize("name", ["SSL", "ssl"])
def test_the_protocol_is_understood_in_any_case_and_checks_certificate_and_name(name: str) -> None:
    context = security(**{"security.protocol": name}).context
    assert context is not None
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2


@pytest.mark.parametrize("value", ["", "none"])
def test_the_check_of_the_name_can_be_left_out(value: str) -> None:
    context = security(**{"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": value}).context
    assert context is not None
    assert not context.check_hostname
    assert context.verify_mode is ssl.CERT_REQUIRED


def test_the_check_of_the_certificate_can_be_left_out() -> None:
    context = security(**{"security.protocol": "SSL", "enable.ssl.certificate.verification": False}).context
    assert context is not None
    assert context.verify_mode is ssl.CERT_NONE


def test_certificates_in_files_and_in_the_settings_are_the_same(
    authority: Authority, certificate: Certificate
) -> None:
    ca, chain, key = (
        path.read_text() for path in (authority.certificate, certificate.chain, certificate.key)
    )
    variants: list[dict[str, Any]] = [
        {
            "ssl.truststore.location": str(authority.certificate),
            "ssl.keystore.location": str(certificate.together()),
        },
        {
            "ssl.ca.location": str(authority.certificate),
            "ssl.certificate.location": str(certificate.chain),
            "ssl.key.location": str(certificate.key),
        },
        {
            "ssl.truststore.certificates": ca,
            "ssl.keystore.certificate.chain": chain,
            "ssl.keystore.key": key.replace("\n", "\\n"),
        },
        {"ssl.ca.pem": ca, "ssl.certificate.pem": chain, "ssl.key.pem": key},
    ]
    for each in variants:
        context = security(**{"security.protocol": "SSL", **each}).context
        assert context is not None
        assert [found["subject"] for found in context.get_ca_certs()] == [((("commonName", "test-ca"),),)]


def test_an_encrypted_key_needs_its_password(certificate: Certificate) -> None:
    settings = {
        "security.protocol": "SSL",
        "ssl.certificate.location": str(certificate.chain),
        "ssl.key.location": str(encrypted(certificate, SECRET)),
    }
    assert security(**settings, **{"ssl.key.password": SECRET}).context is not None
    assert "is encrypted: set ssl.key.password" in refused(**settings)
    assert "cannot be read" in refused(**settings, **{"ssl.key.password": "another"})


def test_a_certificate_without_its_key_is_refused(certificate: Certificate, authority: Authority) -> None:
    other = authority.issue("bob")
    chain = {"security.protocol": "SSL", "ssl.certificate.location": str(certificate.chain)}
    assert "has no private key" in refused(**chain)
    assert "does not belong to the certificate" in refused(**chain, **{"ssl.key.location": str(other.key)})
    assert "without a certificate" in refused(
        **{"security.protocol": "SSL", "ssl.key.location": str(other.key)}
    )


@pytest.mark.parametrize(
    ("content", "cause"),
    [
        (b"", "is empty"),
        (b"\xfe\xed\xfe\xed\0\0\0\2", "keytool -importkeystore"),
        (b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "no CA certificate"),
    ],
)
def test_a_truststore_that_cannot_be_read_says_what_it_is(tmp_path: Path, content: bytes, cause: str) -> None:
    (tmp_path / "store").write_bytes(content)
    message = refused(**{"security.protocol": "SSL", "ssl.ca.location": str(tmp_path / "store")})
    assert "ssl.ca.location" in message
    assert cause in message


def test_pkcs12_without_its_package_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "store.p12").write_bytes(b"\x30\x82")
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.serialization", None)
    message = refused(**{"security.protocol": "SSL", "ssl.truststore.location": str(tmp_path / "store.p12")})
    assert "klamm[tls]" in message


@pytest.mark.parametrize(
    "settings",
    [
        {"sasl.username": "alice", "sasl.password": SECRET},
        {"sasl.jaas.config": f'{PLAIN_MODULE} username="alice" password="{SECRET}";'},
        {"sasl.jaas.config": f"{PLAIN_MODULE} username=alice password='{SECRET}' ;"},
    ],
)
def test_user_and_password_come_from_settings_or_from_jaas(settings: dict[str, str]) -> None:
    found = security(**sasl(**settings))
    assert found.login is not None
    assert found.login().first() == f"\0alice\0{SECRET}".encode()
    assert SECRET not in repr(found)


def test_a_quoted_password_may_have_any_characters() -> None:
    text = f'{PLAIN_MODULE} username="a" password="x\\"y;z=\\\\";'
    found = security(**sasl(**{"sasl.jaas.config": text}))
    assert found.login is not None
    assert found.login().first() == b'\0a\0x"y;z=\\'


def test_each_scram_login_has_a_nonce_of_its_own() -> None:
    found = security(**sasl("SCRAM-SHA-512", **{"sasl.username": "a", "sasl.password": SECRET}))
    assert found.login is not None
    assert found.login().first() != found.login().first()


@pytest.mark.parametrize(
    ("settings", "cause"),
    [
        ({"sasl.username": "a"}, "set SASL_SSL, or remove sasl.username"),
        ({"ssl.ca.location": "x"}, "set SSL or SASL_SSL, or remove ssl.ca.location"),
        ({"security.protocol": "SASL_SSL"}, "sasl.mechanism is required"),
        (sasl("GSSAPI"), "expected .*one of PLAIN"),
        (sasl(), "sasl.username is required"),
        (sasl(**{"sasl.username": "a"}), "sasl.password is required"),
        (sasl(**{"sasl.mechanisms": "PLAIN"}), "both set"),
        (sasl(**{"sasl.jaas.config": f"{MODULE}.scram.ScramLoginModule required;"}), "PlainLoginModule"),
        (
            sasl(**{"sasl.jaas.config": f'{PLAIN_MODULE} password="{SECRET}'}),
            "quote",
        ),
        (
            sasl(**{"sasl.jaas.config": f'{PLAIN_MODULE} passwort="{SECRET}";'}),
            "unknown option passwort",
        ),
        (sasl(oauth_cb=print, **{"sasl.username": "a", "sasl.password": "b"}), "oauth_cb has no effect"),
        (sasl("OAUTHBEARER"), "needs a token"),
        (sasl("OAUTHBEARER", **{"sasl.login.callback.handler.class": "com.x.Handler"}), "oauth_cb instead"),
        (
            sasl(
                "OAUTHBEARER",
                **{
                    "sasl.oauthbearer.token.endpoint.url": "http://idp.example/token",
                    "sasl.oauthbearer.client.id": "me",
                    "sasl.oauthbearer.client.secret": SECRET,
                },
            ),
            "use https",
        ),
        ({"security.protocol": "SSL", "ssl.ca.location": "/no/such/file"}, "No such file"),
        ({"security.protocol": "SSL", "ssl.enabled.protocols": ""}, "ssl.enabled.protocols is empty"),
        ({"security.protocol": "SSL", "ssl.context": "x"}, "expected an ssl.SSLContext"),
    ],
)
def test_settings_that_do_not_fit_are_refused(settings: dict[str, Any], cause: str) -> None:
    with pytest.raises(ConfigError, match=cause) as error:
        security(**settings)
    assert SECRET not in str(error.value)


def test_a_context_of_the_program_is_used_as_it_is() -> None:
    own = ssl.create_default_context()
    assert security(**{"security.protocol": "SSL", "ssl.context": own}).context is own
