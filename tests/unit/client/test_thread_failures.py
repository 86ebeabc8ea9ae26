"""A client whose thread has ended says so, with what ended it; a request that cannot be encoded ends none."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import klamm
import klamm.aio
from klamm.errors import IllegalRequestError, IllegalStateError
from klamm.net.wire import Call
from klamm.protocol.api import ApiKey
from klamm.protocol.messages.list_groups import ListGroupsRequest

CAUSE = "thread has stopped: MemoryError.*out of memory"
PLACE = klamm.TopicPartition("t", 0)
CALLS: tuple[Callable[[Any], Any], ...] = (
    lambda consumer: consumer.poll(0),
    lambda consumer: consumer.commit(),
    lambda consumer: consumer.commit_async({PLACE: 1}),
    lambda consumer: consumer.committed([PLACE]),
    lambda consumer: consumer.seek(PLACE, 0),
    lambda consumer: consumer.pause(PLACE),
    lambda consumer: consumer.subscribe(["t"]),
    lambda consumer: consumer.assign([PLACE]),
    lambda consumer: consumer.unsubscribe(),
    lambda consumer: consumer.enforce_rebalance(),
    lambda consumer: consumer.end_offsets([PLACE]),
    lambda consumer: consumer.list_topics(),
    lambda consumer: consumer.position(PLACE),
    lambda consumer: consumer.store_offsets(offsets={PLACE: 1}),
    lambda consumer: consumer.assignment(),
    lambda consumer: consumer.subscription(),
    lambda consumer: consumer.lag(PLACE),
    lambda consumer: consumer.paused(),
    lambda consumer: consumer.group_metadata(),
)


def die() -> None:
    raise MemoryError("out of memory")


def kill(thread: Any) -> None:
    """End a client's thread as a failure on it would."""
    thread.reactor.submit(die)
    thread.reactor._thread.join(10)


async def awaited(call: Callable[[Any], Any], consumer: Any) -> None:
    result = call(consumer)
    if isinstance(result, Awaitable):
        await result


def settings_of(broker: klamm.Broker) -> dict[str, Any]:
    return {"bootstrap_servers": broker.bootstrap, "group_id": "g", "enable_auto_offset_store": False}


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
class TestWithADeadThread:
    def test_every_call_of_a_consumer_names_what_ended_it(self) -> None:
        with klamm.Broker() as broker:
            consumer: klamm.Consumer[Any, Any] = klamm.Consumer(**settings_of(broker))
            consumer.assign([PLACE])
            kill(consumer._operations.host._thread)  # type: ignore[attr-defined]  # of a ThreadHost
            for call in CALLS:
                with pytest.raises(IllegalStateError, match=CAUSE):
                    call(consumer)
            health = consumer.health()
            assert not health.is_healthy
            assert "MemoryError('out of memory')" in health.problems[0]
            assert health.last_error is not None
            assert "out of memory" in health.last_error
            consumer.close()

    def test_every_call_of_an_asyncio_consumer_names_what_ended_it(self) -> None:
        async def use(broker: klamm.Broker) -> None:
            consumer: klamm.aio.Consumer[Any, Any] = klamm.aio.Consumer(**settings_of(broker))
            await consumer.assign([PLACE])
            kill(consumer._operations.host._thread)  # type: ignore[attr-defined]  # of a ThreadHost
            for call in CALLS:
                with pytest.raises(IllegalStateError, match=CAUSE):
                    await awaited(call, consumer)
            assert not consumer.health().is_healthy
            await consumer.close()

        with klamm.Broker() as broker:
            asyncio.run(use(broker))

    def test_every_call_of_a_producer_names_what_ended_it(self) -> None:
        with klamm.Broker() as broker:
            producer = klamm.Producer(bootstrap_servers=broker.bootstrap, transactional_id="t")
            kill(producer._thread)
            for call in (
                lambda: producer.send("t", b"x"),
                lambda: producer.partitions_for("t"),
                producer.list_topics,
                producer.flush,
                producer.purge,
                producer.init_transactions,
                producer.begin_transaction,
                producer.commit_transaction,
                producer.abort_transaction,
            ):
                with pytest.raises(IllegalStateError, match=CAUSE):
                    call()
            assert not producer.health().is_healthy
            producer.close()

    def test_a_call_of_an_admin_names_what_ended_it(self) -> None:
        with klamm.Broker() as broker:
            admin = klamm.Admin(bootstrap_servers=broker.bootstrap)
            kill(admin._operations._thread)
            with pytest.raises(IllegalStateError, match=CAUSE):
                admin.list_topics()
            admin.close()


@pytest.mark.parametrize("is_connected", [True, False])
def test_a_request_that_cannot_be_encoded_fails_alone(is_connected: bool) -> None:
    with klamm.Broker() as broker, klamm.Admin(bootstrap_servers=broker.bootstrap) as admin:
        if is_connected:
            admin.list_topics()
        thread = admin._operations._thread
        endings: list[Any] = []

        def ask() -> None:
            network = thread.core.network
            node = network.least_loaded()
            assert node is not None
            wrong = ListGroupsRequest(states_filter=[7])  # type: ignore[list-item]  # that is the test
            network.call(node, Call(ApiKey.LIST_GROUPS, wrong, lambda *ending: endings.append(ending), 5000))

        thread.ask(ask).result(10)
        assert "__consumer_offsets" not in admin.list_topics()
        ((response, error),) = endings
        assert response is None
        assert isinstance(error, IllegalRequestError)
        assert "LIST_GROUPS" in str(error)
