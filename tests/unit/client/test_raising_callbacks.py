"""What happens when a callback raises: the rows of docs/client.md, each with an error and with SystemExit."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NoReturn

import pytest

import klamm
from klamm.assignors.range import RangeAssignor
from klamm.client.producer.delivery import Delivery
from klamm.clock import SystemClock
from klamm.compat import confluent_kafka
from klamm.errors import RebalanceListenerError, RecordDeserializationError, SaslAuthenticationError
from klamm.net.reactor import Reactor
from klamm.net.security.tokens import TokenSource

PAGE: Final = Path(__file__).parents[3] / "docs" / "client.md"
PATIENCE_S: Final = 10
RECORDS: Final = 3


class Careless:
    """Raises as a callback, and knows that it was called."""

    def __init__(self, error: BaseException) -> None:
        self.error = error
        self.was_called = threading.Event()

    def fail(self, *_arguments: Any) -> NoReturn:
        self.was_called.set()
        raise self.error


@pytest.fixture(params=[ZeroDivisionError("mine"), SystemExit(3)], ids=["error", "exit"])
def careless(request: pytest.FixtureRequest) -> Careless:
    """Of a callback on a thread of klamm's own."""
    return Careless(request.param)


@pytest.fixture
def mistaken() -> Careless:
    """Of a callback on the caller's thread, where SystemExit passes through."""
    return Careless(ZeroDivisionError("mine"))


@pytest.fixture(scope="module")
def broker() -> Iterator[klamm.Broker]:
    with klamm.Broker() as broker, klamm.Producer(bootstrap_servers=broker.bootstrap) as producer:
        for number in range(RECORDS):
            producer.send("numbers", str(number).encode())
        producer.flush(PATIENCE_S)
        yield broker


@pytest.fixture
def consumer_of(broker: klamm.Broker, request: pytest.FixtureRequest) -> Callable[..., klamm.Consumer]:
    def make(*topics: str, **settings: Any) -> klamm.Consumer:
        group = {"group.id": request.node.name, "auto.offset.reset": "earliest"}
        return klamm.Consumer(*topics, group, bootstrap_servers=broker.bootstrap, **settings)

    return make


def logged(caplog: pytest.LogCaptureFixture, name: str) -> bool:
    """Whether there is one error that names the callback."""
    errors = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    return bool(errors) and all(name in message for message in errors)


# --- The producer's ------------------------------------------------------------------------------------


@pytest.mark.parametrize("registers", ["on_delivery", "add_done_callback"])
def test_a_delivery_callback_is_logged_and_others_run(
    broker: klamm.Broker, careless: Careless, registers: str, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[Delivery] = []
    with klamm.Producer(bootstrap_servers=broker.bootstrap, linger_ms=5) as producer:
        if registers == "on_delivery":
            first = producer.send("t", b"x", on_delivery=careless.fail)
        else:
            first = producer.send("t", b"x")
            first.add_done_callback(careless.fail)
        producer.send("t", b"y", on_delivery=heard.append)
        producer.flush(PATIENCE_S)
        assert (first.exception(PATIENCE_S), len(heard)) == (None, 1)
    assert logged(caplog, "Careless.fail")


class Interceptor(klamm.ProducerInterceptor, klamm.ConsumerInterceptor):
    """One of the methods fails."""

    def __init__(self, method: str, fail: Callable[..., Any]) -> None:
        setattr(self, method, fail)


@pytest.mark.parametrize("returns_none", [False, True])
def test_an_interceptor_that_fails_in_on_send_changes_nothing(
    broker: klamm.Broker, mistaken: Careless, returns_none: bool, caplog: pytest.LogCaptureFixture
) -> None:
    fail = mistaken.was_called.clear if returns_none else mistaken.fail
    interceptor = Interceptor("on_send", lambda _record: fail())
    with klamm.Producer(bootstrap_servers=broker.bootstrap, interceptors=[interceptor]) as producer:
        assert producer.send("t", b"x").result(PATIENCE_S).topic == "t"
    assert logged(caplog, "Interceptor failed in on_send")


def test_an_interceptor_that_fails_in_on_acknowledgement_keeps_nobody_else_from_hearing(
    broker: klamm.Broker, careless: Careless, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[Any] = []
    interceptors = [
        Interceptor("on_acknowledgement", careless.fail),
        Interceptor("on_acknowledgement", lambda *outcome: heard.append(outcome)),
    ]
    with klamm.Producer(bootstrap_servers=broker.bootstrap, interceptors=interceptors) as producer:
        producer.send("t", b"x", on_delivery=heard.append)
        producer.flush(PATIENCE_S)
        assert len(heard) == 2
        assert producer.health().is_healthy
    assert logged(caplog, "Interceptor failed in on_acknowledgement")


@pytest.mark.parametrize("setting", ["key_serializer", "value_serializer"])
def test_a_serializer_raises_in_send_and_nothing_is_left(
    broker: klamm.Broker, mistaken: Careless, setting: str
) -> None:
    settings: dict[str, Any] = {setting: mistaken.fail}
    with klamm.Producer(settings, bootstrap_servers=broker.bootstrap) as producer:
        with pytest.raises(ZeroDivisionError):
            producer.send("t", b"x", key=b"k")
        assert len(producer) == 0
        producer.flush(PATIENCE_S)


def test_a_partitioner_raises_in_send(broker: klamm.Broker, mistaken: Careless) -> None:
    with klamm.Producer(bootstrap_servers=broker.bootstrap, partitioner_class=mistaken.fail) as producer:
        with pytest.raises(ZeroDivisionError):
            producer.send("t", b"x")
        producer.flush(PATIENCE_S)


def test_a_partitioner_on_the_producers_thread_fails_its_record(
    broker: klamm.Broker, careless: Careless
) -> None:
    with klamm.Producer(bootstrap_servers=broker.bootstrap, partitioner_class=careless.fail) as producer:
        topic = f"not-known-yet-{type(careless.error).__name__}"
        failure = producer.send(topic, b"x", block=False).exception(PATIENCE_S)
        assert repr(careless.error) in (repr(failure), str(failure).removeprefix("the partitioner raised "))
        assert producer.send("t", b"x", partition=0).result(PATIENCE_S).topic == "t"


# --- The consumer's ------------------------------------------------------------------------------------


@pytest.mark.parametrize("setting", ["key_deserializer", "value_deserializer"])
def test_a_deserializer_raises_in_poll_until_its_record_is_skipped(
    broker: klamm.Broker, mistaken: Careless, setting: str, consumer_of: Callable[..., klamm.Consumer]
) -> None:
    def first_works(data: bytes) -> bytes:
        return data if data == b"0" else mistaken.fail()

    with klamm.Producer(bootstrap_servers=broker.bootstrap) as producer:
        for data in (b"0", b"1", b"0"):
            producer.send(setting, data, data)
    with consumer_of(setting, **{setting: first_works}) as consumer:
        assert [record.offset for record in consumer.poll(PATIENCE_S)] == [0]
        for _ in range(2):
            with pytest.raises(RecordDeserializationError) as raised:
                consumer.poll(PATIENCE_S)
        assert raised.value.__cause__ is mistaken.error
        consumer.seek(raised.value.partition, raised.value.offset + 1)
        assert [record.offset for record in consumer.poll(PATIENCE_S)] == [2]


@pytest.mark.parametrize("returns_none", [False, True])
def test_an_interceptor_that_fails_in_on_consume_changes_nothing(
    mistaken: Careless,
    returns_none: bool,
    consumer_of: Callable[..., klamm.Consumer],
    caplog: pytest.LogCaptureFixture,
) -> None:
    fail = mistaken.was_called.clear if returns_none else mistaken.fail
    with consumer_of("numbers", interceptors=Interceptor("on_consume", lambda _records: fail())) as consumer:
        assert len(consumer.poll(PATIENCE_S)) == RECORDS
    assert logged(caplog, "Interceptor failed in on_consume")


def test_an_interceptor_that_fails_in_on_commit_is_logged(
    mistaken: Careless, consumer_of: Callable[..., klamm.Consumer], caplog: pytest.LogCaptureFixture
) -> None:
    interceptor = Interceptor("on_commit", mistaken.fail)
    with consumer_of("numbers", interceptors=interceptor, enable_auto_commit=False) as consumer:
        consumer.poll(PATIENCE_S)
        consumer.commit()
        consumer.poll(0)
        (committed,) = consumer.committed(consumer.assignment()).values()
        assert committed is not None
        assert committed.offset == RECORDS
    assert logged(caplog, "Interceptor failed in on_commit")


def test_a_listener_that_fails_in_on_assigned_keeps_its_assignment(
    mistaken: Careless, consumer_of: Callable[..., klamm.Consumer], caplog: pytest.LogCaptureFixture
) -> None:
    with consumer_of() as consumer:
        consumer.subscribe(["numbers"], on_assign=mistaken.fail)
        with pytest.raises(RebalanceListenerError, match="on_assigned") as raised:
            consumer.poll(PATIENCE_S)
        assert raised.value.__cause__ is mistaken.error
        assert len(consumer.assignment()) == 1
        assert len(consumer.poll(PATIENCE_S)) == RECORDS
    assert logged(caplog, "on_assigned")


def test_a_listener_that_fails_in_on_lost_goes_on_with_the_next_poll(mistaken: Careless) -> None:
    class Loses(klamm.RebalanceListener):
        def on_lost(self, partitions: list[klamm.TopicPartition]) -> None:
            mistaken.fail()

    with klamm.Broker(clock="virtual") as virtual:
        with klamm.Producer(bootstrap_servers=virtual.bootstrap) as producer:
            producer.send("t", b"x").result(PATIENCE_S)
        consumer = klamm.Consumer(
            bootstrap_servers=virtual.bootstrap, group_id="g", enable_auto_commit=False,
            auto_offset_reset="earliest", max_poll_interval_ms=10_000,
        )  # fmt: skip
        with consumer:
            consumer.subscribe(["t"], Loses())
            assert len(consumer.poll(PATIENCE_S)) == 1
            virtual.clock.advance("11s")
            with pytest.raises(RebalanceListenerError, match="on_lost"):
                consumer.poll(PATIENCE_S)
            assert len(consumer.poll(PATIENCE_S)) == 1


def test_a_listener_that_fails_in_on_revoked_keeps_nobody_from_leaving(
    mistaken: Careless,
    broker: klamm.Broker,
    consumer_of: Callable[..., klamm.Consumer],
    request: pytest.FixtureRequest,
) -> None:
    consumer = consumer_of(enable_auto_commit=False)
    consumer.subscribe(["numbers"], on_revoke=mistaken.fail)
    consumer.poll(PATIENCE_S)
    with pytest.raises(RebalanceListenerError, match="on_revoked"):
        consumer.unsubscribe()
    assert consumer.assignment() == set()
    consumer.subscribe(["numbers"], on_revoke=mistaken.fail)
    consumer.poll(PATIENCE_S)
    with pytest.raises(RebalanceListenerError, match="on_revoked"):
        consumer.close()
    with klamm.Admin(bootstrap_servers=broker.bootstrap) as admin:
        group = admin.describe_groups([request.node.name])[request.node.name]
        assert group.state == "Empty"


def test_an_assignor_raises_in_poll_and_the_next_poll_tries_again(
    careless: Careless, consumer_of: Callable[..., klamm.Consumer]
) -> None:
    class Mine(RangeAssignor):
        name = "mine"

        def assign(self, *arguments: Any, **named: Any) -> Any:
            if not careless.was_called.is_set():
                careless.fail()
            return super().assign(*arguments, **named)

    with consumer_of("numbers", partition_assignment_strategy=[Mine()]) as consumer:
        with pytest.raises((ZeroDivisionError, RuntimeError)) as raised:
            consumer.poll(PATIENCE_S)
        told = [str(raised.value), *getattr(raised.value, "__notes__", [])]
        assert any("assignor mine" in line for line in told)
        assert len(consumer.poll(PATIENCE_S)) == RECORDS


def test_the_callback_of_a_commit_raises_in_poll_and_the_commit_stands(
    mistaken: Careless, consumer_of: Callable[..., klamm.Consumer]
) -> None:
    with consumer_of("numbers", enable_auto_commit=False) as consumer:
        consumer.poll(PATIENCE_S)
        consumer.commit_async(callback=mistaken.fail)
        with pytest.raises(ZeroDivisionError):
            consumer.poll(PATIENCE_S)
        consumer.poll(0)
        (committed,) = consumer.committed(consumer.assignment()).values()
        assert committed is not None
        assert committed.offset == RECORDS


# --- Every client's ------------------------------------------------------------------------------------


def test_a_statistics_callback_is_logged_and_called_again(
    broker: klamm.Broker, careless: Careless, caplog: pytest.LogCaptureFixture
) -> None:
    calls = threading.Semaphore(0)

    def report(_statistics: Any) -> None:
        calls.release()
        careless.fail()

    with klamm.Producer(
        bootstrap_servers=broker.bootstrap, stats_callback=report, statistics_interval_ms=1
    ) as producer:
        assert calls.acquire(timeout=PATIENCE_S)
        assert calls.acquire(timeout=PATIENCE_S)
        assert producer.send("t", b"x").result(PATIENCE_S).topic == "t"
    assert logged(caplog, "report raised")


def test_a_token_function_is_a_failed_login(careless: Careless) -> None:
    reactor = Reactor(SystemClock(), "test")
    reactor.start()
    heard: list[Any] = []
    came = threading.Event()

    def got(*outcome: Any) -> None:
        heard.append(outcome)
        came.set()

    try:
        TokenSource(careless.fail).get(0, reactor.aside, got)
        assert came.wait(PATIENCE_S)
    finally:
        reactor.stop()
    ((token, error),) = heard
    assert token is None
    assert isinstance(error, SaslAuthenticationError)
    assert repr(careless.error) in repr(error.__cause__)


def test_what_a_callback_of_confluents_classes_raises_is_raised_by_poll(
    broker: klamm.Broker, mistaken: Careless
) -> None:
    heard: list[Any] = []
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce("t", b"x", on_delivery=mistaken.fail)
    producer.produce("t", b"y", on_delivery=lambda *outcome: heard.append(outcome))
    with pytest.raises(ZeroDivisionError):
        producer.poll(PATIENCE_S)
    assert producer.flush(PATIENCE_S) == 0
    assert len(heard) == 1
    nobody = confluent_kafka.Producer({"bootstrap.servers": "127.0.0.1:1", "error_cb": mistaken.fail})
    with pytest.raises(ZeroDivisionError):
        nobody.poll(PATIENCE_S)


def test_the_page_has_a_row_for_each_of_these_callbacks() -> None:
    section = PAGE.read_text().split("## When a callback raises\n")[1].split("\n## ")[0]
    first_columns = [line.split("|")[1] for line in section.splitlines() if line.startswith("|")]
    rows = [re.findall(r"`(\w+)[=`]", column) for column in first_columns]
    assert sorted(name for row in rows for name in row) == sorted(
        ["on_delivery", "add_done_callback", "on_send", "on_acknowledgement", "key_serializer",
         "value_serializer", "partitioner_class", "key_deserializer", "value_deserializer", "on_consume",
         "on_commit", "on_assigned", "on_lost", "on_revoked", "assign", "commit_async", "stats_callback",
         "oauth_cb", "error_cb", "stats_cb", "on_delivery", "on_commit"]
    )  # fmt: skip
