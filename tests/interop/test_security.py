"""klamm's clients on a secured Apache Kafka, and on a klamm like it."""

from __future__ import annotations

import asyncio
import logging
import ssl
import threading
import time
from collections.abc import Iterator
from typing import Any, TypeAlias

import pytest

import klamm
from certificates import encrypted, pkcs12
from interop.secured_kafka import SECRET, SESSION_MS, USER, SecuredKafka, unsecured_token
from interop.secured_klamm import SecuredKlamm
from klamm import SaslAuthenticationError, SslAuthenticationError, TopicPartition
from klamm.compat.aiokafka import AIOKafkaProducer
from klamm.compat.confluent_kafka import Producer as ConfluentProducer
from klamm.compat.kafka import KafkaProducer

AT_ONCE_S = 5.0  # far below every time-out of a client
PASSWORD_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


Secured: TypeAlias = SecuredKafka | SecuredKlamm


@pytest.fixture(scope="module", params=[SecuredKafka, SecuredKlamm], ids=["kafka", "klamm"])
def kafka(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with request.param(tmp_path_factory.mktemp("secured")) as broker:
        yield broker


def password(mechanism: str, secret: str = SECRET) -> dict[str, Any]:
    return {"sasl.mechanism": mechanism, "sasl.username": USER, "sasl.password": secret}


def bearer(expires_in_s: float = 60) -> dict[str, Any]:
    return {
        "sasl.mechanism": "OAUTHBEARER",
        "oauth_cb": lambda _: (unsecured_token(expires_in_s), time.time() + 60),
    }


def there_and_back(settings: dict[str, Any], topic: str) -> list[bytes | None]:
    """What a consumer of a group reads after a transaction of a producer."""
    with klamm.Producer(settings, transactional_id=f"tx-{topic}") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"hello")
        producer.commit_transaction()
    with klamm.Consumer(
        settings, group_id=f"g-{topic}", auto_offset_reset="earliest", isolation_level="read_committed"
    ) as consumer:
        consumer.subscribe([topic])
        due_at = time.monotonic() + 30
        while time.monotonic() < due_at:
            if records := list(consumer.poll(1)):
                consumer.commit()
                return [record.value for record in records]
    return []


def fails_at_once(settings: dict[str, Any], error: type[Exception], cause: str) -> None:
    """Every client raises the error long before its time-outs, and without the secret."""

    def admin() -> None:
        with klamm.Admin(settings) as client:
            client.list_topics()

    def producer() -> None:
        with klamm.Producer(settings) as client:
            client.send("t", b"x")

    def consumer() -> None:
        with klamm.Consumer(settings, group_id="g") as client:
            client.subscribe(["t"])
            client.poll(30)

    def flushing() -> None:
        with klamm.Producer(settings) as client:
            waiting = client.send("t", b"x")
            client.flush(30)
            waiting.result(0)

    def transactions() -> None:
        with klamm.Producer(settings, transactional_id="x") as client:
            client.init_transactions()

    async def asynchronous() -> None:
        async with klamm.aio.Producer(settings) as client:
            await client.send("t", b"x")

    async def reading() -> None:
        async with klamm.aio.Consumer(settings, group_id="g") as client:
            await client.subscribe(["t"])
            await client.poll(30)

    runs = (
        admin,
        producer,
        consumer,
        flushing,
        transactions,
        lambda: asyncio.run(asynchronous()),
        lambda: asyncio.run(reading()),
    )
    for run in runs:
        began_at = time.monotonic()
        with pytest.raises(error, match=cause) as raised:
            run()
        assert time.monotonic() - began_at < AT_ONCE_S, run.__name__
        assert SECRET not in str(raised.value)


@pytest.mark.parametrize("mechanism", PASSWORD_MECHANISMS)
@pytest.mark.parametrize("listener", ["SASLP", "SASLS"])
def test_every_client_works_with_a_password(
    kafka: Secured, listener: str, mechanism: str, topic: str
) -> None:
    assert there_and_back(kafka.client(listener, **password(mechanism)), topic) == [b"hello"]


def test_every_client_works_with_a_token(kafka: Secured, topic: str) -> None:
    assert there_and_back(kafka.client("SASLS", **bearer()), topic) == [b"hello"]


def test_every_client_works_over_tls(kafka: Secured, topic: str) -> None:
    assert there_and_back(kafka.client("SSL"), topic) == [b"hello"]


def test_large_records_arrive_over_tls(kafka: Secured, topic: str) -> None:
    values = [bytes([number]) * 900_000 for number in range(8)]
    settings = kafka.client("SSL")
    with klamm.Producer(settings) as producer:
        for value in values:
            producer.send(topic, value, partition=0)
    with klamm.Consumer(settings) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        consumer.seek(TopicPartition(topic, 0), 0)
        found: list[bytes | None] = []
        due_at = time.monotonic() + 30
        while len(found) < len(values) and time.monotonic() < due_at:
            found += [record.value for record in consumer.poll(1)]
    assert found == values


def test_java_properties_work_as_they_are(kafka: Secured, topic: str) -> None:
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    settings = {
        "bootstrap.servers": f"127.0.0.1:{kafka.ports['SASLS']}",
        "security.protocol": "SASL_SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(kafka.authority.certificate),
        "ssl.endpoint.identification.algorithm": "https",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": f'{module} required username="{USER}" password="{SECRET}";',
    }
    assert there_and_back(settings, topic) == [b"hello"]


@pytest.mark.parametrize("kind", ["one file", "two files", "encrypted", "inline", "PKCS12"])
def test_a_client_certificate_opens_the_door(kafka: Secured, topic: str, kind: str) -> None:
    certificate = kafka.authority.issue(USER)
    chain, key = certificate.chain, certificate.key
    settings: dict[str, str] = {
        "one file": {"ssl.keystore.location": str(certificate.together())},
        "two files": {"ssl.certificate.location": str(chain), "ssl.key.location": str(key)},
        "encrypted": {
            "ssl.certificate.location": str(chain),
            "ssl.key.location": str(encrypted(certificate, "pw")),
            "ssl.key.password": "pw",
        },
        "inline": {"ssl.keystore.certificate.chain": chain.read_text(), "ssl.keystore.key": key.read_text()},
        "PKCS12": {
            "ssl.keystore.location": str(pkcs12(certificate, kafka.authority, "pw")),
            "ssl.keystore.password": "pw",
        },
    }[kind]
    assert there_and_back(kafka.client("MTLS", **settings), topic) == [b"hello"]


@pytest.mark.parametrize("mechanism", PASSWORD_MECHANISMS)
def test_a_wrong_password_is_an_error_at_once(kafka: Secured, mechanism: str) -> None:
    wrong = password(mechanism, "wrong")
    cause = f"{mechanism}: user {USER}: .*check the"
    fails_at_once(kafka.client("SASLS", **wrong), SaslAuthenticationError, cause)


def test_an_expired_token_is_an_error_at_once(kafka: Secured) -> None:
    fails_at_once(kafka.client("SASLS", **bearer(-60)), SaslAuthenticationError, "has not expired")


def test_a_mechanism_that_is_not_offered_is_an_error_at_once(kafka: Secured) -> None:
    settings = kafka.client("SASLP", **password("PLAIN"))
    settings["bootstrap.servers"] = kafka.kafka.bootstrap
    fails_at_once(settings, SaslAuthenticationError, "the listener has no SASL")


def test_an_untrusted_broker_is_an_error_at_once(kafka: Secured) -> None:
    settings = kafka.client("SSL", **{"ssl.ca.location": str(kafka.other_authority.certificate)})
    fails_at_once(settings, SslAuthenticationError, "add the certificate of its CA")
    del settings["ssl.ca.location"]  # the system's
    fails_at_once(settings, SslAuthenticationError, "add the certificate of its CA")


def test_a_client_certificate_that_is_missing_untrusted_or_expired_is_an_error_at_once(
    kafka: Secured,
) -> None:
    expired = kafka.authority.issue(USER, has_expired=True)
    foreign = kafka.other_authority.issue(USER)
    fails_at_once(kafka.client("MTLS"), SslAuthenticationError, "requires (one|a client certificate)")
    for each in (expired, foreign):
        settings = kafka.client("MTLS", **{"ssl.keystore.location": str(each.together())})
        fails_at_once(settings, SslAuthenticationError, "refused the client certificate")


def test_plain_text_to_a_tls_port_is_an_error_at_once(kafka: Secured) -> None:
    settings = {"bootstrap.servers": f"127.0.0.1:{kafka.ports['SSL']}"}
    fails_at_once(settings, SslAuthenticationError, "this is a TLS listener")


def test_tls_to_a_plain_port_is_an_error_at_once(kafka: Secured) -> None:
    settings = kafka.client("SSL", **{"bootstrap.servers": kafka.kafka.bootstrap})
    fails_at_once(settings, SslAuthenticationError, "the listener has no TLS: set security.protocol")


@pytest.mark.parametrize("listener", ["SASLP", "SASLS"])
def test_no_login_where_one_is_required_is_an_error_at_once(kafka: Secured, listener: str) -> None:
    settings = kafka.client(listener)
    settings["security.protocol"] = {"SASLP": "PLAINTEXT", "SASLS": "SSL"}[listener]
    fails_at_once(settings, SaslAuthenticationError, "requires a login: .* it offers: OAUTHBEARER, PLAIN")


def test_a_login_where_there_is_none_is_an_error_at_once(kafka: Secured) -> None:
    fails_at_once(
        kafka.client("SSL", **{"security.protocol": "SASL_SSL"}, **password("PLAIN")),
        SaslAuthenticationError,
        "the listener has no SASL: set security.protocol",
    )


@pytest.mark.parametrize("cause", ["its password is wrong", "its port has no TLS"])
def test_the_classes_of_other_libraries_fail_at_once_too(kafka: Secured, cause: str) -> None:
    is_password = cause == "its password is wrong"
    address = f"127.0.0.1:{kafka.ports['SASLS']}" if is_password else kafka.kafka.bootstrap
    expected = "SCRAM-SHA-256: user alice" if is_password else "the listener has no TLS"
    ca = str(kafka.authority.certificate)
    login = {"sasl_mechanism": "SCRAM-SHA-256", "sasl_plain_username": USER, "sasl_plain_password": "no"}
    theirs: dict[str, Any] = {"bootstrap_servers": address, "security_protocol": "SASL_SSL", **login}
    confluent = {
        "bootstrap.servers": address,
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": ca,
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": USER,
        "sasl.password": "no",
    }

    def kafka_python() -> None:
        with KafkaProducer(**theirs, ssl_cafile=ca) as client:
            client.send("t", b"x").get(30)

    async def aiokafka() -> None:
        context = ssl.create_default_context(cafile=ca)
        async with AIOKafkaProducer(**theirs, ssl_context=context) as client:
            await client.send_and_wait("t", b"x")

    def transactions() -> None:
        ConfluentProducer({**confluent, "transactional.id": "x"}).init_transactions(30)

    def delivery() -> None:
        client, errors = ConfluentProducer(confluent), []
        client.produce("t", b"x", on_delivery=lambda error, _: errors.append(str(error)))
        assert client.flush(30) == 0
        raise RuntimeError(errors[0])

    for run in (kafka_python, lambda: asyncio.run(aiokafka()), transactions, delivery):
        began_at = time.monotonic()
        with pytest.raises(Exception, match=expected):
            run()
        assert time.monotonic() - began_at < AT_ONCE_S


def test_a_session_is_renewed_on_the_same_connection(
    kafka: Secured, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with klamm.Producer(kafka.client("SHORT", **password("SCRAM-SHA-256"))) as producer:
        due_at = time.monotonic() + 2.5 * SESSION_MS / 1000
        sent = 0
        while time.monotonic() < due_at:
            producer.send(topic, b"x", partition=0).result(10)
            sent += 1
        # Kafka closes a connection at the first request after its session: then this would count a loss.
        assert producer.metrics()["batches_repeated"] == 0
    assert sent > 10
    assert SECRET not in caplog.text


def test_the_clients_of_other_libraries_take_their_own_names(kafka: Secured, topic: str) -> None:
    address, ca = f"127.0.0.1:{kafka.ports['SASLS']}", str(kafka.authority.certificate)
    theirs = KafkaProducer(
        bootstrap_servers=address,
        security_protocol="SASL_SSL",
        ssl_cafile=ca,
        sasl_mechanism="SCRAM-SHA-256",
        sasl_plain_username=USER,
        sasl_plain_password=SECRET,
    )
    assert theirs.send(topic, b"1").get(10).topic == topic
    theirs.close()

    class Tokens:
        """As kafka-python and aiokafka want it."""

        def token(self) -> str:
            return unsecured_token(60)

    async def produce() -> None:
        async with AIOKafkaProducer(
            bootstrap_servers=address,
            security_protocol="SASL_SSL",
            ssl_context=ssl.create_default_context(cafile=ca),
            sasl_mechanism="OAUTHBEARER",
            sasl_oauth_token_provider=Tokens(),
        ) as producer:
            await producer.send_and_wait(topic, b"2")

    asyncio.run(produce())
    delivered = threading.Event()
    confluent = ConfluentProducer(
        {
            "bootstrap.servers": address,
            "security.protocol": "sasl_ssl",
            "ssl.ca.location": ca,
            "sasl.mechanisms": "PLAIN",
            "sasl.username": USER,
            "sasl.password": SECRET,
        }
    )
    confluent.produce(topic, b"3", on_delivery=lambda error, _: None if error else delivered.set())
    confluent.flush(10)
    assert delivered.wait(5)
